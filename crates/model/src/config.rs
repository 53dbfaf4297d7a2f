//! All that distinguishes one decoder-only transformer from another.

use serde::Serialize;

use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};
use crate::rope::Rope;
use crate::rope_keys;

/// The activation of the gated MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// x · σ(x).
    Silu,
    /// The tanh form of GELU.
    Gelu,
}

/// Norms of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QkNorm {
    /// There are none.
    None,
    /// Over each head, before it rotates.
    PerHead,
    /// Over all heads together, before they rotate.
    Whole,
    /// Over each head, after its rotation.
    Rotated,
}

/// Whether a product has a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bias {
    /// The product has no bias; a tensor of that name is ignored.
    Never,
    /// The product has a bias if the checkpoint has one.
    Where,
    /// The product has a bias.
    Always,
}

/// One block: a mixer of tokens, and a feed-forward of each token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Layer {
    /// Mixes tokens.
    pub mixer: Mixer,
    /// Changes each token by itself, after the mixer.
    pub feed_forward: FeedForward,
}

/// The half of a block that changes each token by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum FeedForward {
    /// A gated MLP.
    Dense {
        /// Its width.
        width: usize,
    },
    /// Some of many gated MLPs, which the token chooses.
    Experts(Experts),
}

impl FeedForward {
    /// Numbers of a token after the gates, those of all its experts together.
    pub fn width(&self) -> usize {
        match self {
            Self::Dense { width } => *width,
            Self::Experts(of) => of.used * of.width,
        }
    }
}

/// A layer's mixture of experts: a token goes through the gated MLPs that a router scores highest
/// for it, and their outputs are added up by these scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Experts {
    /// How many there are.
    pub count: usize,
    /// How many of them a token goes through, at most `count`.
    pub used: usize,
    /// Width of each.
    pub width: usize,
    /// Makes scores of the router's logits.
    pub gating: Gating,
    /// Whether a bias is added to the scores for the choice alone.
    pub choice_bias: Bias,
    /// Whether the scores of those chosen are divided by their sum, and [`Experts::EPSILON`].
    pub normalised: bool,
    /// Factor on the scores then.
    pub scale: f32,
}

impl Experts {
    /// Added to the sum that scores are divided by, as transformers does for LFM2; other families
    /// add nothing, which differs by less than a rounding.
    pub const EPSILON: f32 = 1e-6;
}

/// Function from a router's logits to scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gating {
    /// eˣ of each, divided by the sum over all experts.
    Softmax,
    /// σ(x) of each.
    Sigmoid,
}

/// The half of a block that mixes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Mixer {
    /// Attention to the tokens that a query sees.
    Attention(Attention),
    /// A gated convolution over the last tokens.
    Convolution(Convolution),
    /// A linear recurrence: a state that each token changes.
    Recurrence(Recurrence),
}

impl Mixer {
    /// Whether the mixer keeps earlier tokens as one state, which can't be cut, and not as a row
    /// each.
    pub fn is_recurrent(&self) -> bool {
        matches!(self, Self::Recurrence(_))
    }
}

/// A layer's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Positions a query sees back from itself, itself included; all without.
    pub window: Option<u32>,
    /// Index of its rotary embedding in [`Config::ropes`]; none rotates nothing.
    pub rope: Option<usize>,
    /// Whether the rows of each query head are followed by as many rows of a gate, whose σ
    /// multiplies the head's output.
    pub gate: bool,
    /// The layer before it whose keys and values it attends to, where it has none of its own.
    pub shares: Option<usize>,
}

impl Attention {
    /// Width of all query heads together.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Rows of the query matrix: the query heads, and their gates.
    pub fn query_rows(&self) -> usize {
        self.query_width() * if self.gate { 2 } else { 1 }
    }

    /// Width of all key (or value) heads together.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// A layer's gated convolution (LFM2): of B, C and x, each as wide as the stream,
/// C · conv(B · x).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Convolution {
    /// Tokens that one sees, itself included.
    pub taps: usize,
}

