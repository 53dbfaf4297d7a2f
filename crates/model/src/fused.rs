//! Weights as the decoder's [`Operations`](crate::operations::Operations) take them: those that one
//! operation reads together lie together.

use std::fmt::Debug;
use std::marker::PhantomData;

use crate::config::{self, Config};
use crate::error::ModelError;
use crate::operations::{Norm, Output};
use crate::weights::{Block, Experts, FeedForward, Linear, Mixer, PerLayer, Weights};

/// How a backend keeps weights.
pub trait WeightLayout: Debug {
    /// A matrix as it is loaded.
    type Matrix: Debug;
    /// A vector as it is loaded.
    type Vector: Debug;
    /// Linear maps of the same input, their outputs side by side.
    type Product: Debug;
    /// Gate and up of a gated MLP.
    type Gate: Debug;

    /// Joins linear maps of the same input, in their order.
    ///
    /// # Errors
    /// The device's.
    fn product(&self, linears: Vec<LinearOf<Self>>) -> Result<Self::Product, ModelError>;

    /// Joins the gate and up matrices of a gated MLP.
    ///
    /// # Errors
    /// The device's.
    fn gate(&self, gate: LinearOf<Self>, up: LinearOf<Self>) -> Result<Self::Gate, ModelError>;
}

/// A linear map in a layout.
pub type LinearOf<L> = Linear<<L as WeightLayout>::Matrix, <L as WeightLayout>::Vector>;

/// Every matrix by itself, as it was loaded.
#[derive(Debug, Clone, Copy)]
pub struct Unjoined<M, V>(PhantomData<(M, V)>);

impl<M, V> Default for Unjoined<M, V> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<M: Debug, V: Debug> WeightLayout for Unjoined<M, V> {
    type Matrix = M;
    type Vector = V;
    type Product = Vec<Linear<M, V>>;
    type Gate = [Linear<M, V>; 2];

    fn product(&self, linears: Vec<Linear<M, V>>) -> Result<Self::Product, ModelError> {
        Ok(linears)
    }

    fn gate(&self, gate: Linear<M, V>, up: Linear<M, V>) -> Result<Self::Gate, ModelError> {
        Ok([gate, up])
    }
}

/// All weights of a decoder.
#[derive(Debug)]
pub struct FusedWeights<L: WeightLayout> {
    /// `[vocabulary, hidden]`.
    pub embedding: L::Matrix,
    /// Makes an input of its own for each layer. On a GPU its embedding is there in spite of its
    /// size (1.3 GB of Gemma 4 E2B in Q4_0): the ids of a draft do not leave the GPU, and rows from
    /// the CPU would be a wait a token.
    pub per_layer: Option<PerLayer<L::Matrix, L::Vector>>,
    /// The blocks, in their order.
    pub blocks: Vec<FusedBlock<L>>,
    /// Weight of the final norm, `[hidden]`.
    pub norm: L::Vector,
    /// The output matrix, if it is not the embedding.
    pub head: Option<LinearOf<L>>,
}

/// The weights of one block.
#[derive(Debug)]
pub struct FusedBlock<L: WeightLayout> {
    /// Before the mixer, `[hidden]`.
    pub mixer_norm: Option<L::Vector>,
    /// Input of the mixer: of an attention queries, and keys and values where it has its own; of a
    /// convolution B, C and x; of a recurrence input, gate, share where it has one, and decay.
    pub projection: L::Product,
    /// Mixes tokens.
    pub mixer: FusedMixer<L::Vector>,
    /// Output of the mixer.
    pub output: L::Product,
    /// After the mixer, `[hidden]`.
    pub mixer_post_norm: Option<L::Vector>,
    /// Before the feed-forward, `[hidden]`.
    pub feed_forward_norm: Option<L::Vector>,
    /// Changes each token by itself.
    pub feed_forward: FusedFeedForward<L>,
    /// After the feed-forward, `[hidden]`.
    pub feed_forward_post_norm: Option<L::Vector>,
    /// Adds the layer's own input.
    pub per_layer: Option<FusedLayerInput<L>>,
    /// One number, which multiplies the stream at the end.
    pub scale: Option<L::Vector>,
}

/// The weights of a mixer that are in no product.
#[derive(Debug)]
pub enum FusedMixer<V> {
    /// Attention.
    Attention {
        /// Its heads, its window and its rotary embedding.
        of: config::Attention,
        /// Norm of queries, `[head_dim]`, or the width of all query heads.
        query_norm: Option<V>,
        /// Norm of keys, `[head_dim]`, or the width of all key heads.
        key_norm: Option<V>,
    },
    /// A gated convolution.
    Convolution(FusedConvolution<V>),
    /// A linear recurrence.
    Recurrence(FusedRecurrence<V>),
}

/// The weights of a gated convolution that are in no product.
#[derive(Debug)]
pub struct FusedConvolution<V> {
    /// Its taps.
    pub of: config::Convolution,
    /// Factors of each channel, of the oldest token first, `[hidden, taps]`.
    pub taps: V,
    /// `[hidden]`.
    pub bias: Option<V>,
}

