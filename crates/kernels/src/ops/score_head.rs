//! Scores of target ids directly from hidden states: log-probabilities without storing a row of
//! logits, raw logits without the rest of the vocabulary.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, grid};

use crate::block::per_format;
use crate::ops::product::{
    Family, Params, ROWS, SHARED, TILE_PAIRS, TILE_ROWS, TILES, product_cpu,
};
use crate::serial::{COOPERATIVE, SERIAL, items, select};
use crate::{Buffer, Gpu, GpuError, Launcher, Matrix, Rows};

const HEAD: &str = wgsl!("score_head.wgsl");
const COMBINE: &str = wgsl!("score_combine.wgsl");
const TARGET: &str = wgsl!("target_logit.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CombineParams {
    tiles: u32,
    vocabulary: u32,
    nan: u32,
    spare: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct TargetParams {
    rows: u32,
    units: u32,
    plane1_offset: u32,
    begin: u32,
    vocabulary: u32,
    has_bias: u32,
    softcap: f32,
    spare: u32,
}

pub(crate) static HEAD_SHADERS: Family =
    per_format!("score_head", [HEAD, TILES, SHARED, ROWS], Params);
pub(crate) static TARGET_SHADERS: [Family; 2] = [
    per_format!("target_logit", [COOPERATIVE, TARGET], TargetParams),
    per_format!("target_logit_serial", [SERIAL, TARGET], TargetParams),
];
pub(crate) static COMBINE_SHADER: Shader =
    Shader::new::<CombineParams>("score_combine", &[COMBINE]);

/// Computation of logits from hidden states.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// `[vocabulary, hidden]`.
    pub weight: &'a Matrix,
    /// `[vocabulary]`.
    pub bias: Option<&'a Buffer>,
    /// Every logit l counts as c · tanh(l / c), with positive c (Gemma 2).
    pub softcap: Option<f32>,
}

impl Head<'_> {
    fn check(
        &self,
        name: &'static str,
        x: &Buffer,
        rows: Rows<'_>,
        targets: &Buffer,
    ) -> Result<(), GpuError> {
        if let Some(cap) = self.softcap
            && !(cap.is_finite() && cap > 0.0)
        {
            return Err(GpuError::shape(
                name,
                format!("a softcap of {cap}, must be a positive number"),
            ));
        }
        let k = self.weight.cols();
        x.holds(rows.count * k, name, "x")?;
        count(name, "m · k", rows.count * k)?;
        rows.counts.holds(1, name, "counts")?;
        targets.holds(rows.count, name, "targets")?;
        if let Some(bias) = self.bias {
            bias.holds(self.weight.rows(), name, "bias")?;
        }
        Ok(())
    }
}

/// Tiles of each part of a matrix.
fn tiles(weight: &Matrix) -> impl Iterator<Item = usize> {
    let rows = 2 * TILE_PAIRS as usize;
    let parts = weight.each_part().iter();
    parts.map(move |part| part.rows.len().div_ceil(rows))
}

/// Numbers of partial results of [`score_head`] for `m` rows.
pub fn score_partials(m: usize, weight: &Matrix) -> usize {
    m * (2 * tiles(weight).sum::<usize>() + 1)
}

