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
    /// No norms.
    None,
    /// An RMS norm of each head before its rotation, by one weight `[head_dim]` for all heads.
    PerHead,
    /// One RMS norm over all heads together before their rotation, by a weight `[heads · head_dim]`.
    Whole,
    /// As `PerHead`, but after the rotation.
    Rotated,
}

/// Whether a linear map has a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bias {
    /// The map has no bias; a tensor of that name is ignored.
    Never,
    /// The map has a bias if the checkpoint has one.
    Where,
    /// The map has a bias.
    Always,
}

/// One block: a mixer of tokens, and a feed-forward of each token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Layer {
    /// The half of the block that mixes tokens.
    pub mixer: Mixer,
    /// The half of the block that changes each token separately, after the mixer.
    pub feed_forward: FeedForward,
}

/// The half of a block that changes each token separately.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum FeedForward {
    /// A gated MLP.
    Dense {
        /// Rows of its gate, and of its up matrix.
        width: usize,
    },
    /// A mixture of experts, some of which each token uses.
    Experts(Experts),
}

impl FeedForward {
    /// Activations of a token between the gate and the down matrix: those of all its experts
    /// together.
    pub fn width(&self) -> usize {
        match self {
            Self::Dense { width } => *width,
            Self::Experts(of) => of.used * of.width,
        }
    }
}

/// A layer's mixture of experts. An expert is a gated MLP. A token uses the experts that a router
/// scores highest for it, and the sum of their outputs weighted by these scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Experts {
    /// Number of experts.
    pub count: usize,
    /// Number of experts that a token uses, at most `count`.
    pub used: usize,
    /// Width of an expert.
    pub width: usize,
    /// Function from the router's logits to the experts' scores.
    pub gating: Gating,
    /// Bias on the scores that decides the choice of experts; their outputs are weighted without
    /// it.
    pub choice_bias: Bias,
    /// Whether the scores of the chosen experts are divided by their sum plus [`Experts::EPSILON`].
    pub normalised: bool,
    /// Factor on the scores after that.
    pub scale: f32,
}

impl Experts {
    /// Number added to the sum of the chosen scores before they are divided by it. transformers
    /// adds it for LFM2 only; elsewhere it makes a difference below rounding.
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
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Number of positions visible to a query, its own included; `None`: all earlier ones.
    pub window: Option<u32>,
    /// Index of its rotary embedding in [`Config::ropes`]; `None`: no dimension rotates.
    pub rope: Option<usize>,
    /// Whether the rows of each query head are followed by as many rows of a gate, whose σ
    /// multiplies the head's output.
    pub gate: bool,
    /// Index of an earlier layer whose keys and values it attends to; `None` if it has its own.
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

/// Update rule of a recurrence's state.
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
    /// Update rule of the state.
    pub rule: Rule,
    /// Number of query heads, and as many key heads.
    pub key_heads: usize,
    /// Number of value heads; a multiple of `key_heads`.
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

    /// Numbers in its state: the last inputs of the convolution, and a matrix per value head.
    pub fn state(&self) -> usize {
        (self.taps - 1) * self.channels() + self.values() * self.key_width
    }

    /// Number and width of the groups that the output norm normalises separately.
    pub fn normed(&self) -> [usize; 2] {
        match self.rule {
            Rule::Delta => [self.value_heads, self.value_width],
            Rule::StateSpace => [self.key_heads, self.values() / self.key_heads],
        }
    }

    /// Refuses value heads that are not a multiple of the key heads, and convolutions and states
    /// larger than any known model's. `heads` and `taps` name the keys of the number of value heads
    /// and of the length of the convolution.
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
    /// Number added to every stored norm weight: 1 if the checkpoint stores γ − 1, else 0.
    pub norm_offset: f32,
    /// Norms of queries and keys.
    pub qk_norm: QkNorm,
    /// Whether each value head is normalised, without a weight.
    pub value_norm: bool,
    /// Width of a layer's own input of each token, from an embedding with a part for each layer;
    /// `None` without such inputs.
    pub per_layer: Option<usize>,
    /// Rotary embeddings, which layers name by index.
    pub ropes: Vec<Rope>,
    /// Whether query and key rows are stored for rotating neighbours (2i, 2i + 1); the decoders
    /// rotate halves (i, i + d/2), so that rows are reordered at load.
    pub interleaved: bool,
    /// Biases of queries, keys and values.
    pub qkv_bias: Bias,
    /// Bias of the attention's output.
    pub output_bias: Bias,
    /// Biases of the MLP.
    pub feed_forward_bias: Bias,
    /// Whether the output matrix is the embedding; `None`: it is if the checkpoint has no output
    /// matrix.
    pub tied: Option<bool>,
    /// Activation of the gated MLP.
    pub activation: Activation,
    /// Factor on the embedding.
    pub embedding_scale: f32,
    /// Factor on query · key.
    pub attention_scale: f32,
    /// Factor on a block's output before it is added to the residual stream.
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

