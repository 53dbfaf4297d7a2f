//! Functions of tensors that several operations share.

use burn::tensor::Tensor;
use conclave_model::weights::Linear;

use crate::weights::Matrix;

/// A vector of weights: a norm, a bias, scales.
pub type Vector = Tensor<1>;

/// cos and sin of a pass's positions, each `[tokens, 1, rotary_dim / 2]`.
pub type Rotation = (Tensor<3>, Tensor<3>);

/// `x · Wᵀ + bias`.
pub fn product(x: Tensor<2>, linear: &Linear<Matrix, Vector>) -> Tensor<2> {
    let product = linear.weight.product(x);
    match &linear.bias {
        Some(bias) => product + bias.clone().unsqueeze(),
        None => product,
    }
}

/// `x / √(mean(x²) + ε) · weight` over the last dimension.
pub fn rms_norm<const D: usize>(x: Tensor<D>, weight: &Vector, epsilon: f32) -> Tensor<D> {
    normed(x, epsilon) * weight.clone().unsqueeze()
}

/// `x / √(mean(x²) + ε)` over the last dimension.
pub fn normed<const D: usize>(x: Tensor<D>, epsilon: f32) -> Tensor<D> {
    let mean = x.clone().square().mean_dim(D - 1);
    x / (mean + epsilon).sqrt()
}

/// Rotates the first dimensions of each head by halves:
/// (a, b) → (a cos − b sin, b cos + a sin).
pub fn rotate(x: Tensor<3>, (cos, sin): &Rotation) -> Tensor<3> {
    let [_, _, width] = x.dims();
    let [_, _, half] = cos.dims();
    let a = x.clone().narrow(2, 0, half);
    let b = x.clone().narrow(2, half, half);
    let mut parts = vec![
        a.clone() * cos.clone() - b.clone() * sin.clone(),
        b * cos.clone() + a * sin.clone(),
    ];
    if width > 2 * half {
        parts.push(x.narrow(2, 2 * half, width - 2 * half));
    }
    Tensor::cat(parts, 2)
}
