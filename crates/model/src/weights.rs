//! All weights of a decoder, generic over their storage: the plan of a checkpoint's tensors, burn
//! tensors and GPU matrices are all [`Weights`].

use crate::config;

/// All weights of a decoder-only transformer, its matrices as `M`, its vectors as `V`.
#[derive(Debug, Clone)]
pub struct Weights<M, V> {
    /// `[vocabulary, hidden]`.
    pub embedding: M,
    /// Weights of the layers' own inputs.
    pub per_layer: Option<PerLayer<M, V>>,
    /// The blocks, one after another.
    pub blocks: Vec<Block<M, V>>,
    /// The final norm's weight, `[hidden]`.
    pub norm: V,
    /// `[vocabulary, hidden]`; `None` where the embedding is the output matrix too.
    pub head: Option<Linear<M, V>>,
}

/// Weights of each layer's own input of a token: √½ times the sum of a row of an embedding and of a
/// normalised projection of the stream before the first block.
#[derive(Debug, Clone)]
pub struct PerLayer<M, V> {
    /// `[vocabulary, layers · width]`.
    pub embedding: M,
    /// `[layers · width, hidden]`.
    pub projection: M,
    /// Weight of the norm of the projection, times √½, `[width]`.
    pub norm: V,
}

/// Weights that add a layer's own input, times a gate of the stream, to the stream.
#[derive(Debug, Clone)]
pub struct PerLayerInput<M, V> {
    /// `[width, hidden]`.
    pub gate: Linear<M, V>,
    /// `[hidden, width]`.
    pub projection: Linear<M, V>,
    /// Norm of the projection, `[hidden]`.
    pub norm: V,
}

/// The weights of one block: a mixer and a feed-forward, each between norms.
#[derive(Debug, Clone)]
pub struct Block<M, V> {
    /// Norm before the mixer, `[hidden]`.
    pub mixer_norm: Option<V>,
    /// The mixer.
    pub mixer: Mixer<M, V>,
    /// Norm of the mixer's output, `[hidden]`.
    pub mixer_post_norm: Option<V>,
    /// Norm before the MLP, `[hidden]`.
    pub feed_forward_norm: Option<V>,
    /// The MLP, or experts.
    pub feed_forward: FeedForward<M, V>,
    /// Norm of the MLP's output, `[hidden]`.
    pub feed_forward_post_norm: Option<V>,
    /// Weights that add the layer's own input, after the MLP.
    pub per_layer: Option<PerLayerInput<M, V>>,
    /// Factor on the stream at the end of the block: one number.
    pub scale: Option<V>,
}

/// The weights of a [`config::FeedForward`].
#[derive(Debug, Clone)]
pub enum FeedForward<M, V> {
    /// A gated MLP.
    Dense(Mlp<M, V>),
    /// A mixture of experts.
    Experts(Experts<M, V>),
}

/// The weights of a gated MLP.
#[derive(Debug, Clone)]
pub struct Mlp<M, V> {
    /// `[width, hidden]`.
    pub gate: Linear<M, V>,
    /// `[width, hidden]`.
    pub up: Linear<M, V>,
    /// `[hidden, width]`.
    pub down: Linear<M, V>,
}

/// The weights of a mixture of experts; a matrix holds the rows of all experts, one expert below
/// the other.
#[derive(Debug, Clone)]
pub struct Experts<M, V> {
    /// Number, width and choice of the experts.
    pub of: config::Experts,
    /// Router, `[count, hidden]`.
    pub router: M,
    /// Bias on the scores for the choice of experts, `[count]`.
    pub choice_bias: Option<V>,
    /// `[count · width, hidden]`.
    pub gate: M,
    /// `[count · width, hidden]`.
    pub up: M,
    /// `[count · hidden, width]`.
    pub down: M,
}

