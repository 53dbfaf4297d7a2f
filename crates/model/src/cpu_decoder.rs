//! The decoder on the CPU: matrices stay quantised, and keys and values are 16 bits a number where
//! matrices are rounded too.

use conclave_cpu::{
    Attention, Cache, Input, Matrix, Seen, Upload, judge, kept, rows, softcap, target_logits,
};
use conclave_kernels::Place;
use conclave_weights::Format;

use crate::config::{Activation, Config, Layer};
use crate::error::ModelError;
use crate::formats::quantised;
use crate::pass::{Pass, TargetScore, rows_of};
use crate::reading::Keep;
use crate::weights::{Block, Linear, Weights};

type Vector = Vec<f32>;

/// A transformer with its KV cache in the memory of the machine.
#[derive(Debug)]
pub struct CpuDecoder {
    config: Config,
    context: usize,
    weights: Weights<Matrix, Vector>,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    ropes: Vec<Vec<f32>>,
    /// Empty while released.
    caches: Vec<Cache>,
    scratch: Scratch,
    /// Whether `scratch.stream` holds the final normed hidden states of a pass.
    ran: bool,
}

/// Activations of one pass, each `[tokens, …]`; kept for their memory.
#[derive(Debug, Default)]
struct Scratch {
    stream: Vec<f32>,
    input: Input,
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    attended: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    added: Vec<f32>,
    scores: Vec<f32>,
}

impl CpuDecoder {
    /// A decoder with an empty KV cache.
    pub fn new(weights: Weights<Matrix, Vector>, config: &Config, context: usize) -> Self {
        let mut decoder = Self {
            config: config.clone(),
            context,
            weights,
            ropes: Vec::new(),
            caches: Vec::new(),
            scratch: Scratch::default(),
            ran: false,
        };
        decoder.set_ropes(false);
        decoder
    }

    /// Takes the short or the long frequencies, where a rotary embedding has both.
    pub fn set_ropes(&mut self, long: bool) {
        let tables = self.config.ropes.iter();
        self.ropes = tables.map(|rope| rope.table(self.context, long)).collect();
    }

    /// Runs a pass: writes its KV rows and leaves its hidden states for
    /// [`logits`](Self::logits) and [`scores`](Self::scores).
    ///
    /// # Errors
    /// [`ModelError::Cpu`] where weights are of other sizes than the configuration.
    pub fn run(&mut self, pass: &Pass) -> Result<(), ModelError> {
        self.ran = false;
        self.reserve();
        let c = &self.config;
        let s = &mut self.scratch;
        s.stream.clear();
        s.stream.resize(pass.len() * c.hidden, 0.0);
        for (row, &id) in s.stream.chunks_exact_mut(c.hidden).zip(&pass.tokens) {
            self.weights.embedding.row(id as usize, row)?;
            row.iter_mut().for_each(|x| *x *= c.stream_scale());
        }
        // Layers have few different windows.
        let mut seen: Vec<(Option<u32>, Vec<Seen>)> = Vec::new();
        for layer in &c.layers {
            if seen.iter().all(|(window, _)| *window != layer.window) {
                let places = pass.places.iter();
                let rows = places.map(|place| rows_seen(place, layer.window)).collect();
                seen.push((layer.window, rows));
            }
        }
        let blocks = self.weights.blocks.iter().zip(&mut self.caches);
        for ((block, cache), layer) in blocks.zip(&c.layers) {
            let of_window = seen.iter().find(|(window, _)| *window == layer.window);
            let seen = of_window.map_or(&[][..], |(_, seen)| seen);
            attend(c, block, cache, layer, &self.ropes, pass, seen, s)?;
            post(c, &block.attention_post_norm, s);
            gate(c, block, s)?;
            post(c, &block.feed_forward_post_norm, s);
        }
        rows::rms_norm(&mut s.stream, &self.weights.norm, c.stream_epsilon());
        self.ran = true;
        Ok(())
    }

    /// Logits `[rows][vocabulary]` after the given tokens of the last pass.
    ///
    /// # Errors
    /// [`ModelError::Order`] without a pass or beyond its tokens.
    pub fn logits(&mut self, rows: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.pick(rows)?;
        let Scratch { input, added, .. } = &mut self.scratch;
        let (weight, bias) = self.weights.head();
        multiply(weight, bias, input, added)?;
        if let Some(cap) = self.config.logit_softcap {
            softcap(added, cap);
        }
        let rows = added.chunks_exact(self.config.vocabulary);
        Ok(rows.map(<[f32]>::to_vec).collect())
    }

