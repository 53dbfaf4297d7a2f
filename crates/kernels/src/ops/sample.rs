//! Draws the next token on the GPU, where its embedding is looked up next: a segment runs from its
//! first token to its last without the CPU.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count};

use crate::serial::{ShaderPair, select};
use crate::{Buffer, GpuError, Launcher};

const WGSL: &str = wgsl!("sample.wgsl");
const MANY: &str = wgsl!("shared/sample/many.wgsl");
const FEW: &str = wgsl!("shared/sample/few.wgsl");

/// Distance of two logits whose probabilities differ by a factor of two.
const HALVING: u32 = 1 << 15;
/// Distance from which a token's weight is 0.
const FAR: u32 = 32 * HALVING;
/// Limit on the vocabulary: the kernel counts ties in 20 bits.
const MAX_VOCABULARY: usize = 1 << 20;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    vocabulary: u32,
    steps: u32,
    greedy: u32,
    top_k: u32,
    top_p: u32,
    factor: f32,
    softcap: f32,
    far: u32,
}

/// Shaders with many threads and with few.
pub(crate) static SHADERS: ShaderPair = [
    Shader::new::<Params>("sample", &[MANY, WGSL]),
    Shader::new::<Params>("sample_few", &[FEW, WGSL]),
];

/// Result of [`sample`] for a row of logits with NaN or +∞, or without a finite one.
pub const NO_TOKEN: u32 = u32::MAX;

/// Sampling parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draws {
    /// Divisor of the logits; 0 takes the largest logit.
    pub temperature: f32,
    /// Keeps this many of the most probable tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps the smallest set of most probable tokens whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens with at least this share of the most probable one's probability; 0 keeps all.
    pub min_p: f32,
    /// Every logit l counts as c · tanh(l / c).
    pub softcap: Option<f32>,
}

/// The whole distribution, as it is.
impl Default for Draws {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            softcap: None,
        }
    }
}

impl Draws {
    fn greedy(&self) -> bool {
        self.temperature.is_nan() || self.temperature <= 0.0
    }

    /// Distances per unit of a logit.
    fn factor(&self) -> f32 {
        let factor = HALVING as f32 * std::f32::consts::LOG2_E / self.temperature;
        factor.min(1.0e30)
    }

    /// Distance from which min-p, or [`FAR`], leaves tokens out.
    fn far(&self) -> u32 {
        // The conversion is bounded by 0; a token at the limit itself is kept.
        let kept = -f64::from(self.min_p).log2() * f64::from(HALVING);
        (kept.min(f64::from(FAR)) as u32 + 1).min(FAR)
    }

    /// The share of top-p in 2⁻³²; 0 keeps all.
    fn share(&self) -> u32 {
        if self.top_p.is_nan() || self.top_p >= 1.0 {
            return 0;
        }
        // The conversion is bounded by u32.
        ((f64::from(self.top_p) * 4_294_967_296.0) as u32).max(1)
    }
}

/// GPU memory of a run of draws.
#[derive(Debug, Clone, Copy)]
pub struct DrawBuffers<'a> {
    /// `[steps]` (u32): the random number of each draw, in 2⁻³².
    pub random: &'a Buffer,
    /// Scratch of the kernel, `[vocabulary, 2]`.
    pub scratch: &'a Buffer,
    /// `[steps]` (u32): the ids drawn.
    pub drawn: &'a Buffer,
    /// `[2]` (u32): the last id drawn, as input of [`crate::embed()`], and the number of draws.
    pub next: &'a Buffer,
    /// `[1]` [`crate::Place`] of the last token drawn.
    pub place: &'a Buffer,
}