/// The weights of a [`config::Mixer`].
#[derive(Debug, Clone)]
pub enum Mixer<M, V> {
    /// Attention.
    Attention(Attention<M, V>),
    /// A gated convolution.
    Convolution(Convolution<M, V>),
    /// A linear recurrence.
    Recurrence(Recurrence<M, V>),
}

/// The weights of an attention.
#[derive(Debug, Clone)]
pub struct Attention<M, V> {
    /// Its heads, its window and its rotary embedding.
    pub of: config::Attention,
    /// `[heads · head_dim, hidden]`; with gates `[heads · 2 · head_dim, hidden]`, each after its
    /// head.
    pub query: Linear<M, V>,
    /// `[head_dim]`, or the width of all query heads.
    pub query_norm: Option<V>,
    /// Weights of keys and values; `None` for a layer that attends to another's.
    pub own: Option<KeysAndValues<M, V>>,
    /// `[hidden, heads · head_dim]`.
    pub output: Linear<M, V>,
}

/// The weights that make keys and values.
#[derive(Debug, Clone)]
pub struct KeysAndValues<M, V> {
    /// `[kv_heads · head_dim, hidden]`.
    pub key: Linear<M, V>,
    /// `[head_dim]`, or the width of all key heads.
    pub key_norm: Option<V>,
    /// `[kv_heads · head_dim, hidden]`.
    pub value: Linear<M, V>,
}

/// The weights of a gated convolution.
#[derive(Debug, Clone)]
pub struct Convolution<M, V> {
    /// Its taps.
    pub of: config::Convolution,
    /// B, C and x below each other, `[3 · hidden, hidden]`.
    pub input: Linear<M, V>,
    /// Factors of each channel, the oldest token's first, `[hidden, taps]`.
    pub taps: V,
    /// Bias of the convolution, `[hidden]`.
    pub bias: Option<V>,
    /// `[hidden, hidden]`.
    pub output: Linear<M, V>,
}

/// The weights of a linear recurrence.
#[derive(Debug, Clone)]
pub struct Recurrence<M, V> {
    /// Its rule, its heads and its taps.
    pub of: config::Recurrence,
    /// Projection to queries, keys and values, their rows below each other, `[channels, hidden]`;
    /// in a state space to values, keys and queries.
    pub input: Linear<M, V>,
    /// The output's gate, `[values, hidden]`.
    pub gate: Linear<M, V>,
    /// Projection to the share b of a new value, before its σ, `[value_heads, hidden]`; `None` for
    /// a state space, which derives it from the decay's.
    pub share: Option<Linear<M, V>>,
    /// Projection to the decay, before its bias and softplus, `[value_heads, hidden]`.
    pub decay: Linear<M, V>,
    /// Bias of `decay`, `[value_heads]`.
    pub decay_bias: V,
    /// Factor of each value head on the softplus of its decay, below 0, `[value_heads]`.
    pub decay_rate: V,
    /// Factors of each channel, the oldest token's first, `[channels, taps]`.
    pub taps: V,
    /// Bias of the convolution, `[channels]`.
    pub taps_bias: Option<V>,
    /// Factor d of a state space, `[value_heads]`: `d · value` is added to the output of each
    /// value head.
    pub skip: Option<V>,
    /// Norm of each value head `[value_width]`, or of all of them together `[values]`.
    pub norm: V,
    /// `[hidden, values]`.
    pub output: Linear<M, V>,
}

/// A linear map: its matrix `[outputs, inputs]` and, if it has one, its bias `[outputs]`.
#[derive(Debug, Clone)]
pub struct Linear<M, V> {
    /// The matrix.
    pub weight: M,
    /// The bias.
    pub bias: Option<V>,
}

impl<M, V> Weights<M, V> {
    /// Every matrix.
    pub fn matrices(&self) -> impl Iterator<Item = &M> {
        let heads = self.head.iter().map(|head| &head.weight);
        let blocks = self.blocks.iter().flat_map(Block::matrices);
        let per_layer = self.per_layer.iter();
        std::iter::once(&self.embedding)
            .chain(per_layer.flat_map(|of| [&of.embedding, &of.projection]))
            .chain(blocks)
            .chain(heads)
    }