    /// Scores of `targets[i]` under the logits after token `rows[i]` of the last pass: raw logits by
    /// one row of the output matrix each, `logprobs` by all of it.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub fn scores(
        &mut self,
        rows: &[usize],
        targets: &[u32],
        logprobs: bool,
    ) -> Result<Vec<TargetScore>, ModelError> {
        self.pick(rows)?;
        let Scratch { input, added, .. } = &mut self.scratch;
        let (weight, bias) = self.weights.head();
        let (bias, cap) = (bias.map(Vec::as_slice), self.config.logit_softcap);
        if !logprobs {
            let logits = target_logits(weight, bias, cap, input, targets)?;
            let score = |logit| TargetScore {
                logit,
                log_sum_exp: None,
            };
            return Ok(logits.into_iter().map(score).collect());
        }
        let judged = judge(weight, bias, cap, input, targets, added)?;
        let score = |judged: conclave_cpu::Judged| TargetScore {
            logit: judged.logit,
            log_sum_exp: Some(judged.log_sum_exp),
        };
        Ok(judged.into_iter().map(score).collect())
    }

    /// Moves KV rows `from .. from + count` to `to ..`, `to <= from`.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) {
        for cache in &mut self.caches {
            cache.move_rows(from, to, count);
        }
    }

    /// Frees the KV cache; the next pass makes it anew.
    pub fn release(&mut self) {
        self.caches = Vec::new();
        self.scratch = Scratch::default();
        self.ran = false;
    }

    /// Allocates the KV cache once, for the whole context.
    fn reserve(&mut self) {
        let (c, rows) = (&self.config, rows_of(self.context));
        // A model of plain numbers is run to be exact, or is small.
        let exact = self
            .weights
            .blocks
            .iter()
            .all(|b| !b.key.weight.is_quantised());
        while self.caches.len() < c.layers.len() {
            let cache = Cache::new(rows, c.kv_heads, c.head_dim, exact);
            self.caches.push(cache);
        }
    }

    /// Takes the hidden states of some tokens of the last pass as input.
    fn pick(&mut self, rows: &[usize]) -> Result<(), ModelError> {
        let (s, hidden) = (&mut self.scratch, self.config.hidden);
        s.normed.clear();
        for &row in rows {
            let state = s.stream.chunks_exact(hidden).nth(row);
            let state = state.filter(|_| self.ran).ok_or(ModelError::Order(
                "no pass has run whose logits could be read",
            ))?;
            s.normed.extend_from_slice(state);
        }
        s.input.set(&s.normed, hidden);
        Ok(())
    }
}

impl Weights<Matrix, Vector> {
    /// The output matrix and its bias.
    fn head(&self) -> (&Matrix, Option<&Vector>) {
        match &self.head {
            Some(head) => (&head.weight, head.bias.as_ref()),
            None => (&self.embedding, None),
        }
    }
}

/// The cache's rows that a token sees in a layer with that window.
fn rows_seen(place: &Place, window: Option<u32>) -> Seen {
    let [position, row, start, prefix] =
        [place.position, place.row, place.start, place.prefix].map(|at| at as usize);
    let from = |at: usize| window.map_or(0, |window| (at + 1).saturating_sub(window as usize));
    Seen {
        prefix: from(position).min(prefix)..prefix,
        own: from(row).max(start)..row + 1,
    }
}

