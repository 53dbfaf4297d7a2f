//! The fused operations that a decoder consists of. Each backend implements them;
//! [`forward`](crate::forward::forward) calls them in order.
//!
//! Two values pass from one operation to the next and stay with the implementation: the *residual
//! stream* `[tokens, hidden]`, and the *branch*, the result of the current half of a block before
//! its last product. An operation's documentation says which of them it reads and writes.

use conclave_kernels::Scores;

use crate::config::{self, Activation, QkNorm};
use crate::error::ModelError;
use crate::fused::{FusedConvolution, FusedRecurrence, WeightLayout};
use crate::weights::{Experts, PerLayer};

/// `x / √(mean(x²) + ε) · weight` over each row.
#[derive(Debug)]
pub struct Norm<'a, V> {
    /// `[width]`.
    pub weight: &'a V,
    /// ε.
    pub epsilon: f32,
}

/// Linear maps of the residual stream, which is first normalised if there is a norm.
#[derive(Debug)]
pub struct Projection<'a, P, V> {
    /// Norm of the stream.
    pub norm: Option<Norm<'a, V>>,
    /// The maps.
    pub weights: &'a P,
}

/// Addition of a branch's last product y to the stream x: `x = (x + norm(y)) · scale`.
#[derive(Debug)]
pub struct Residual<'a, V> {
    /// Norm of the product.
    pub norm: Option<Norm<'a, V>>,
    /// Factor on the sum, one number. A GPU supports it only together with a norm.
    pub scale: Option<&'a V>,
}

/// Attention of one layer.
#[derive(Debug)]
pub struct Attention<'a, V> {
    /// Its heads, their gates, and whether it has keys and values of its own.
    pub of: config::Attention,
    /// Layer whose cache it appends to or, without keys of its own, only attends to.
    pub cache: usize,
    /// Norms of its heads.
    pub norms: HeadNorms<'a, V>,
    /// Its rotary embedding, if it has one.
    pub rotary: Option<Rotary>,
    /// Scale, window and softcap of its scores.
    pub scores: Scores,
}

/// Norms of queries, keys and values.
#[derive(Debug)]
pub struct HeadNorms<'a, V> {
    /// Numbers of queries and keys that are normalised together, before or after their rotation.
    pub kind: QkNorm,
    /// Weight of the norm of queries: `[head_dim]`, or the width of all query heads.
    pub query: Option<&'a V>,
    /// Weight of the norm of keys: `[head_dim]`, or the width of all key heads; `None` also if the
    /// layer has no keys.
    pub key: Option<&'a V>,
    /// Whether each head of values is normalised, without a weight.
    pub values: bool,
    /// ε of all of them.
    pub epsilon: f32,
}

/// A rotary embedding.
#[derive(Debug, Clone, Copy)]
pub struct Rotary {
    /// Index of its table, as in [`Config::ropes`](crate::Config::ropes).
    pub table: usize,
    /// Number of rotating dimensions of a head, the first ones.
    pub dimensions: usize,
}

/// Settings of the layers' own inputs of each token, besides the stream.
#[derive(Debug, Clone, Copy)]
pub struct LayerInputs {
    /// Number of layers.
    pub layers: usize,
    /// Width of an input.
    pub width: usize,
    /// Factor on the rows of their embedding.
    pub scale: f32,
    /// ε of the norm of their projection.
    pub epsilon: f32,
}

/// Computes logits from the stream after the last block: `cap(norm(x) · Wᵀ + bias)`.
#[derive(Debug)]
pub struct Output<'a, M, V> {
    /// The final norm.
    pub norm: Norm<'a, V>,
    /// `[vocabulary, hidden]`.
    pub weight: &'a M,
    /// `[vocabulary]`.
    pub bias: Option<&'a V>,
    /// Logits become `cap · tanh(logit / cap)`.
    pub softcap: Option<f32>,
}

/// A matrix as the implementation `O` keeps it.
pub type MatrixOf<O> = <<O as Operations>::Layout as WeightLayout>::Matrix;
/// A vector as the implementation `O` keeps it.
pub type VectorOf<O> = <<O as Operations>::Layout as WeightLayout>::Vector;
/// A product as the implementation `O` keeps it.
pub type ProductOf<O> = <<O as Operations>::Layout as WeightLayout>::Product;
/// Gate and up as the implementation `O` keeps them.
pub type GateOf<O> = <<O as Operations>::Layout as WeightLayout>::Gate;

/// The operations on the tokens of one pass.
///
/// # Errors
/// Every operation gives the device's errors, and [`ModelError::Order`] where weights or caches
/// are not of the layers that the configuration describes.
#[allow(clippy::missing_errors_doc, reason = "they are said above")]
pub trait Operations {
    /// The backend's storage of weights.
    type Layout: WeightLayout;

    /// Called before each block.
    fn begin_block(&mut self, _layer: usize) -> Result<(), ModelError> {
        Ok(())
    }

    /// Stream: rows of the embedding, times `scale`.
    fn embed(&mut self, embedding: &MatrixOf<Self>, scale: f32) -> Result<(), ModelError>;

    /// Computes and keeps the own inputs of all layers: `norm(x · projectionᵀ) + scale ·
    /// embedding[token]`, where the stream x is still the scaled embedding.
    fn layer_inputs(
        &mut self,
        weights: &PerLayer<MatrixOf<Self>, VectorOf<Self>>,
        of: LayerInputs,
    ) -> Result<(), ModelError>;

    /// Stream → branch: queries, keys and values; their norms and rotation; the append to the
    /// cache; attention, times its gates where it has them.
    fn attend(
        &mut self,
        input: Projection<'_, ProductOf<Self>, VectorOf<Self>>,
        attention: Attention<'_, VectorOf<Self>>,
    ) -> Result<(), ModelError>;

    /// Stream → branch: B, C and x; `C · conv(B · x)`, over the cache of `layer`.
    fn convolve(
        &mut self,
        input: Projection<'_, ProductOf<Self>, VectorOf<Self>>,
        convolution: &FusedConvolution<VectorOf<Self>>,
        layer: usize,
    ) -> Result<(), ModelError>;

    /// Stream → branch: the recurrence of `layer` from its state to the next, with its gate, and
    /// with its norm, whose ε is `epsilon`.
    fn recur(
        &mut self,
        input: Projection<'_, ProductOf<Self>, VectorOf<Self>>,
        recurrence: &FusedRecurrence<VectorOf<Self>>,
        layer: usize,
        epsilon: f32,
    ) -> Result<(), ModelError>;

    /// Stream → branch: `activation(gate) · up` of a gated MLP.
    fn gate(
        &mut self,
        input: Projection<'_, GateOf<Self>, VectorOf<Self>>,
        activation: Activation,
    ) -> Result<(), ModelError>;

    /// Stream → branch: the own input of `layer` times its gate, `activation(x · gateᵀ) · input`.
    fn gate_layer_input(
        &mut self,
        gate: &ProductOf<Self>,
        layer: usize,
        activation: Activation,
    ) -> Result<(), ModelError>;

    /// Branch → stream: multiplies the branch by `weights` and adds the product.
    fn add(
        &mut self,
        weights: &ProductOf<Self>,
        residual: Residual<'_, VectorOf<Self>>,
    ) -> Result<(), ModelError>;

    /// Stream → stream: adds to each token the sum of its experts' outputs.
    fn add_experts(
        &mut self,
        input: Projection<'_, Experts<MatrixOf<Self>, VectorOf<Self>>, VectorOf<Self>>,
        activation: Activation,
        residual: Residual<'_, VectorOf<Self>>,
    ) -> Result<(), ModelError>;
}
