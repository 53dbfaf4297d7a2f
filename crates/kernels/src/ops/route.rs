//! Choice of each token's experts.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, grid, number_in};

use crate::{Buffer, Gpu, GpuError, Rows};

const WGSL: &str = wgsl!("route.wgsl");

/// Largest number of experts.
pub(crate) const MAX_EXPERTS: usize = number_in(WGSL, "MAX_EXPERTS: u32 = ") as usize;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    used: u32,
    sigmoid: u32,
    biased: u32,
}

pub(crate) static SHADER: Shader = Shader::new::<Params>("route", &[WGSL]);

/// Number of experts, and of those that a token uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpertCounts {
    /// Number of all experts, at most 512.
    pub count: usize,
    /// Number of experts that a token uses, at least 1 and at most `count`.
    pub used: usize,
}

impl ExpertCounts {
    /// # Errors
    /// [`GpuError::Shape`] for unsupported counts.
    pub(crate) fn check(self, kernel: &'static str) -> Result<(), GpuError> {
        let Self { count, used } = self;
        match (1..=count).contains(&used) && count <= MAX_EXPERTS {
            true => Ok(()),
            false => Err(GpuError::shape(
                kernel,
                format!(
                    "{used} of {count} experts; at least one of at most {MAX_EXPERTS} must be used"
                ),
            )),
        }
    }
}

/// Chooses the experts of each token by its logits `[m, count]`: those with the largest scores, the
/// softmax of the logits or σ of each, plus `bias` `[count]` if given. `chosen` `[m, used]` (u32)
/// are best first, lower index first among equals; `scores` `[m, used]` are theirs, without bias.
///
/// # Errors
/// [`GpuError::Shape`] for unsupported counts of experts, and buffers too small.
pub fn route(
    gpu: &Gpu,
    (logits, rows): (&Buffer, Rows<'_>),
    of: ExpertCounts,
    sigmoid: bool,
    bias: Option<&Buffer>,
    [chosen, scores]: [&Buffer; 2],
) -> Result<(), GpuError> {
    let name = SHADER.name;
    of.check(name)?;
    let m = rows.count;
    count(name, "m · experts", m * of.count)?;
    logits.holds(m * of.count, name, "logits")?;
    rows.counts.holds(1, name, "counts")?;
    chosen.holds(m * of.used, name, "chosen")?;
    scores.holds(m * of.used, name, "scores")?;
    if let Some(bias) = bias {
        bias.holds(of.count, name, "bias")?;
    }
    let params = Params {
        count: of.count as u32,
        used: of.used as u32,
        sigmoid: u32::from(sigmoid),
        biased: u32::from(bias.is_some()),
    };
    let buffers = [
        Use::Read(logits),
        Use::Read(bias.unwrap_or(gpu.zeros())),
        Use::Read(rows.counts),
        Use::Write(chosen),
        Use::Write(scores),
    ];
    gpu.launch(&SHADER, &buffers, &params, grid(m))
}

/// The CPU twin: the chosen, and their scores.
pub fn route_cpu(
    logits: &[f32],
    of: ExpertCounts,
    sigmoid: bool,
    bias: Option<&[f32]>,
) -> (Vec<u32>, Vec<f32>) {
    let (mut chosen, mut found) = (Vec::new(), Vec::new());
    for logits in logits.chunks(of.count) {
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let part = |x: &f32| match sigmoid {
            true => 1.0 / (1.0 + (-x).exp()),
            false => (x - most).exp(),
        };
        let parts: Vec<f32> = logits.iter().map(part).collect();
        let sum = if sigmoid { 1.0 } else { parts.iter().sum() };
        let key = |expert: u32| {
            parts[expert as usize] / sum + bias.map_or(0.0, |bias| bias[expert as usize])
        };
        let first = chosen.len();
        for _ in 0..of.used {
            let left = (0..of.count as u32).filter(|expert| !chosen[first..].contains(expert));
            let best = left.reduce(|best, next| if key(next) > key(best) { next } else { best });
            chosen.extend(best);
        }
        let scores = chosen[first..].iter();
        found.extend(scores.map(|&expert| parts[expert as usize] / sum));
    }
    (chosen, found)
}