/// Attention of one block with its output product, into `s.added`.
#[expect(
    clippy::too_many_arguments,
    reason = "a block's parts, each of another owner"
)]
fn attend(
    c: &Config,
    block: &Block<Matrix, Vector>,
    cache: &mut Cache,
    layer: &Layer,
    ropes: &[Vec<f32>],
    pass: &Pass,
    seen: &[Seen],
    s: &mut Scratch,
) -> Result<(), ModelError> {
    before(c, &block.attention_norm, s);
    product(&block.query, &s.input, &mut s.query)?;
    product(&block.key, &s.input, &mut s.key)?;
    product(&block.value, &s.input, &mut s.value)?;
    // Over each head or over all together, as long as the weight is.
    for (x, norm) in [
        (&mut s.query, &block.query_norm),
        (&mut s.key, &block.key_norm),
    ] {
        if let Some(norm) = norm {
            rows::rms_norm(x, norm, c.norm_epsilon);
        }
    }
    let (query, kv) = (c.query_width(), c.kv_width());
    let heads = s.query.chunks_exact_mut(query);
    let heads = heads.zip(s.key.chunks_exact_mut(kv));
    let places = pass.places.iter().zip(s.value.chunks_exact(kv));
    for ((query, key), (place, value)) in heads.zip(places) {
        if let Some(rope) = layer.rope {
            let rotary = c.ropes[rope].rotary_dim;
            let turn = &ropes[rope][place.position as usize * rotary..][..rotary];
            rows::rotate(query, c.head_dim, turn);
            rows::rotate(key, c.head_dim, turn);
        }
        cache.write(place.row as usize, key, value);
    }
    let attention = Attention {
        heads: c.heads,
        scale: c.attention_scale,
        softcap: c.attention_softcap,
    };
    s.attended.resize(s.query.len(), 0.0);
    attention.run(cache, &s.query, seen, &mut s.scores, &mut s.attended);
    s.input.set(&s.attended, query);
    product(&block.output, &s.input, &mut s.added)
}

/// The gated MLP of one block, into `s.added`.
fn gate(c: &Config, block: &Block<Matrix, Vector>, s: &mut Scratch) -> Result<(), ModelError> {
    before(c, &block.feed_forward_norm, s);
    product(&block.gate, &s.input, &mut s.gate)?;
    product(&block.up, &s.input, &mut s.up)?;
    let activation = match c.activation {
        Activation::Silu => rows::Activation::Silu,
        Activation::Gelu => rows::Activation::Gelu,
    };
    rows::gated(activation, &mut s.gate, &s.up);
    s.input.set(&s.gate, c.feed_forward);
    product(&block.down, &s.input, &mut s.added)
}

/// Takes the stream as input as a block reads it: behind its norm, where it has one.
fn before(c: &Config, norm: &Option<Vector>, s: &mut Scratch) {
    match norm {
        Some(norm) => {
            s.normed.clone_from(&s.stream);
            rows::rms_norm(&mut s.normed, norm, c.stream_epsilon());
            s.input.set(&s.normed, c.hidden);
        }
        None => s.input.set(&s.stream, c.hidden),
    }
}

/// Adds `s.added` to the stream: behind its norm, where it has one.
fn post(c: &Config, norm: &Option<Vector>, s: &mut Scratch) {
    if let Some(norm) = norm {
        rows::rms_norm(&mut s.added, norm, c.norm_epsilon);
    }
    rows::add(&mut s.stream, &s.added);
}

/// `x · Wᵀ + bias`.
fn product(
    linear: &Linear<Matrix, Vector>,
    input: &Input,
    out: &mut Vec<f32>,
) -> Result<(), ModelError> {
    multiply(&linear.weight, linear.bias.as_ref(), input, out)
}

fn multiply(
    weight: &Matrix,
    bias: Option<&Vector>,
    input: &Input,
    out: &mut Vec<f32>,
) -> Result<(), ModelError> {
    out.resize(input.rows() * weight.rows(), 0.0);
    weight.times(input, 0..weight.rows(), out)?;
    if let Some(bias) = bias {
        rows::add_bias(out, bias);
    }
    Ok(())
}

/// Keeps weights as the CPU's products read them.
#[derive(Debug)]
pub struct CpuWeights {
    /// What plain numbers are rounded to.
    pub quantise: Option<Format>,
}

impl Keep for CpuWeights {
    type Matrix = Matrix;
    type Vector = Vector;
    type Upload = Upload;

    fn format(&self, stored: Format, cols: usize) -> Option<Format> {
        Some(quantised(stored, cols, self.quantise).unwrap_or_else(|| kept(stored, cols)))
    }

    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<Upload, ModelError> {
        Ok(Upload::begin(format, rows, cols)?)
    }

    fn push(&self, upload: &mut Upload, rows: &[u8]) -> Result<(), ModelError> {
        Ok(upload.push(rows)?)
    }

    fn finish(&self, upload: Upload) -> Result<Matrix, ModelError> {
        Ok(upload.finish()?)
    }

    fn vector(&self, values: Vec<f32>) -> Result<Vector, ModelError> {
        Ok(values)
    }
}
