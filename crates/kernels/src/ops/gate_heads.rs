//! Heads behind gates of their own: of an attention, and of a delta net, where a norm comes before.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::serial::{Both, both, items_by, pick};
use crate::{Buffer, GpuError, Launcher, rms_norm_cpu};

const WGSL: &str = include_str!("../../../../shaders/gate_heads.wgsl");

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
    normed: u32,
    silu: u32,
    epsilon: f32,
    spare: [u32; 2],
}

pub(crate) static SHADERS: Both = both!("gate_heads", [WGSL], Params);

/// Where heads and their gates lie, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatedHeads {
    /// How many.
    pub heads: usize,
    /// Of a head, and of a gate.
    pub width: usize,
    /// Of a token's row of x, and where its heads begin in it.
    pub row: [usize; 2],
    /// Of a token's row of gates, and where the first begins in it.
    pub gate_row: [usize; 2],
    /// From the beginning of a gate to that of the next.
    pub gate_apart: usize,
    /// x · g · σ(g), not x · σ(g).
    pub silu: bool,
}

/// The heads of x behind their gates, and behind a norm of each where there is one, its weight `[width]`
/// and its epsilon, into `out` `[tokens, heads, width]`.
///
/// # Errors
/// [`GpuError::Shape`] for rows that do not hold their heads and buffers too small.
pub fn gate_heads(
    launcher: &Launcher,
    x: &Buffer,
    tokens: usize,
    of: GatedHeads,
    gates: &Buffer,
    norm: Option<(&Buffer, f32)>,
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = pick(launcher, &SHADERS);
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
            format!("{of:?} do not lie in their rows"),
        ));
    }
    count(name, "tokens · row", tokens * row.max(gate_row))?;
    x.holds(tokens * row, name, "x")?;
    gates.holds(tokens * gate_row, name, "gates")?;
    out.holds(tokens * heads * width, name, "out")?;
    if let Some((weight, _)) = norm {
        weight.holds(width, name, "norm")?;
    }
    let params = Params {
        heads: heads as u32,
        width: width as u32,
        row: row as u32,
        first: first as u32,
        gate_row: gate_row as u32,
        gate_first: gate_first as u32,
        gate_apart: gate_apart as u32,
        normed: u32::from(norm.is_some()),
        silu: u32::from(silu),
        epsilon: norm.map_or(1.0, |(_, epsilon)| epsilon),
        spare: [0; 2],
    };
    let buffers = [
        Use::Read(x),
        Use::Read(gates),
        Use::Read(norm.map_or(launcher.zeros(), |(weight, _)| weight)),
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
    norm: Option<(&[f32], f32)>,
) -> Vec<f32> {
    let mut out = Vec::new();
    let rows = x.chunks(of.row[0]).zip(gates.chunks(of.gate_row[0]));
    for (x, gates) in rows {
        for head in 0..of.heads {
            let x = &x[of.row[1] + head * of.width..][..of.width];
            let x = match norm {
                Some((weight, epsilon)) => rms_norm_cpu(x, weight, epsilon),
                None => x.to_vec(),
            };
            let gates = &gates[of.gate_row[1] + head * of.gate_apart..][..of.width];
            out.extend(x.iter().zip(gates).map(|(x, gate)| {
                let curved = 1.0 / (1.0 + (-gate).exp());
                x * if of.silu { gate * curved } else { curved }
            }));
        }
    }
    out
}