    /// Sets the same window in the layers for which `slides` is true.
    #[must_use]
    pub fn windowed(mut self, window: Option<usize>, slides: impl Fn(usize) -> bool) -> Self {
        for (index, attention) in self.attentions_mut() {
            if slides(index) {
                attention.window = window.map(|window| window as u32);
            }
        }
        self
    }

    /// Attentions of the layers that have one.
    pub fn attentions(&self) -> impl Iterator<Item = &Attention> {
        self.layers.iter().filter_map(|layer| match &layer.mixer {
            Mixer::Attention(attention) => Some(attention),
            _ => None,
        })
    }

    /// Attentions of the layers that have one, each with the index of its layer.
    pub fn attentions_mut(&mut self) -> impl Iterator<Item = (usize, &mut Attention)> {
        let layers = self.layers.iter_mut().enumerate();
        layers.filter_map(|(index, layer)| match &mut layer.mixer {
            Mixer::Attention(attention) => Some((index, attention)),
            _ => None,
        })
    }

    /// Recurrences of the layers that have one.
    pub fn recurrences(&self) -> impl Iterator<Item = &Recurrence> {
        self.layers.iter().filter_map(|layer| match &layer.mixer {
            Mixer::Recurrence(of) => Some(of),
            _ => None,
        })
    }

    /// Mixtures of experts of the layers that have one.
    pub fn experts(&self) -> impl Iterator<Item = &Experts> {
        self.layers
            .iter()
            .filter_map(|layer| match &layer.feed_forward {
                FeedForward::Experts(of) => Some(of),
                FeedForward::Dense { .. } => None,
            })
    }

    /// Whether any layer is a gated convolution.
    pub fn convolves(&self) -> bool {
        let convolves = |layer: &Layer| matches!(layer.mixer, Mixer::Convolution(_));
        self.layers.iter().any(convolves)
    }

    /// Whether any layer is recurrent. Its state can't be cut to fewer tokens, as rows of a cache
    /// can. Sessions of such a model keep copies of earlier states ([`crate::states`]), and passes
    /// name the state that they begin from.
    pub fn is_recurrent(&self) -> bool {
        self.layers.iter().any(|layer| layer.mixer.is_recurrent())
    }

    /// Largest width of a layer's MLP; for experts the sum of the widths that a token uses.
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

    /// Refuses numbers that would overflow or divide by zero later.
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

/// Most numbers in a head. The rotary tables are made by this size before any tensor is seen.
const MOST_HEAD: usize = 1 << 14;

/// Most tokens that the convolution of a recurrence sees.
const MOST_TAPS: usize = 16;

/// Most numbers in the matrices of a layer's state: 64 MiB as f32.
const MOST_NUMBERS: u64 = 1 << 24;

/// Most blocks of a model. Each takes a list entry before any tensor is seen.
const MOST_LAYERS: usize = 1024;

/// Pairs of dimensions of a head that rotate together, in the rows as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryPairs {
    /// i and i + d/2, everywhere.
    Halves,
    /// 2i and 2i + 1 in GGUF, whose writer permutes the llama family's rows; halves elsewhere.
    NeighboursInGguf,
    /// 2i and 2i + 1, everywhere.
    Neighbours,
}

/// Activation that `config.json` names, or else the family's. `gelu` is the tanh form in families
/// whose own activation is that; elsewhere, as any that is not supported, it is an error.
fn activation(keys: &Keys<'_>, family: &Family) -> Result<Activation, ModelError> {
    let key = Key("", "hidden_act");
    let named = match keys.word(Key("", "hidden_activation"))? {
        Some(name) => Some(name),
        None => keys.word(key)?,
    };
    match named.as_deref() {
        None => Ok(family.activation),
        // Gemma's first files say `gelu` and mean its tanh form.
        Some("gelu" | "gelu_pytorch_tanh") if family.activation == Activation::Gelu => {
            Ok(Activation::Gelu)
        }
        Some("silu" | "swish") if family.activation == Activation::Silu => Ok(Activation::Silu),
        Some("gelu_pytorch_tanh" | "gelu_new") => Ok(Activation::Gelu),
        Some(_) => Err(keys.wrong(key, "names an activation that is not supported")),
    }
}
