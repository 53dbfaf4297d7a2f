//! Weights as the decoder's [`Operations`](crate::operations::Operations) take them. Matrices that
//! one operation multiplies with the same input are joined if the backend's layout can.

use std::fmt::Debug;
use std::marker::PhantomData;

use crate::config::{self, Config};
use crate::error::ModelError;
use crate::operations::{Norm, Output};
use crate::weights::{Block, Experts, FeedForward, Linear, Mixer, PerLayer, Weights};

/// A backend's storage of weights.
pub trait WeightLayout: Debug {
    /// A matrix of the checkpoint, before any joining.
    type Matrix: Debug;
    /// A vector of the checkpoint: a norm, a bias, taps or scales.
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

/// Layout that joins nothing: a list of the matrices as loaded.
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
    /// Weights of the layers' own inputs. On a GPU their embedding is in GPU memory in spite of its
    /// size (1.3 GB of Gemma 4 E2B in Q4_0): the ids of a draft do not leave the GPU, and rows from
    /// the CPU would need a wait for each token.
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
    /// Norm before the mixer, `[hidden]`.
    pub mixer_norm: Option<L::Vector>,
    /// Input projections of the mixer, side by side. Attention: queries, then keys and values
    /// unless it attends to another layer's. Convolution: B, C and x. Recurrence: input, gate,
    /// share (the delta rule only) and decay.
    pub projection: L::Product,
    /// The mixer's weights outside of its projections.
    pub mixer: FusedMixer<L::Vector>,
    /// Output projection of the mixer.
    pub output: L::Product,
    /// Norm of the mixer's output, `[hidden]`.
    pub mixer_post_norm: Option<L::Vector>,
    /// Norm before the feed-forward, `[hidden]`.
    pub feed_forward_norm: Option<L::Vector>,
    /// The feed-forward.
    pub feed_forward: FusedFeedForward<L>,
    /// Norm of the feed-forward's output, `[hidden]`.
    pub feed_forward_post_norm: Option<L::Vector>,
    /// Weights that add the layer's own input to the stream.
    pub per_layer: Option<FusedLayerInput<L>>,
    /// Factor on the stream at the end of the block: one number.
    pub scale: Option<L::Vector>,
}

/// The weights of a mixer outside of its projections.
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

/// The weights of a gated convolution outside of its projections.
#[derive(Debug)]
pub struct FusedConvolution<V> {
    /// Its taps.
    pub of: config::Convolution,
    /// Factors of each channel, the oldest token's first, `[hidden, taps]`.
    pub taps: V,
    /// Bias of the convolution, `[hidden]`.
    pub bias: Option<V>,
}

/// The weights of a linear recurrence outside of its projections.
#[derive(Debug)]
pub struct FusedRecurrence<V> {
    /// Its rule, its heads and its taps.
    pub of: config::Recurrence,
    /// Bias of the decay projection, `[value_heads]`.
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
}

/// The weights of a feed-forward.
#[derive(Debug)]
pub enum FusedFeedForward<L: WeightLayout> {
    /// A gated MLP.
    Dense {
        /// Gate and up matrices.
        gate: L::Gate,
        /// Down matrix.
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
    /// Projection back to the stream.
    pub projection: L::Product,
    /// Norm of the projection, `[hidden]`.
    pub norm: L::Vector,
}

impl<L: WeightLayout> FusedWeights<L> {
    /// Joins weights block by block, so that at most one block is in memory twice.
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

    /// Norm and output matrix, which turn the stream after the last block into logits.
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