/// How a token changes the state of a recurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The gated delta rule (Qwen3.5): the state adds the difference between a value and the one
    /// that it already holds for the key. The norm of a value head's output comes before its gate.
    Delta,
    /// Mamba-2's state space (Granite 4.0-H): the larger the factor on an added value, the more the
    /// state decays. It calls queries C, keys B, values x. The norm of all heads comes after their
    /// gate.
    StateSpace,
}

/// A layer's linear recurrence: queries, keys and values go through a short convolution, and each
/// value head keeps a matrix `[key_width, value_width]` that a token decays and adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Recurrence {
    /// How a token changes the state.
    pub rule: Rule,
    /// Query heads, and as many key heads.
    pub key_heads: usize,
    /// Value heads; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Width of a query or key head.
    pub key_width: usize,
    /// Width of a value head.
    pub value_width: usize,
    /// Tokens that the convolution sees, itself included.
    pub taps: usize,
    /// Value head i is of key head i mod `key_heads`, not of i / (`value_heads` / `key_heads`).
    pub tiled: bool,
}

impl Recurrence {
    /// Width of all value heads together.
    pub fn values(&self) -> usize {
        self.value_heads * self.value_width
    }

    /// Width of queries, keys and values together, which the convolution goes over.
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_width + self.values()
    }

    /// Numbers of its state: the convolution's last inputs and the matrices.
    pub fn state(&self) -> usize {
        (self.taps - 1) * self.channels() + self.values() * self.key_width
    }

    /// Heads that are normed by themselves, and how wide they are.
    pub fn normed(&self) -> [usize; 2] {
        match self.rule {
            Rule::Delta => [self.value_heads, self.value_width],
            Rule::StateSpace => [self.key_heads, self.values() / self.key_heads],
        }
    }

    /// Refuses heads that do not fit each other, by the name of how many of values there are, and
    /// convolutions and states beyond any known model's.
    ///
    /// # Errors
    /// [`ModelError::Key`].
    pub fn check(&self, keys: &Keys<'_>, heads: Key, taps: Key) -> Result<(), ModelError> {
        if !self.value_heads.is_multiple_of(self.key_heads) {
            return Err(keys.wrong(heads, "is no multiple of the key heads"));
        }
        if !(2..=MOST_TAPS).contains(&self.taps) {
            return Err(keys.wrong(taps, "is no length of a short convolution"));
        }
        let all = |heads: usize, width: usize| heads as u64 * width as u64;
        let values = all(self.value_heads, self.value_width);
        let wide = [all(self.key_heads, self.key_width), values]
            .iter()
            .any(|&width| width > crate::keys::LARGEST as u64);
        if wide || values * self.key_width as u64 > MOST_NUMBERS {
            return Err(keys.wrong(heads, "makes a state beyond any known model's"));
        }
        Ok(())
    }
}

/// All that distinguishes one decoder-only transformer from another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// The family's name in GGUF.
    pub architecture: String,
    /// Rows of the embedding and of the output matrix.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// The blocks, one after another.
    pub layers: Vec<Layer>,
    /// Longest context the model was made for, in tokens.
    pub context: usize,
    /// ε of every RMSNorm.
    pub norm_epsilon: f32,
    /// Added to every stored norm weight (1 where a checkpoint stores γ − 1).
    pub norm_offset: f32,
    /// Norms of queries and keys.
    pub qk_norm: QkNorm,
    /// Each head of values is normed, without a weight.
    pub value_norm: bool,
    /// Width of what each layer is given of each token besides the stream, from an embedding with a
    /// part for each layer.
    pub per_layer: Option<usize>,
    /// The rotary embeddings that layers name.
    pub ropes: Vec<Rope>,
    /// Query and key rows are stored for rotating neighbours (2i, 2i + 1); the decoders rotate
    /// halves (i, i + d/2), so rows are put in that order while loading.
    pub interleaved: bool,
    /// Biases of queries, keys and values.
    pub qkv_bias: Bias,
    /// Bias of the attention's output.
    pub output_bias: Bias,
    /// Biases of the MLP.
    pub feed_forward_bias: Bias,
    /// The output matrix is the embedding; `None` where a missing one says so.
    pub tied: Option<bool>,
    /// Activation of the gated MLP.
    pub activation: Activation,
    /// Factor on the embedding.
    pub embedding_scale: f32,
    /// Factor on query · key.
    pub attention_scale: f32,
    /// Factor on what a block adds to the residual stream.
    pub residual_scale: f32,
    /// Factor on the logits.
    pub logit_scale: f32,
    /// Attention scores become `cap · tanh(score / cap)`.
    pub attention_softcap: Option<f32>,
    /// Logits become `cap · tanh(logit / cap)`.
    pub logit_softcap: Option<f32>,
}

