//! e^x and functions of it, in explicit vectors: compilers do not vectorise these loops for wasm.

use crate::lanes::{self, LANES, Lanes, Work};

/// Number whose sum with a number of at most 2²² has the nearest integer in its lowest bits.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// ln 2 in two parts; products of the first with small integers are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// The polynomial of Cephes' expf, highest power first.
const POLYNOMIAL: [f32; 6] = [
    1.987_569_1e-4,
    1.398_2e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    0.5,
];

/// e^x to 2 units in the last place, with x clamped to −87..88. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    let x = l.max(l.floats(-87.0), l.min(l.floats(88.0), x));
    let n = l.nearest(l.mul(x, l.floats(std::f32::consts::LOG2_E)));
    let r = l.mul_add(x, n, l.floats(-LN_2[0]));
    let r = l.mul_add(r, n, l.floats(-LN_2[1]));
    let mut p = l.floats(POLYNOMIAL[0]);
    for factor in &POLYNOMIAL[1..] {
        p = l.mul_add(l.floats(*factor), p, r);
    }
    let fraction = l.add(l.mul_add(r, l.mul(p, r), r), l.floats(1.0));
    l.mul(fraction, l.power_of_two(n))
}

/// tanh x to 2⁻²³ of 1.
#[inline(always)]
fn tanh<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    let power = exp(l, l.add(x, x));
    let part = l.div(l.floats(-2.0), l.add(power, l.floats(1.0)));
    l.add(part, l.floats(1.0))
}

/// σ(x).
#[inline(always)]
fn sigmoid<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    let power = exp(l, l.mul(x, l.floats(-1.0)));
    l.div(l.floats(1.0), l.add(power, l.floats(1.0)))
}

/// x · σ(x).
#[inline(always)]
fn silu<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    let power = exp(l, l.mul(x, l.floats(-1.0)));
    l.div(x, l.add(power, l.floats(1.0)))
}

/// The tanh form of GELU.
#[inline(always)]
fn gelu<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    let cube = l.mul(l.mul(x, x), x);
    let inner = l.mul_add(x, cube, l.floats(0.044_715));
    let root = (2.0 * std::f32::consts::FRAC_1_PI).sqrt();
    let half = l.mul(x, l.floats(0.5));
    l.mul_add(half, half, tanh(l, l.mul(inner, l.floats(root))))
}

/// A function of each number and its counterpart. Not a closure: one that is not inlined is
/// compiled without the processor's features, and calls a function for each instruction.
pub(crate) trait Map {
    /// Mark implementations `#[inline(always)]`.
    fn apply<L: Lanes>(l: L, x: L::Floats, with: L::Floats) -> L::Floats;
}

/// x · σ(x).
pub(crate) struct Silu;

impl Map for Silu {
    #[inline(always)]
    fn apply<L: Lanes>(l: L, x: L::Floats, _with: L::Floats) -> L::Floats {
        silu(l, x)
    }
}

/// silu(x) · y.
pub(crate) struct SiluTimes;

impl Map for SiluTimes {
    #[inline(always)]
    fn apply<L: Lanes>(l: L, x: L::Floats, with: L::Floats) -> L::Floats {
        l.mul(silu(l, x), with)
    }
}

/// gelu(x) · y.
pub(crate) struct GeluTimes;

impl Map for GeluTimes {
    #[inline(always)]
    fn apply<L: Lanes>(l: L, x: L::Floats, with: L::Floats) -> L::Floats {
        l.mul(gelu(l, x), with)
    }
}

/// x · σ(y).
pub(crate) struct TimesSigmoid;

impl Map for TimesSigmoid {
    #[inline(always)]
    fn apply<L: Lanes>(l: L, x: L::Floats, with: L::Floats) -> L::Floats {
        l.mul(x, sigmoid(l, with))
    }
}

/// Applies the function to every number, eight at a time, with `with`, of the same length, as
/// second argument.
#[inline(always)]
pub(crate) fn each<L: Lanes, B: Map>(l: L, values: &mut [f32], with: &[f32]) {
    let (eights, rest) = values.as_chunks_mut();
    let (withs, with_rest) = with.as_chunks();
    for (eight, with) in eights.iter_mut().zip(withs) {
        l.store(B::apply(l, l.load(eight), l.load(with)), eight);
    }
    let (mut eight, mut with) = ([0.0; LANES], [0.0; LANES]);
    eight[..rest.len()].copy_from_slice(rest);
    with[..with_rest.len()].copy_from_slice(with_rest);
    let made = B::apply(l, l.load(&eight), l.load(&with));
    l.store(made, &mut eight);
    rest.copy_from_slice(&eight[..rest.len()]);
}

/// `factor · x`, then `cap · tanh(x / cap)` where there is a cap.
#[inline(always)]
fn scaled<L: Lanes>(l: L, x: L::Floats, factor: f32, cap: Option<f32>) -> L::Floats {
    let x = l.mul(x, l.floats(factor));
    match cap {
        None => x,
        Some(cap) => {
            let within = tanh(l, l.mul(x, l.floats(1.0 / cap)));
            l.mul(within, l.floats(cap))
        }
    }
}

