//! Gated heads of an attention or a recurrence, with a norm before or after the gate.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::serial::{ShaderPair, items_by, select, shader_pair};
use crate::{Buffer, GpuError, Launcher, rms_norm_cpu};

const WGSL: &str = wgsl!("gate_heads.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    heads: u32,
    width: u32,
    row: u32,
    first: u32,
    gate_row: u32,
    gate_first: u32,
    gate_apart: u32,
    norm: u32,
    silu: u32,
    epsilon: f32,
    norm_apart: u32,
    spare: u32,
}

pub(crate) static SHADERS: ShaderPair = shader_pair!("gate_heads", [WGSL], Params);

/// Layout of heads and their gates, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatedHeads {
    /// Number of heads.
    pub heads: usize,
    /// Width of a head, and of a gate.
    pub width: usize,
    /// Width of a token's row of x, and offset of its heads.
    pub row: [usize; 2],
    /// Width of a token's row of gates, and offset of its gates.
    pub gate_row: [usize; 2],
    /// Distance from the beginning of a gate to that of the next.
    pub gate_apart: usize,
    /// Whether the gate is x · g · σ(g) instead of x · σ(g).
    pub silu: bool,
}

/// A norm of each head.
#[derive(Debug, Clone, Copy)]
pub struct GatedNorm<W> {
    /// `[width]`; after the gate `[heads, width]`.
    pub weight: W,
    /// ε of the norm.
    pub epsilon: f32,
    /// Whether the norm comes after the gate instead of before.
    pub after_gate: bool,
}

/// Writes the gated heads of x, with a norm of each if given, to `out` `[tokens, heads, width]`.
///
/// # Errors
/// [`GpuError::Shape`] for rows that do not hold their heads and buffers too small.
pub fn gate_heads(
    launcher: &Launcher,
    (x, tokens): (&Buffer, usize),
    of: GatedHeads,
    gates: &Buffer,
    norm: Option<GatedNorm<&Buffer>>,
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = select(launcher, &SHADERS);
    let name = shader.name;
    let GatedHeads {
        heads,
        width,
        row: [row, first],
        gate_row: [gate_row, gate_first],
        gate_apart,
        silu,
    } = of;
    let last_gate = gate_first + (heads.max(1) - 1) * gate_apart + width;
    if heads == 0 || width == 0 || first + heads * width > row || last_gate > gate_row {
        return Err(GpuError::shape(
            name,
            format!("{heads} heads of {width} numbers do not lie in rows of {row} and {gate_row}"),
        ));
    }
    count(name, "tokens · row", tokens * row.max(gate_row))?;
    x.holds(tokens * row, name, "x")?;
    gates.holds(tokens * gate_row, name, "gates")?;
    out.holds(tokens * heads * width, name, "out")?;
    if let Some(norm) = norm {
        let weights = if norm.after_gate {
            heads * width
        } else {
            width
        };
        norm.weight.holds(weights, name, "norm")?;
    }
    let after_gate = norm.is_some_and(|norm| norm.after_gate);
    let params = Params {
        heads: heads as u32,
        width: width as u32,
        row: row as u32,
        first: first as u32,
        gate_row: gate_row as u32,
        gate_first: gate_first as u32,
        gate_apart: gate_apart as u32,
        norm: u32::from(norm.is_some()) + u32::from(after_gate),
        silu: u32::from(silu),
        epsilon: norm.map_or(1.0, |norm| norm.epsilon),
        norm_apart: if after_gate { width as u32 } else { 0 },
        spare: 0,
    };
    let buffers = [
        Use::Read(x),
        Use::Read(gates),
        Use::Read(norm.map_or(launcher.zeros(), |norm| norm.weight)),
        Use::Write(out),
    ];
    let [x, ..] = items_by(launcher.choices().serial, heads);
    launcher.launch(shader, &buffers, &params, [x, tokens as u32, 1])
}

/// The CPU twin.
pub fn gate_heads_cpu(
    x: &[f32],
    of: GatedHeads,
    gates: &[f32],
    norm: Option<GatedNorm<&[f32]>>,
) -> Vec<f32> {
    let mut out = Vec::new();
    let rows = x.chunks(of.row[0]).zip(gates.chunks(of.gate_row[0]));
    for (x, gates) in rows {
        for head in 0..of.heads {
            let x = &x[of.row[1] + head * of.width..][..of.width];
            let gates = &gates[of.gate_row[1] + head * of.gate_apart..][..of.width];
            let gated = |x: &[f32]| -> Vec<f32> {
                let pairs = x.iter().zip(gates);
                let curved = pairs.map(|(x, gate)| {
                    let sigmoid = 1.0 / (1.0 + (-gate).exp());
                    x * if of.silu { gate * sigmoid } else { sigmoid }
                });
                curved.collect()
            };
            out.extend(match norm {
                None => gated(x),
                Some(norm) if norm.after_gate => {
                    let weight = &norm.weight[head * of.width..][..of.width];
                    rms_norm_cpu(&gated(x), weight, norm.epsilon)
                }
                Some(norm) => gated(&rms_norm_cpu(x, norm.weight, norm.epsilon)),
            });
        }
    }
    out
}