/// Draws a token from `logits` `[vocabulary]`, with this step's random number: its id goes to
/// `drawn[step]` and `next[0]`; the step in `next[1]` and position and row in `place` advance by
/// one. (Before the first draw, `place` is that of the last token seen.) From step `steps` on,
/// nothing happens.
///
/// Min-p, top-k and top-p cut the distribution in this order, after the temperature. Ties go to
/// the lowest id. Tokens count as equally probable if the base-2 logarithms of their
/// probabilities differ by less than 2⁻¹⁵. A token is never drawn if it is at most 2⁻³² times as
/// probable as the best. The draw is exact: the same on every adapter, and in [`sample_cpu`]. (A
/// softcap's tanh is not.)
///
/// # Errors
/// [`GpuError::Shape`] for a vocabulary of 2²⁰ tokens or more, and buffers too small.
pub fn sample(
    launcher: &Launcher,
    logits: &Buffer,
    vocabulary: usize,
    steps: usize,
    draws: Draws,
    buffers: DrawBuffers<'_>,
) -> Result<(), GpuError> {
    let shader = select(launcher, &SHADERS);
    let name = shader.name;
    if vocabulary == 0 || vocabulary >= MAX_VOCABULARY {
        return Err(GpuError::shape(
            name,
            format!("a vocabulary of {vocabulary}, must be in 1..{MAX_VOCABULARY}"),
        ));
    }
    logits.holds(vocabulary, name, "logits")?;
    buffers.random.holds(steps, name, "random")?;
    buffers.scratch.holds(2 * vocabulary, name, "scratch")?;
    buffers.drawn.holds(steps, name, "drawn")?;
    buffers.next.holds(2, name, "next")?;
    buffers.place.holds(4, name, "place")?;
    let params = Params {
        vocabulary: vocabulary as u32,
        steps: count(name, "steps", steps)?,
        greedy: u32::from(draws.greedy()),
        top_k: draws.top_k,
        top_p: draws.share(),
        factor: draws.factor(),
        softcap: draws.softcap.unwrap_or(0.0),
        far: draws.far(),
    };
    let buffers = [
        Use::Read(logits),
        Use::Read(buffers.random),
        Use::Write(buffers.scratch),
        Use::Write(buffers.drawn),
        Use::Write(buffers.next),
        Use::Write(buffers.place),
    ];
    launcher.launch(shader, &buffers, &params, [1, 1, 1])
}

/// The CPU twin: the id drawn from `logits` with the random number `number` / 2³².
pub fn sample_cpu(logits: &[f32], draws: Draws, number: u32) -> u32 {
    let mut best: Option<(u32, f32)> = None;
    for (id, &logit) in logits.iter().enumerate() {
        // A masked logit is −∞; +∞ is as broken as NaN, and would hide the others.
        if logit.is_nan() || logit == f32::INFINITY {
            return NO_TOKEN;
        }
        if logit.is_finite() && best.is_none_or(|(_, top)| logit > top) {
            best = Some((id as u32, logit));
        }
    }
    let Some((best, top)) = best else {
        return NO_TOKEN;
    };
    if draws.greedy() {
        return best;
    }
    let capped = |logit: f32| {
        let cap = draws.softcap;
        cap.map_or(logit, |cap| cap * (logit / cap).tanh())
    };
    let top = capped(top);
    let finite = (0..).zip(logits).filter(|(_, logit)| logit.is_finite());
    let mut order: Vec<(u32, u32)> = finite
        .map(|(id, &logit)| {
            let distance = (top - capped(logit)) * draws.factor();
            (distance.min(FAR as f32) as u32, id)
        })
        .filter(|&(distance, _)| distance < draws.far())
        .collect();
    order.sort_unstable();
    if draws.top_k > 0 {
        order.truncate(draws.top_k as usize);
    }
    let sum = |order: &[(u32, u32)]| order.iter().map(|&(distance, _)| weight(distance)).sum();
    // The number of elements whose weights reach a goal of 1 or more.
    let reach = |order: &[(u32, u32)], goal: u64| {
        let mut kept = 0;
        let reached = order.iter().position(|&(distance, _)| {
            kept += weight(distance);
            kept >= goal
        });
        reached.map_or(order.len(), |last| last + 1)
    };
    let share = |sum: u64, share: u32| u128::from(sum) * u128::from(share);
    if draws.share() > 0 {
        let goal = share(sum(&order), draws.share()).div_ceil(1 << 32) as u64;
        order.truncate(reach(&order, goal.max(1)));
    }
    let goal = (share(sum(&order), number) >> 32) as u64 + 1;
    order[reach(&order, goal) - 1].1
}

/// 2³¹ · 2^(−distance / 2¹⁵), at least 1: a power of 2^(−1/16) times a cubic of the rest.
fn weight(distance: u32) -> u64 {
    /// 2³² · 2^(−1/2), 2^(−1/4), 2^(−1/8) and 2^(−1/16).
    const ROOTS: [u64; 4] = [3_037_000_500, 3_611_622_603, 3_938_502_376, 4_112_874_773];
    let step = distance >> 11;
    let root = (0..4)
        .filter(|i| step & (8 >> i) > 0)
        .fold(1 << 31, |root, i| (root * ROOTS[i]) >> 32);
    let rest = u64::from(distance & 2047);
    let cubic = (rest * 58_200) >> 15;
    let square = (rest * (251_896 - cubic)) >> 15;
    let near_one = (1_u64 << 31) - ((rest * (726_817 - square)) >> 4);
    let root: u64 = root;
    (((root * near_one) >> 32 << 1) >> (distance / HALVING)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_powers_of_two_within_a_millionth() {
        for distance in 0..FAR {
            let exact = (31.0 - f64::from(distance) / f64::from(HALVING)).exp2();
            let off = (weight(distance) as f64 - exact).abs();
            assert!(off <= 1.0 + 1e-6 * exact, "{distance}: off by {off}");
        }
    }
}