/// Replaces every number by `factor · number`, then by `cap · tanh(number / cap)` where there is
/// a cap. Returns the largest; −∞ if empty.
#[inline(always)]
pub(crate) fn scale<L: Lanes>(l: L, values: &mut [f32], factor: f32, cap: Option<f32>) -> f32 {
    let (eights, rest) = values.as_chunks_mut();
    let mut most = l.floats(f32::NEG_INFINITY);
    for eight in eights {
        let scaled = scaled(l, l.load(eight), factor, cap);
        most = l.max(most, scaled);
        l.store(scaled, eight);
    }
    let mut eight = [0.0; LANES];
    eight[..rest.len()].copy_from_slice(rest);
    l.store(scaled(l, l.load(&eight), factor, cap), &mut eight);
    rest.copy_from_slice(&eight[..rest.len()]);
    l.store(most, &mut eight);
    eight
        .iter()
        .chain(&*rest)
        .copied()
        .fold(f32::NEG_INFINITY, f32::max)
}

/// Replaces every number by e^(number − top); returns the sum.
#[inline(always)]
pub(crate) fn powers<L: Lanes>(l: L, values: &mut [f32], top: f32) -> f32 {
    let (eights, rest) = values.as_chunks_mut();
    let mut all = l.floats(0.0);
    for eight in eights {
        let power = exp(l, l.add(l.load(eight), l.floats(-top)));
        all = l.add(all, power);
        l.store(power, eight);
    }
    let mut eight = [0.0; LANES];
    l.store(all, &mut eight);
    let mut sum: f32 = eight.iter().sum();
    eight[..rest.len()].copy_from_slice(rest);
    let last = exp(l, l.add(l.load(&eight), l.floats(-top)));
    l.store(last, &mut eight);
    rest.copy_from_slice(&eight[..rest.len()]);
    sum += rest.iter().sum::<f32>();
    sum
}

/// Replaces every number by `cap · tanh(number / cap)`.
pub fn softcap(values: &mut [f32], cap: f32) {
    struct Cap<'a>(&'a mut [f32], f32);
    impl Work for Cap<'_> {
        type Out = ();

        #[inline(always)]
        fn with<L: Lanes>(self, lanes: L) {
            scale(lanes, self.0, 1.0, Some(self.1));
        }
    }
    lanes::run(Cap(values, cap));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies a function to each number, with this machine's vectors.
    macro_rules! each_of {
        ($values:expr, $of:ident) => {{
            struct Mapped;
            impl Map for Mapped {
                #[inline(always)]
                fn apply<L: Lanes>(l: L, x: L::Floats, _with: L::Floats) -> L::Floats {
                    $of(l, x)
                }
            }
            struct Each<'a>(&'a mut [f32]);
            impl Work for Each<'_> {
                type Out = ();
                #[inline(always)]
                fn with<L: Lanes>(self, l: L) {
                    let with = vec![0.0; self.0.len()];
                    each::<L, Mapped>(l, self.0, &with);
                }
            }
            let mut made = $values.to_vec();
            lanes::run(Each(&mut made));
            made
        }};
    }

    #[test]
    fn exp_is_that_of_the_library() {
        let x: Vec<f32> = (-870_000..880_000).map(|i| i as f32 * 1e-4).collect();
        let mut worst = 0.0_f64;
        for (found, x) in each_of!(x, exp).iter().zip(&x) {
            worst = worst.max((f64::from(*found) / f64::from(*x).exp() - 1.0).abs());
        }
        assert!(worst < 2.4e-7, "{worst:e}");
        let odd = each_of!([f32::NAN, f32::NEG_INFINITY, f32::INFINITY], exp);
        assert!(odd[0].is_nan() && odd[1] < 1e-37 && odd[2] > 1e38 && odd[2].is_finite());
    }

    #[test]
    fn activations_are_those_of_the_definition() {
        let x: Vec<f32> = (-2000..2003).map(|i| i as f32 * 0.01).collect();
        let (tanhs, silus, gelus) = (each_of!(x, tanh), each_of!(x, silu), each_of!(x, gelu));
        for (i, x) in x.iter().enumerate() {
            let wide = f64::from(*x);
            let close = |found: f32, wanted: f64| {
                let error = (f64::from(found) - wanted).abs();
                assert!(
                    error < 4e-7 * wide.abs().max(1.0),
                    "{x}: {found} is not {wanted}"
                );
            };
            close(tanhs[i], wide.tanh());
            close(silus[i], wide / (1.0 + (-wide).exp()));
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
            close(gelus[i], 0.5 * wide * (1.0 + inner.tanh()));
        }
    }

    /// Work that scales, then takes powers.
    struct Both<'a>(&'a mut [f32], Option<f32>);

    impl Work for Both<'_> {
        type Out = (f32, f32);

        #[inline(always)]
        fn with<L: Lanes>(self, l: L) -> (f32, f32) {
            let top = scale(l, self.0, 0.5, self.1);
            (top, powers(l, self.0, top))
        }
    }

    #[test]
    fn sums_and_maxima_take_every_number() {
        for length in 0..20 {
            for cap in [None, Some(2.0_f32)] {
                let values: Vec<f32> = (0..length).map(|i| (i * 7 % 11) as f32 - 20.0).collect();
                let scaled: Vec<f32> = values
                    .iter()
                    .map(|x| cap.map_or(x * 0.5, |cap| cap * (x * 0.5 / cap).tanh()))
                    .collect();
                let wanted = scaled.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let mut found = values.clone();
                let (top, sum) = lanes::run(Both(&mut found, cap));
                assert!(top == wanted || (top - wanted).abs() < 1e-6);
                let powers: Vec<f32> = scaled.iter().map(|x| (x - wanted).exp()).collect();
                assert!((sum - powers.iter().sum::<f32>()).abs() < 1e-5);
                for (found, power) in found.iter().zip(powers) {
                    assert!((found - power).abs() < 1e-5);
                }
            }
        }
    }
}