impl Config {
    /// Reads the configuration; the vocabulary is the embedding's rows.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a key that is missing, zero, or inconsistent with another;
    /// [`ModelError::RopeScaling`] for a scaling that is not known.
    pub fn read(keys: &Keys<'_>, family: &Family, vocabulary: usize) -> Result<Self, ModelError> {
        let config = (family.shape)(keys, Self::plain(keys, family, vocabulary)?)?;
        config.check(keys)?;
        Ok(config)
    }

    /// Reads the settings that all families share.
    fn plain(keys: &Keys<'_>, family: &Family, vocabulary: usize) -> Result<Self, ModelError> {
        let layers = keys.size(Key("block_count", "num_hidden_layers"))?;
        if layers > MOST_LAYERS {
            let key = Key("block_count", "num_hidden_layers");
            return Err(keys.wrong(key, "is beyond any known model"));
        }
        let hidden = keys.size(Key("embedding_length", "hidden_size"))?;
        let heads = keys.size(HEADS)?;
        // GGUF says 0 of a layer that has no attention.
        let kv_heads = match keys.layer_sizes(KV_HEADS, layers)? {
            Some(listed) => listed,
            None => vec![heads; layers],
        };
        let head_dim = match keys.optional_size(HEAD_DIM)? {
            Some(width) => width,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => return Err(keys.wrong(HEADS, "does not divide the hidden width")),
        };
        let value_key = Key("attention.value_length", "");
        if keys.optional_size(value_key)?.unwrap_or(head_dim) != head_dim {
            return Err(keys.wrong(value_key, "differs from key_length"));
        }
        let feed_forward = keys
            .layer_sizes(FEED_FORWARD, layers)?
            .ok_or_else(|| keys.wrong(FEED_FORWARD, "is missing"))?;
        let layer = |(kv_heads, feed_forward)| Layer {
            mixer: Mixer::Attention(Attention {
                heads,
                kv_heads,
                head_dim,
                window: None,
                rope: Some(0),
                gate: false,
                shares: None,
            }),
            feed_forward: FeedForward::Dense {
                width: feed_forward,
            },
        };
        let gguf = keys.is_gguf();
        // GGUF has a bias where it has the tensor; `config.json` says so.
        let bias = |asked: Option<bool>| match (gguf, asked) {
            (true, _) => Bias::Where,
            (false, Some(true)) => Bias::Always,
            (false, _) => Bias::Never,
        };
        let attention_bias = keys.flag(Key("", "attention_bias"))?;
        let epsilon = Key("attention.layer_norm_rms_epsilon", "rms_norm_eps");
        let norm_epsilon = match keys.optional_float(epsilon)? {
            Some(epsilon) => epsilon,
            None => keys
                .optional_float(Key("", "norm_eps"))?
                .map_or_else(|| keys.float(epsilon), Ok)?,
        };
        Ok(Self {
            architecture: family.gguf.to_owned(),
            vocabulary,
            hidden,
            layers: kv_heads.into_iter().zip(feed_forward).map(layer).collect(),
            context: keys.size(Key("context_length", "max_position_embeddings"))?,
            norm_epsilon,
            norm_offset: if gguf { 0.0 } else { family.norm_offset },
            qk_norm: family.qk_norm,
            value_norm: false,
            per_layer: None,
            ropes: vec![rope_keys::read(keys, head_dim)?],
            interleaved: match family.pairs {
                RotaryPairs::Halves => false,
                RotaryPairs::NeighboursInGguf => gguf,
                RotaryPairs::Neighbours => true,
            },
            qkv_bias: bias(attention_bias),
            output_bias: bias(attention_bias),
            feed_forward_bias: bias(keys.flag(Key("", "mlp_bias"))?),
            tied: keys.flag(Key("", "tie_word_embeddings"))?,
            activation: activation(keys, family)?,
            embedding_scale: 1.0,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            residual_scale: 1.0,
            logit_scale: 1.0,
            attention_softcap: None,
            logit_softcap: None,
        })
    }