/// The weights of a linear recurrence that are in no product.
#[derive(Debug)]
pub struct FusedRecurrence<V> {
    /// Its rule, its heads and its taps.
    pub of: config::Recurrence,
    /// Added to the decay's product, `[value_heads]`.
    pub decay_bias: V,
    /// Factor on its softplus, all below 0, `[value_heads]`.
    pub decay_rate: V,
    /// Factors of each channel, of the oldest token first, `[channels, taps]`.
    pub taps: V,
    /// Bias of the convolution, `[channels]`.
    pub taps_bias: Option<V>,
    /// Factor d of a state space, `[value_heads]`: `d · value` is added to the output of each
    /// value head.
    pub skip: Option<V>,
    /// Norm of each value head `[value_width]`, or of all of them together `[values]`.
    pub norm: V,
}

/// The weights of a feed-forward.
#[derive(Debug)]
pub enum FusedFeedForward<L: WeightLayout> {
    /// A gated MLP.
    Dense {
        /// Gate and up.
        gate: L::Gate,
        /// Down.
        down: L::Product,
    },
    /// A mixture of experts.
    Experts(Experts<L::Matrix, L::Vector>),
}

/// The weights that add a layer's own input to the stream.
#[derive(Debug)]
pub struct FusedLayerInput<L: WeightLayout> {
    /// Its gate.
    pub gate: L::Product,
    /// Back to the stream.
    pub projection: L::Product,
    /// After the projection, `[hidden]`.
    pub norm: L::Vector,
}

impl<L: WeightLayout> FusedWeights<L> {
    /// Joins weights block by block, so that no more than one block is there twice.
    ///
    /// # Errors
    /// The device's.
    pub fn new(layout: &L, weights: Weights<L::Matrix, L::Vector>) -> Result<Self, ModelError> {
        let blocks = weights.blocks.into_iter();
        Ok(Self {
            embedding: weights.embedding,
            per_layer: weights.per_layer,
            blocks: blocks
                .map(|block| FusedBlock::new(layout, block))
                .collect::<Result<_, _>>()?,
            norm: weights.norm,
            head: weights.head,
        })
    }

    /// Makes logits of the stream after the last block.
    pub fn output(&self, config: &Config) -> Output<'_, L::Matrix, L::Vector> {
        let (weight, bias) = match &self.head {
            Some(head) => (&head.weight, head.bias.as_ref()),
            None => (&self.embedding, None),
        };
        Output {
            norm: Norm {
                weight: &self.norm,
                epsilon: config.stream_epsilon(),
            },
            weight,
            bias,
            softcap: config.logit_softcap,
        }
    }
}

impl<L: WeightLayout> FusedBlock<L> {
    fn new(layout: &L, block: Block<L::Matrix, L::Vector>) -> Result<Self, ModelError> {
        let alone = |linear| layout.product(vec![linear]);
        let (projection, mixer, output) = mixer(block.mixer);
        Ok(Self {
            mixer_norm: block.mixer_norm,
            projection: layout.product(projection)?,
            mixer,
            output: alone(output)?,
            mixer_post_norm: block.mixer_post_norm,
            feed_forward_norm: block.feed_forward_norm,
            feed_forward: match block.feed_forward {
                FeedForward::Dense(mlp) => FusedFeedForward::Dense {
                    gate: layout.gate(mlp.gate, mlp.up)?,
                    down: alone(mlp.down)?,
                },
                FeedForward::Experts(experts) => FusedFeedForward::Experts(experts),
            },
            feed_forward_post_norm: block.feed_forward_post_norm,
            per_layer: match block.per_layer {
                Some(of) => Some(FusedLayerInput {
                    gate: alone(of.gate)?,
                    projection: alone(of.projection)?,
                    norm: of.norm,
                }),
                None => None,
            },
            scale: block.scale,
        })
    }
}

/// A mixer's input products, the mixer, and its output product.
type SplitMixer<M, V> = (Vec<Linear<M, V>>, FusedMixer<V>, Linear<M, V>);

fn mixer<M, V>(mixer: Mixer<M, V>) -> SplitMixer<M, V> {
    match mixer {
        Mixer::Attention(a) => {
            let (key_norm, own) = match a.own {
                Some(own) => (own.key_norm, vec![own.key, own.value]),
                None => (None, Vec::new()),
            };
            let mixer = FusedMixer::Attention {
                of: a.of,
                query_norm: a.query_norm,
                key_norm,
            };
            let projection = std::iter::once(a.query).chain(own).collect();
            (projection, mixer, a.output)
        }
        Mixer::Convolution(c) => {
            let mixer = FusedMixer::Convolution(FusedConvolution {
                of: c.of,
                taps: c.taps,
                bias: c.bias,
            });
            (vec![c.input], mixer, c.output)
        }
        Mixer::Recurrence(r) => {
            let mixer = FusedMixer::Recurrence(FusedRecurrence {
                of: r.of,
                decay_bias: r.decay_bias,
                decay_rate: r.decay_rate,
                taps: r.taps,
                taps_bias: r.taps_bias,
                skip: r.skip,
                norm: r.norm,
            });
            let projection = [r.input, r.gate].into_iter().chain(r.share);
            (projection.chain([r.decay]).collect(), mixer, r.output)
        }
    }
}
