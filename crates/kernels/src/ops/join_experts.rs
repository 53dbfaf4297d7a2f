//! Sum of a token's expert outputs, weighted by their scores.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, flat};

use crate::{Buffer, Gpu, GpuError, Rows};

const WGSL: &str = wgsl!("join_experts.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    quads: u32,
    used: u32,
    adds: u32,
    normalised: u32,
    epsilon: f32,
    scale: f32,
    spare: [u32; 2],
}

pub(crate) static SHADER: Shader = Shader::new::<Params>("join_experts", &[WGSL]);

/// Parameters of the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Joined {
    /// Number of experts of a token.
    pub used: usize,
    /// Numbers of each output, a multiple of 4.
    pub width: usize,
    /// Number added to the sum of a token's scores, by which they are then divided; `None` leaves
    /// the scores unchanged.
    pub normalised: Option<f32>,
    /// Factor on the sum.
    pub scale: f32,
    /// Whether the sum is added to the content of `out`.
    pub adds: bool,
}

/// `out (+)= Σ score · made`, scaled and normalised: made `[m, used, width]`, scores `[m, used]`,
/// out `[m, width]`.
///
/// # Errors
/// [`GpuError::Shape`] for a width that is not a multiple of 4 and buffers too small.
pub fn join_experts(
    gpu: &Gpu,
    made: &Buffer,
    scores: &Buffer,
    rows: Rows<'_>,
    of: Joined,
    out: &Buffer,
) -> Result<(), GpuError> {
    let (name, m) = (SHADER.name, rows.count);
    let Joined { used, width, .. } = of;
    if !width.is_multiple_of(4) || width == 0 || used == 0 {
        let problem = format!("{used} experts of {width} numbers; widths are multiples of 4");
        return Err(GpuError::shape(name, problem));
    }
    count(name, "m · used · width", m * used * width)?;
    made.holds(m * used * width, name, "made")?;
    scores.holds(m * used, name, "scores")?;
    rows.counts.holds(1, name, "counts")?;
    out.holds(m * width, name, "out")?;
    let params = Params {
        quads: width as u32 / 4,
        used: used as u32,
        adds: u32::from(of.adds),
        normalised: u32::from(of.normalised.is_some()),
        epsilon: of.normalised.unwrap_or(0.0),
        scale: of.scale,
        spare: [0; 2],
    };
    let buffers = [
        Use::Read(made),
        Use::Read(scores),
        Use::Read(rows.counts),
        Use::Write(out),
    ];
    gpu.launch(&SHADER, &buffers, &params, flat(&SHADER, m * width / 4))
}

/// The CPU twin; `before` is the content of `out`.
pub fn join_experts_cpu(made: &[f32], scores: &[f32], of: Joined, before: &[f32]) -> Vec<f32> {
    let tokens = made.chunks(of.used * of.width).zip(scores.chunks(of.used));
    let mut out = before.to_vec();
    for ((made, scores), out) in tokens.zip(out.chunks_mut(of.width)) {
        let sum: f32 = scores.iter().sum();
        let factor = of.scale / of.normalised.map_or(1.0, |epsilon| sum + epsilon);
        for (i, out) in out.iter_mut().enumerate() {
            let terms = scores.iter().zip(made.chunks(of.width));
            let joined = factor * terms.map(|(score, made)| score * made[i]).sum::<f32>();
            *out = if of.adds { *out + joined } else { joined };
        }
    }
    out
}