    /// Every vector: norms, biases, taps and scales.
    pub fn vectors(&self) -> impl Iterator<Item = &V> {
        let blocks = self.blocks.iter().flat_map(Block::vectors);
        let head = self.head.iter().filter_map(|head| head.bias.as_ref());
        let per_layer = self.per_layer.iter().map(|of| &of.norm);
        let outside = std::iter::once(&self.norm).chain(per_layer);
        outside.chain(blocks).chain(head)
    }
}

impl<M, V> Mixer<M, V> {
    /// Its linear maps.
    pub fn linears(&self) -> Vec<&Linear<M, V>> {
        match self {
            Self::Attention(a) => {
                let own = a.own.iter().flat_map(|own| [&own.key, &own.value]);
                let all = std::iter::once(&a.query).chain(own);
                all.chain([&a.output]).collect()
            }
            Self::Convolution(c) => vec![&c.input, &c.output],
            Self::Recurrence(r) => {
                let all = [&r.input, &r.gate].into_iter().chain(&r.share);
                all.chain([&r.decay, &r.output]).collect()
            }
        }
    }

    /// Its norms, taps and scales, without the biases of its linear maps.
    fn vectors(&self) -> Vec<&V> {
        match self {
            Self::Attention(a) => {
                let key_norm = a.own.iter().flat_map(|own| &own.key_norm);
                a.query_norm.iter().chain(key_norm).collect()
            }
            Self::Convolution(c) => std::iter::once(&c.taps).chain(&c.bias).collect(),
            Self::Recurrence(r) => {
                let all = [&r.decay_bias, &r.decay_rate, &r.taps, &r.norm].into_iter();
                all.chain(&r.taps_bias).chain(&r.skip).collect()
            }
        }
    }
}

impl<M, V> FeedForward<M, V> {
    /// The linear maps of a gated MLP. Those of experts are matrices without biases.
    fn linears(&self) -> Vec<&Linear<M, V>> {
        match self {
            Self::Dense(mlp) => vec![&mlp.gate, &mlp.up, &mlp.down],
            Self::Experts(_) => Vec::new(),
        }
    }
}

impl<M, V> Block<M, V> {
    /// Its linear maps.
    fn linears(&self) -> Vec<&Linear<M, V>> {
        let mut all = self.mixer.linears();
        all.extend(self.feed_forward.linears());
        let per_layer = self.per_layer.iter();
        all.extend(per_layer.flat_map(|of| [&of.gate, &of.projection]));
        all
    }

    /// Its matrices.
    fn matrices(&self) -> Vec<&M> {
        let linears = self.linears().into_iter();
        let mut all: Vec<&M> = linears.map(|linear| &linear.weight).collect();
        if let FeedForward::Experts(of) = &self.feed_forward {
            all.extend([&of.router, &of.gate, &of.up, &of.down]);
        }
        all
    }

    /// Its norms, biases, taps and scale.
    fn vectors(&self) -> Vec<&V> {
        let norms = [
            &self.mixer_norm,
            &self.mixer_post_norm,
            &self.feed_forward_norm,
            &self.feed_forward_post_norm,
        ];
        let norms = norms.into_iter().flatten();
        let late = self.per_layer.iter().map(|of| &of.norm);
        let linears = self.linears().into_iter();
        let biases = linears.filter_map(|linear| linear.bias.as_ref());
        let of_mixer = self.mixer.vectors().into_iter();
        let choice = match &self.feed_forward {
            FeedForward::Experts(of) => of.choice_bias.as_ref(),
            FeedForward::Dense(_) => None,
        };
        let all = of_mixer.chain(norms).chain(late).chain(choice);
        all.chain(&self.scale).chain(biases).collect()
    }
}
