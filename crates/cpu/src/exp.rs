//! e^x and what is made of it, without branches or calls, so that compilers make vectors of them.

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; products of the first with small integers are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// Added to a number of at most 2²², this leaves its nearest integer in the lowest bits.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// e^x to 2 units in the last place; of less than −87 it is that of −87, of more than 88 that of 88.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Not `clamp`: compilers take these for vector minima and maxima, and a NaN stays one.
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2[0] - n * LN_2[1];
    // The polynomial of Cephes' expf.
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let fraction = p * r * r + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    fraction * f32::from_bits(exponent.wrapping_add(127) << 23)
}

/// tanh x to 2⁻²³ of 1.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (exp(2.0 * x) + 1.0)
}

/// x · σ(x).
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// The tanh form of GELU.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let root = (2.0 * std::f32::consts::FRAC_1_PI).sqrt();
    0.5 * x * (1.0 + tanh(root * (x + 0.044_715 * x * x * x)))
}

/// Makes every number `cap · tanh(number / cap)`.
#[inline(always)]
pub fn softcap(values: &mut [f32], cap: f32) {
    for value in values {
        *value = cap * tanh(*value / cap);
    }
}

/// The largest number; of none, −∞.
#[inline(always)]
pub(crate) fn largest(values: &[f32]) -> f32 {
    let (eights, rest) = values.as_chunks::<8>();
    let mut most = [f32::NEG_INFINITY; 8];
    for eight in eights {
        for (most, value) in most.iter_mut().zip(eight) {
            *most = if *value > *most { *value } else { *most };
        }
    }
    most.iter()
        .chain(rest)
        .copied()
        .fold(f32::NEG_INFINITY, f32::max)
}

/// Makes every number e^(number − top) and returns their sum.
#[inline(always)]
pub(crate) fn exp_sum(values: &mut [f32], top: f32) -> f32 {
    let (eights, rest) = values.as_chunks_mut::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        for (sum, value) in sums.iter_mut().zip(eight) {
            *value = exp(*value - top);
            *sum += *value;
        }
    }
    for value in &mut *rest {
        *value = exp(*value - top);
    }
    sums.iter().chain(&*rest).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_that_of_the_library() {
        let mut worst = 0.0f64;
        for i in -870_000..880_000 {
            let x = i as f32 * 1e-4;
            let wanted = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) / wanted - 1.0).abs());
        }
        assert!(worst < 2.4e-7, "{worst:e}");
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 1e-37 && exp(f32::INFINITY) > 1e38);
    }

    #[test]
    fn activations_are_those_of_the_definition() {
        for i in -2000..2000 {
            let x = i as f32 * 0.01;
            let wide = f64::from(x);
            let close = |found: f32, wanted: f64| {
                let error = (f64::from(found) - wanted).abs();
                assert!(
                    error < 4e-7 * wide.abs().max(1.0),
                    "{x}: {found} is not {wanted}"
                );
            };
            close(tanh(x), wide.tanh());
            close(silu(x), wide / (1.0 + (-wide).exp()));
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
            close(gelu(x), 0.5 * wide * (1.0 + inner.tanh()));
        }
    }

    #[test]
    fn sums_and_maxima_take_every_number() {
        for length in 0..20 {
            let mut values: Vec<f32> = (0..length).map(|i| (i * 7 % 11) as f32).collect();
            let wanted = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(largest(&values), wanted);
            let sum: f32 = values.iter().map(|x| (x - wanted).exp()).sum();
            assert!((exp_sum(&mut values, wanted) - sum).abs() < 1e-5);
        }
    }
}
