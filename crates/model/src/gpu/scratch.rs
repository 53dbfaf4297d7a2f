//! The GPU memory that passes work in: allocated once for the largest pass, used by all.

use conclave_kernels::{
    Buffer, Channels, ExpertCounts, Gpu, Heads, Recurrence, RecurrentRule, attention_room,
    choice_groups,
};

use crate::config::{self, Attention, Config, Rule};
use crate::error::ModelError;
use crate::pass::rows_of;
use crate::slots::{MOST_DRAFTED, SLOTS};

/// Tokens that run at once; a longer pass runs in portions.
pub(crate) const TOKENS: usize = 256;

/// Rows whose scores are computed at once.
pub(crate) const SCORED: usize = 64;

/// Number of portions of [`SCORED`] for the scores of all tokens in line and of a draft.
const PORTIONS: usize = SLOTS.div_ceil(SCORED);

/// Smallest number of rows of the output matrix in a tile of the scoring kernel.
const TILE: usize = 16;

/// The heads of an attention and their caches.
pub fn heads(of: &Attention, context: usize, exact: bool) -> Heads {
    Heads {
        heads: of.heads,
        kv_heads: of.kv_heads,
        width: of.head_dim,
        capacity: rows_of(context),
        exact,
    }
}

/// The channels of a model's convolutions and their cache.
pub fn channels(c: &Config, context: usize, exact: bool) -> Channels {
    Channels {
        width: c.hidden,
        capacity: rows_of(context),
        exact,
    }
}

/// Number of experts of a layer, and of those that a token uses.
pub fn counts_of(of: &config::Experts) -> ExpertCounts {
    ExpertCounts {
        count: of.count,
        used: of.used,
    }
}

/// The heads of a recurrence, with `slots` slots of states.
pub fn recurrence(of: &config::Recurrence, slots: usize) -> Recurrence {
    Recurrence {
        rule: match of.rule {
            Rule::Delta => RecurrentRule::Delta,
            Rule::StateSpace => RecurrentRule::StateSpace,
        },
        key_heads: of.key_heads,
        value_heads: of.value_heads,
        key_width: of.key_width,
        value_width: of.value_width,
        taps: of.taps,
        tiled: of.tiled,
        slots,
    }
}

/// Activations and small buffers. `[m, …]` where m is [`TOKENS`].
#[derive(Debug)]
pub struct Scratch<B> {
    /// The residual stream, `[m, hidden]`.
    pub stream: B,
    /// The stream after a norm, `[m, hidden]`.
    pub normed: B,
    /// A product before its norm is added to the stream, `[m, hidden]`.
    pub branch_out: B,
    /// Queries, keys and values of a token side by side, with their gates; or the inputs of another
    /// mixer.
    pub projected: B,
    /// Queries, rotated; or a recurrence's queries, keys and values after its convolution.
    pub query: B,
    /// Result of a mixer.
    pub mixed: B,
    /// Attention's partial results.
    pub partials: B,
    /// The gated activations, of the widest MLP or of a layer's own input.
    pub active: B,
    /// Gate and up, if they are separate products.
    pub apart: Option<[B; 2]>,
    /// Buffers of experts, if any layer has them.
    pub experts: Option<Experts<B>>,
    /// Buffers of the layers' own inputs, if there are any.
    pub per_layer: Option<PerLayer<B>>,
    /// Hidden states by slot.
    pub states: B,
    /// Token ids of a pass.
    pub ids: B,
    /// Places of these tokens.
    pub places: B,
    /// Number of rows of a pass, of chunks of attention, first slot, and a zero.
    pub counts: B,
    /// Source row, target row and number of KV rows to move.
    pub moves: B,
    /// Slots whose scores or logits are wanted.
    pub picks: B,
    /// Target id for each slot of `picks`.
    pub targets: B,
    /// Number of rows of each portion, at a multiple of 64 numbers.
    pub portions: B,
    /// Partial scores of a portion.
    pub tiles: B,
    /// Scores, `[picks, 2]`.
    pub scores: B,
    /// Logits of one row, `[vocabulary]`.
    pub logits: B,
    /// Scratch of the sampler, `[vocabulary, 2]`.
    pub sampling: B,
    /// Random numbers of a draft.
    pub random: B,
    /// Ids of the draft.
    pub drawn: B,
    /// Last id drawn, and number of ids drawn.
    pub next: B,
    /// Place of the last token drawn.
    pub place: B,
    /// Number of rows and of chunks of a draft's step, and two zeros.
    pub step: B,
    /// Buffers of recurrent states' runs, if any layer has states.
    pub runs: Option<Runs<B>>,
}

/// State slots in which the tokens of a pass begin and end, as the kernels read them.
#[derive(Debug)]
pub struct Runs<B> {
    /// Run and slot of each token, `[m, 2]`.
    pub steps: B,
    /// First token, tokens and slots of each run, `[m, 4]`.
    pub runs: B,
    /// The same of a draft's first step, and of all others at a multiple of 64 numbers.
    pub drafted: [B; 2],
}