/// Writes the raw logit and the row's log-sum-exp for each row of normalised hidden states `x` `[m,
/// hidden]` and its id in `targets` `[m]` (u32) to `out` `[m, 2]`; their difference is the id's
/// log-probability. Both are NaN where a logit of the row is NaN or +∞. Logits are not
/// stored, only [`score_partials`] numbers in `partials`. An id past the vocabulary gives a logit
/// of −3·10³⁸.
///
/// # Errors
/// [`GpuError::Shape`] for buffers too small and a softcap that is not positive.
pub fn score_head(
    gpu: &Gpu,
    x: &Buffer,
    rows: Rows<'_>,
    targets: &Buffer,
    head: Head<'_>,
    [partials, out]: [&Buffer; 2],
) -> Result<(), GpuError> {
    let name = COMBINE_SHADER.name;
    head.check(name, x, rows, targets)?;
    let (m, weight) = (rows.count, head.weight);
    partials.holds(score_partials(m, weight), name, "partials")?;
    count(
        name,
        "numbers of partial results",
        score_partials(m, weight),
    )?;
    out.holds(2 * m, name, "out")?;
    let all_tiles = tiles(weight).sum::<usize>();
    let mut first_tile = 0;
    for (part, tiles) in weight.each_part().iter().zip(tiles(weight)) {
        let params = Params {
            rows: part.rows.len() as u32,
            units: weight.units(),
            plane1_offset: part.plane1_offset,
            begin: part.rows.start as u32,
            n: (2 * all_tiles + 1) as u32,
            has_bias: u32::from(head.bias.is_some()),
            softcap: head.softcap.unwrap_or(0.0),
            first_tile,
            tiles: all_tiles as u32,
            ..Params::zeroed()
        };
        let buffers = [
            Use::Read(x),
            Use::Read(&part.buffer),
            Use::Read(head.bias.unwrap_or(gpu.zeros())),
            Use::Read(rows.counts),
            Use::Write(partials),
            Use::Read(targets),
        ];
        let mut groups = grid(tiles);
        groups[2] = count(name, "rows of x", m.div_ceil(TILE_ROWS as usize))?;
        let shader = &HEAD_SHADERS[weight.format().index()];
        gpu.launch(shader, &buffers, &params, groups)?;
        first_tile += tiles as u32;
    }
    let params = CombineParams {
        tiles: all_tiles as u32,
        vocabulary: weight.rows() as u32,
        nan: f32::NAN.to_bits(),
        spare: 0,
    };
    let buffers = [
        Use::Read(partials),
        Use::Read(targets),
        Use::Read(rows.counts),
        Use::Write(out),
    ];
    gpu.launch(&COMBINE_SHADER, &buffers, &params, grid(m))
}

/// Writes the raw logit of the id in `targets` `[m]` (u32) for each row of normalised hidden states
/// `x` `[m, hidden]` to `out` `[m]`, reading one row of the output matrix each. An id past the
/// vocabulary gives −3·10³⁸.
///
/// # Errors
/// As [`score_head`].
pub fn target_logits(
    launcher: &Launcher,
    x: &Buffer,
    rows: Rows<'_>,
    targets: &Buffer,
    head: Head<'_>,
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = &select(launcher, &TARGET_SHADERS)[head.weight.format().index()];
    head.check(shader.name, x, rows, targets)?;
    out.holds(rows.count, shader.name, "out")?;
    for part in head.weight.each_part() {
        let params = TargetParams {
            rows: part.rows.len() as u32,
            units: head.weight.units(),
            plane1_offset: part.plane1_offset,
            begin: part.rows.start as u32,
            vocabulary: head.weight.rows() as u32,
            has_bias: u32::from(head.bias.is_some()),
            softcap: head.softcap.unwrap_or(0.0),
            spare: 0,
        };
        let buffers = [
            Use::Read(x),
            Use::Read(&part.buffer),
            Use::Read(head.bias.unwrap_or(launcher.zeros())),
            Use::Read(rows.counts),
            Use::Read(targets),
            Use::Write(out),
        ];
        launcher.launch(shader, &buffers, &params, items(launcher, rows.count))?;
    }
    Ok(())
}

/// The CPU twin of both, on dequantised weights `[vocabulary, k]`: logit and log-sum-exp.
pub fn score_head_cpu(
    x: &[f32],
    k: usize,
    weights: &[f32],
    bias: Option<&[f32]>,
    softcap: Option<f32>,
    targets: &[u32],
) -> Vec<[f32; 2]> {
    let logits = product_cpu(x, k, weights, bias, None, None);
    let capped = |logit: f32| softcap.map_or(logit, |cap| cap * (logit / cap).tanh());
    logits
        .chunks(weights.len() / k)
        .zip(targets)
        .map(|(row, &id)| {
            let top = capped(row.iter().copied().fold(-3.0e38, f32::max));
            let sum: f32 = row.iter().map(|&logit| (capped(logit) - top).exp()).sum();
            let logit = row.get(id as usize).map_or(-3.0e38, |&logit| capped(logit));
            [logit, top + sum.ln()]
        })
        .collect()
}