    /// The same window in the layers for which `slides` is true.
    #[must_use]
    pub fn windowed(mut self, window: Option<usize>, slides: impl Fn(usize) -> bool) -> Self {
        for (index, attention) in self.attentions_mut() {
            if slides(index) {
                attention.window = window.map(|window| window as u32);
            }
        }
        self
    }

    /// The layers that attend.
    pub fn attentions(&self) -> impl Iterator<Item = &Attention> {
        self.layers.iter().filter_map(|layer| match &layer.mixer {
            Mixer::Attention(attention) => Some(attention),
            _ => None,
        })
    }

    /// The layers that attend, with their numbers among all.
    pub fn attentions_mut(&mut self) -> impl Iterator<Item = (usize, &mut Attention)> {
        let layers = self.layers.iter_mut().enumerate();
        layers.filter_map(|(index, layer)| match &mut layer.mixer {
            Mixer::Attention(attention) => Some((index, attention)),
            _ => None,
        })
    }

    /// The layers that are recurrences.
    pub fn recurrences(&self) -> impl Iterator<Item = &Recurrence> {
        self.layers.iter().filter_map(|layer| match &layer.mixer {
            Mixer::Recurrence(of) => Some(of),
            _ => None,
        })
    }

    /// The layers' mixtures of experts.
    pub fn experts(&self) -> impl Iterator<Item = &Experts> {
        self.layers
            .iter()
            .filter_map(|layer| match &layer.feed_forward {
                FeedForward::Experts(of) => Some(of),
                FeedForward::Dense { .. } => None,
            })
    }

    /// Whether some layer is a gated convolution.
    pub fn convolves(&self) -> bool {
        let convolves = |layer: &Layer| matches!(layer.mixer, Mixer::Convolution(_));
        self.layers.iter().any(convolves)
    }

    /// Whether a text has a state that can't be cut: sessions then keep some of its states
    /// ([`crate::states`]), and passes say which they begin from.
    pub fn is_recurrent(&self) -> bool {
        self.layers.iter().any(|layer| layer.mixer.is_recurrent())
    }

    /// Width of the widest MLP, or of all experts of a token together.
    pub fn feed_forward(&self) -> usize {
        let widths = self.layers.iter().map(|layer| layer.feed_forward.width());
        widths.max().unwrap_or_default()
    }

    /// Factor on the embedding where the residual stream is run as x / `residual_scale`, so that
    /// blocks add to the stream without a factor.
    pub fn stream_scale(&self) -> f32 {
        self.embedding_scale / self.residual_scale
    }

    /// ε of a norm of the stream x / m, with m = `residual_scale`: ε / m².
    pub fn stream_epsilon(&self) -> f32 {
        self.norm_epsilon / (self.residual_scale * self.residual_scale)
    }

    /// Factor on the rows of the per-layer embedding, which has `width` numbers for each layer:
    /// √½ · √`width`, where √`width` is the usual factor on an embedding.
    pub fn per_layer_scale(width: usize) -> f32 {
        (width as f32 / 2.0).sqrt()
    }