/// Buffers of experts. A choice is an expert of a token; there are m times `used` of them.
#[derive(Debug)]
pub struct Experts<B> {
    /// Logits of a router, `[m, experts]`.
    pub logits: B,
    /// Expert of each choice, `[choices]`.
    pub chosen: B,
    /// Score of each choice, `[choices]`.
    pub scores: B,
    /// The choices in groups, `[groups, 4]`.
    pub groups: B,
    /// Gate and up, `[choices, width]` each.
    pub gated: [B; 2],
    /// Result of each choice, `[choices, hidden]`.
    pub made: B,
}

/// Buffers of the layers' own inputs of each token.
#[derive(Debug)]
pub struct PerLayer<B> {
    /// Own inputs of all layers, `[m, layers, width]`.
    pub parts: B,
    /// Projection of the stream, which is added to the embedding's rows, `[m, layers, width]`.
    pub product: B,
    /// A layer's gate, `[m, width]`.
    pub gate: B,
}

/// Allocates the buffers of [`Scratch`] one after another, or only adds up their sizes.
fn lay_out<B>(
    c: &Config,
    context: usize,
    apart: bool,
    mut take: impl FnMut(usize) -> Result<B, ModelError>,
) -> Result<Scratch<B>, ModelError> {
    let m = TOKENS;
    // Both kinds of caches need the same room here.
    let all: Vec<Heads> = c.attentions().map(|of| heads(of, context, false)).collect();
    let most = |of: &dyn Fn(&Heads) -> usize| all.iter().map(of).max().unwrap_or_default();
    let queries = most(&|heads| heads.heads * heads.width);
    let rows = c
        .attentions()
        .map(|of| heads(of, context, false).gated_row(of.gate));
    let recurrences: Vec<Recurrence> = c.recurrences().map(|of| recurrence(of, 0)).collect();
    let most_recurrent =
        |of: &dyn Fn(&Recurrence) -> usize| recurrences.iter().map(of).max().unwrap_or_default();
    let rows = rows.max().unwrap_or_default();
    let channels = match c.convolves() {
        true => c.hidden,
        false => 0,
    };
    let scored = PORTIONS * SCORED;
    let active = c.feed_forward().max(c.per_layer.unwrap_or(0));
    let mut words = |words: usize| take(4 * words);
    Ok(Scratch {
        stream: words(m * c.hidden)?,
        normed: words(m * c.hidden)?,
        branch_out: words(m * c.hidden)?,
        projected: words(m * rows.max(3 * channels).max(most_recurrent(&Recurrence::row)))?,
        query: words(m * queries.max(most_recurrent(&Recurrence::channels)))?,
        mixed: words(
            m * queries
                .max(channels)
                .max(most_recurrent(&Recurrence::values)),
        )?,
        partials: words(most(&|heads| attention_room(m, *heads)))?,
        active: words(m * active)?,
        apart: match apart {
            true => Some([words(m * c.feed_forward())?, words(m * c.feed_forward())?]),
            false => None,
        },
        experts: match c.experts().next() {
            Some(_) => {
                let most = |of: &dyn Fn(&config::Experts) -> usize| {
                    c.experts().map(of).max().unwrap_or_default()
                };
                let choices = m * most(&|of| of.used);
                let gated = m * most(&|of| of.used * of.width);
                Some(Experts {
                    logits: words(m * most(&|of| of.count))?,
                    chosen: words(choices)?,
                    scores: words(choices)?,
                    groups: words(4 * most(&|of| choice_groups(m, counts_of(of))))?,
                    gated: [words(gated)?, words(gated)?],
                    made: words(choices * c.hidden)?,
                })
            }
            None => None,
        },
        per_layer: match c.per_layer {
            Some(width) => Some(PerLayer {
                parts: words(m * c.layers.len() * width)?,
                product: words(m * c.layers.len() * width)?,
                gate: words(m * width)?,
            }),
            None => None,
        },
        states: words(SLOTS * c.hidden)?,
        ids: words(m)?,
        places: words(4 * m)?,
        counts: words(4)?,
        moves: words(4)?,
        picks: words(scored)?,
        targets: words(scored)?,
        portions: words(scored)?,
        tiles: words(SCORED * (2 * (c.vocabulary.div_ceil(TILE) + PORTIONS) + 1))?,
        scores: words(2 * scored)?,
        logits: words(c.vocabulary)?,
        sampling: words(2 * c.vocabulary)?,
        random: words(MOST_DRAFTED)?,
        drawn: words(MOST_DRAFTED)?,
        next: words(2)?,
        place: words(4)?,
        step: words(4)?,
        runs: match c.is_recurrent() {
            true => Some(Runs {
                steps: words(2 * m)?,
                runs: words(4 * m)?,
                drafted: [words(128)?, words(128)?],
            }),
            false => None,
        },
    })
}

impl Scratch<Buffer> {
    /// Allocates the buffers.
    ///
    /// # Errors
    /// The device's.
    pub fn new(gpu: &Gpu, c: &Config, context: usize, apart: bool) -> Result<Self, ModelError> {
        lay_out(c, context, apart, |bytes| Ok(gpu.allocate(bytes)?))
    }
}

/// Bytes of all buffers.
pub fn bytes(c: &Config, context: usize, apart: bool) -> u64 {
    let mut all = 0;
    // Adding up does not fail.
    let _ = lay_out(c, context, apart, |bytes| {
        all += bytes as u64;
        Ok(())
    });
    all
}
