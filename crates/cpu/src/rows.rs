//! Operations on rows of activations between the products.

use crate::exp::{GeluTimes, SiluTimes, TimesSigmoid, each};
use crate::lanes::{self, LANES, Lanes, Work};
use crate::threads;

/// `x / √(mean(x²) + ε) · weight`, in place, for each row as long as `weight`.
pub fn rms_norm(x: &mut [f32], weight: &[f32], epsilon: f32) {
    let width = weight.len().max(1);
    let each = (x.len() / width).div_ceil(threads::sharing(2 * x.len())) * width;
    threads::each(x.chunks_mut(each.max(1)), |x| norm_rows(x, weight, epsilon));
}

fn norm_rows(x: &mut [f32], weight: &[f32], epsilon: f32) {
    for row in x.chunks_exact_mut(weight.len().max(1)) {
        let (eights, rest) = row.as_chunks::<8>();
        let mut sums = [0.0; 8];
        for eight in eights {
            for (sum, x) in sums.iter_mut().zip(eight) {
                *sum += x * x;
            }
        }
        let sum = sums.iter().sum::<f32>() + rest.iter().map(|x| x * x).sum::<f32>();
        let factor = 1.0 / (sum / row.len() as f32 + epsilon).sqrt();
        for (x, weight) in row.iter_mut().zip(weight) {
            *x *= factor * weight;
        }
    }
}

/// Adds `bias` to each row, which has the same length.
pub fn add_bias(x: &mut [f32], bias: &[f32]) {
    for row in x.chunks_exact_mut(bias.len().max(1)) {
        add(row, bias);
    }
}

/// `x += y`.
pub fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// `x += factor · y`.
pub fn add_times(x: &mut [f32], y: &[f32], factor: f32) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += factor * y;
    }
}

/// The activation of a gated MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x · σ(x).
    Silu,
    /// The tanh form of GELU.
    Gelu,
}

/// `gate = activation(gate) · up`, up to the shorter length.
pub fn gated(activation: Activation, gate: &mut [f32], up: &[f32]) {
    let length = gate.len().min(up.len());
    // An exponential is some ten operations.
    let each = length.div_ceil(threads::sharing(10 * length));
    let each = each.next_multiple_of(LANES).max(1);
    let parts = gate[..length].chunks_mut(each).zip(up.chunks(each));
    threads::each(parts, |(gate, up)| {
        let up = &up[..gate.len()];
        lanes::run(Gated {
            activation,
            gate,
            up,
        });
    });
}

/// `x · σ(gate)`, in place, up to the shorter length.
pub fn mul_sigmoid(x: &mut [f32], gate: &[f32]) {
    let length = x.len().min(gate.len());
    lanes::run(LetThrough(&mut x[..length], &gate[..length]));
}

struct LetThrough<'a>(&'a mut [f32], &'a [f32]);

impl Work for LetThrough<'_> {
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(self, l: L) {
        each::<L, TimesSigmoid>(l, self.0, self.1);
    }
}

struct Gated<'a> {
    activation: Activation,
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl Work for Gated<'_> {
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(self, l: L) {
        match self.activation {
            Activation::Silu => each::<L, SiluTimes>(l, self.gate, self.up),
            Activation::Gelu => each::<L, GeluTimes>(l, self.gate, self.up),
        }
    }
}

/// Rotates the first dimensions of each head of `width` by halves:
/// (a, b) → (a cos − b sin, b cos + a sin). `rotation` has cos and sin of each pair.
pub fn rotate(heads: &mut [f32], width: usize, rotation: &[f32]) {
    let (rotation, _) = rotation.as_chunks::<2>();
    for head in heads.chunks_exact_mut(width.max(1)) {
        let Some((first, rest)) = head.split_at_mut_checked(rotation.len()) else {
            continue;
        };
        for ((a, b), [cos, sin]) in first.iter_mut().zip(rest).zip(rotation) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_norm_is_over_each_row_and_takes_its_rest() {
        for width in [1, 7, 8, 19] {
            let weight: Vec<f32> = (0..width).map(|i| 1.0 + i as f32 / 4.0).collect();
            let x: Vec<f32> = (0..2 * width).map(|i| (i as f32 - 5.0) / 3.0).collect();
            let mut found = x.clone();
            rms_norm(&mut found, &weight, 1e-2);
            for (found, x) in found.chunks(width).zip(x.chunks(width)) {
                let mean = x.iter().map(|x| x * x).sum::<f32>() / width as f32;
                for i in 0..width {
                    let wanted = x[i] / (mean + 1e-2).sqrt() * weight[i];
                    assert!((found[i] - wanted).abs() < 1e-5, "{width}: {i}");
                }
            }
        }
    }

    #[test]
    fn halves_turn_and_the_rest_of_a_head_stays() {
        let mut heads = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        // A quarter turn of the first pair, none of the second.
        rotate(&mut heads, 5, &[0.0, 1.0, 1.0, 0.0]);
        assert_eq!(heads, [-3.0, 2.0, 1.0, 4.0, 5.0, -8.0, 7.0, 6.0, 9.0, 10.0]);
    }
}