    /// ε of the norm of the stream's projection to which the per-layer rows are added. The family
    /// norms the projection divided by √hidden, so that ε of the undivided one is `hidden` times
    /// as large.
    pub fn per_layer_epsilon(&self) -> f32 {
        self.stream_epsilon() * self.hidden as f32
    }

    /// Longest text, in tokens, that uses the short frequencies of a rotary embedding with two
    /// sets.
    pub fn rope_switches_at(&self) -> Option<usize> {
        self.ropes.iter().find_map(Rope::switches_at)
    }

    /// Refuses numbers that would overflow or divide by zero further on.
    fn check(&self, keys: &Keys<'_>) -> Result<(), ModelError> {
        for attention in self.attentions() {
            if attention.query_width() > crate::keys::LARGEST {
                return Err(keys.wrong(HEADS, "makes heads wider than any known model's"));
            }
            if attention.head_dim > MOST_HEAD {
                return Err(keys.wrong(HEAD_DIM, "is beyond any known model"));
            }
            if attention.kv_heads == 0 || attention.heads % attention.kv_heads != 0 {
                return Err(keys.wrong(KV_HEADS, "does not divide the number of heads"));
            }
        }
        let width = |layer: &Layer| layer.feed_forward.width();
        if self.layers.iter().any(|layer| width(layer) == 0) {
            return Err(keys.wrong(FEED_FORWARD, "is zero"));
        }
        let base = Key("rope.freq_base", "rope_theta");
        for rope in &self.ropes {
            let frequencies = rope.frequencies(false).into_iter();
            let sound = frequencies
                .chain([rope.attention_factor])
                .all(f32::is_finite);
            if rope.base <= 1.0 || !sound {
                return Err(keys.wrong(base, "and its scaling give no finite frequencies"));
            }
        }
        Ok(())
    }
}

const HEADS: Key = Key("attention.head_count", "num_attention_heads");
const HEAD_DIM: Key = Key("attention.key_length", "head_dim");
const FEED_FORWARD: Key = Key("feed_forward_length", "intermediate_size");
const KV_HEADS: Key = Key("attention.head_count_kv", "num_key_value_heads");

/// Numbers in the widest head there is a use for: tables are made of it before any tensor is seen.
const MOST_HEAD: usize = 1 << 14;

/// Tokens that the convolution of a recurrence sees, at most.
const MOST_TAPS: usize = 16;

/// Numbers in the matrices of a layer's state, at most: 64 MiB of them.
const MOST_NUMBERS: u64 = 1 << 24;

/// Blocks of the deepest model there is a use for: each is a list entry before any tensor is seen.
const MOST_LAYERS: usize = 1024;

/// Which dimensions of a head rotate together in the rows as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryPairs {
    /// i and i + d/2, everywhere.
    Halves,
    /// 2i and 2i + 1 in GGUF, whose writer permutes the llama family's rows; halves elsewhere.
    NeighboursInGguf,
    /// 2i and 2i + 1, everywhere.
    Neighbours,
}

/// The family's activation, unless `config.json` names one that is not it.
fn activation(keys: &Keys<'_>, family: &Family) -> Result<Activation, ModelError> {
    let key = Key("", "hidden_act");
    let named = match keys.word(Key("", "hidden_activation"))? {
        Some(name) => Some(name),
        None => keys.word(key)?,
    };
    match named.as_deref() {
        // Gemma's first files say `gelu` and mean its tanh form.
        None => Ok(family.activation),
        Some("gelu" | "gelu_pytorch_tanh") if family.activation == Activation::Gelu => {
            Ok(Activation::Gelu)
        }
        Some("silu" | "swish") if family.activation == Activation::Silu => Ok(Activation::Silu),
        Some("gelu_pytorch_tanh" | "gelu_new") => Ok(Activation::Gelu),
        Some(_) => Err(keys.wrong(key, "names an activation that is not supported")),
    }
}
