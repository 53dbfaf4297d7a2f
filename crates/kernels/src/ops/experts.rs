//! Products with the weight rows of the experts that were chosen for each token. Choices run one by
//! one, as for a single token, or four choices of one expert at a time, which dequantises a weight
//! once for the four.
//!
//! The kernels read the ids of the experts from GPU memory, where they were chosen, so that the CPU
//! does not wait for them.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count, grid, number_in};

use super::group_choices::choice_groups;
use super::product::{BLOCKS, Family, PLAIN, VECTORS};
use super::route::ExpertCounts;
use crate::block::per_format;
use crate::serial::select;
use crate::subgroups;
use crate::{Buffer, Dispatch, Format, GpuError, Launcher, Matrix, Rows};

pub(crate) const SHARED: &str = wgsl!("shared/experts/rows.wgsl");
const VECTOR: &str = wgsl!("experts_vector/cooperative.wgsl");
const VECTOR_SERIAL: &str = wgsl!("experts_vector/serial.wgsl");
const BLOCK: &str = wgsl!("experts_block/cooperative.wgsl");
const BLOCK_SERIAL: &str = wgsl!("experts_block/serial.wgsl");

/// Pairs of weight rows for a workgroup of cooperative threads, and of serial ones.
const VECTOR_PAIRS: [u32; 2] = [
    number_in(VECTOR, "PAIRS: u32 = "),
    number_in(VECTOR_SERIAL, "PAIRS: u32 = "),
];
const BLOCK_PAIRS: [u32; 2] = [
    number_in(BLOCK, "PAIRS: u32 = "),
    number_in(BLOCK_SERIAL, "PAIRS: u32 = "),
];

/// Parameters of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct ExpertParams {
    rows: u32,
    units: u32,
    plane1_offset: u32,
    begin: u32,
    n: u32,
    each: u32,
    used: u32,
    spare: u32,
}

static VECTORS_OF: [Family; 2] = [
    per_format!(
        "experts_vector",
        [VECTOR, VECTORS, SHARED, PLAIN],
        ExpertParams
    ),
    per_format!(
        "experts_vector_serial",
        [VECTOR_SERIAL, VECTORS, SHARED, PLAIN],
        ExpertParams
    ),
];
static BLOCKS_OF: [Family; 2] = [
    per_format!(
        "experts_block",
        [BLOCK, BLOCKS, SHARED, PLAIN],
        ExpertParams
    ),
    per_format!(
        "experts_block_serial",
        [BLOCK_SERIAL, BLOCKS, SHARED, PLAIN],
        ExpertParams
    ),
];

pub(crate) static FAMILIES: [&[Family; 2]; 2] = [&VECTORS_OF, &BLOCKS_OF];

/// Kernel of the products of experts, by cooperative threads or by serial ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ExpertKernel {
    /// Computes the choices one by one.
    Vector,
    /// [`Self::Vector`] with subgroups.
    VectorSubgroups,
    /// Computes four choices of one expert at a time.
    Block,
}

/// The chosen experts of a pass's tokens.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'a> {
    /// The tokens.
    pub rows: Rows<'a>,
    /// Number of experts, and of those chosen for a token.
    pub of: ExpertCounts,
    /// Their ids, `[m, used]` (u32).
    pub experts: &'a Buffer,
    /// The same choices [in groups](crate::group_choices); with `None` they are computed one by
    /// one.
    pub groups: Option<&'a Buffer>,
}

/// `out = x · Wᵀ` for each choice of a token, with the chosen expert's rows: x `[m, k]`, or a
/// row for each choice `[m, used, k]`; W all experts' matrices stacked, `[count · n, k]`; out `[m,
/// used, n]`.
///
/// # Errors
/// [`GpuError::Shape`] for unsupported counts of experts, a matrix of another number of rows, more
/// than 65,535 choices, and buffers too small.
pub fn experts(
    launcher: &Launcher,
    (x, of_choices): (&Buffer, bool),
    chosen: Chosen<'_>,
    matrix: &Matrix,
    out: &Buffer,
) -> Result<(), GpuError> {
    const NAME: &str = "experts";
    let Chosen { rows, of, .. } = chosen;
    of.check(NAME)?;
    let (k, choices) = (matrix.cols(), rows.count * of.used);
    let n = matrix.rows() / of.count;
    if n == 0 || n * of.count != matrix.rows() {
        let all = matrix.rows();
        let problem = format!("{all} rows cannot be of {} experts", of.count);
        return Err(GpuError::shape(NAME, problem));
    }
    count(NAME, "choices · k", choices * k)?;
    count(NAME, "choices · n", choices * n)?;
    let each = if of_choices { 1 } else { of.used };
    x.holds(choices / each * k, NAME, "x")?;
    chosen.experts.holds(choices, NAME, "chosen")?;
    rows.counts.holds(1, NAME, "counts")?;
    out.holds(choices * n, NAME, "out")?;
    let groups = choice_groups(rows.count, of);
    let (family, pairs, launched, third) = match chosen.groups {
        Some(buffer) => {
            buffer.holds(4 * groups, NAME, "groups")?;
            (&BLOCKS_OF, &BLOCK_PAIRS, groups, buffer)
        }
        None => (&VECTORS_OF, &VECTOR_PAIRS, choices, rows.counts),
    };
    let twin = match launcher.choices().experts(chosen.groups.is_some()) {
        ExpertKernel::VectorSubgroups => subgroups::experts_vector(),
        ExpertKernel::Vector | ExpertKernel::Block => None,
    };
    let shaders = twin.unwrap_or((select(launcher, family), *select(launcher, pairs)));
    for part in matrix.each_part() {
        let shape = [n, k];
        let format = matrix.format();
        let dispatch = dispatch(
            shaders,
            format,
            shape,
            &part.rows,
            launched,
            [each, of.used],
        )?;
        let buffers = [
            Use::Read(x),
            Use::Read(&part.buffer),
            Use::Read(chosen.experts),
            Use::Read(third),
            Use::Write(out),
        ];
        launcher.run(&dispatch, &buffers)?;
    }
    Ok(())
}

/// Dispatch of [`experts`] for choices one by one, where `each` choices share a row of x. `rows`
/// are the rows taken from the matrix of all experts, which has n rows for each expert. The
/// dispatch binds x, the planes of these rows ([`Format::pack`]), the chosen experts, the count of
/// tokens, and out.
///
/// # Errors
/// [`GpuError::Shape`] for more than kernels count.
pub fn experts_dispatch(
    format: Format,
    shape: [usize; 2],
    rows: &Range<usize>,
    tokens: usize,
    [each, used]: [usize; 2],
) -> Result<Dispatch<ExpertParams>, GpuError> {
    let shaders = (&VECTORS_OF[0], VECTOR_PAIRS[0]);
    dispatch(shaders, format, shape, rows, tokens * used, [each, used])
}

/// A launch for some rows of all experts, with the number of workgroups in z.
fn dispatch(
    (family, pairs): (&'static Family, u32),
    format: Format,
    [n, k]: [usize; 2],
    rows: &Range<usize>,
    launched: usize,
    [each, used]: [usize; 2],
) -> Result<Dispatch<ExpertParams>, GpuError> {
    const MAX_CHOICES: usize = 65_535;
    let shader = &family[format.index()];
    if launched > MAX_CHOICES {
        let problem =
            format!("{launched} choices are more than the {MAX_CHOICES} that a launch has");
        return Err(GpuError::shape(shader.name, problem));
    }
    let params = ExpertParams {
        rows: rows.len() as u32,
        units: (k / format.unit()) as u32,
        plane1_offset: format.plane1_offset(rows.len(), k),
        begin: rows.start as u32,
        n: n as u32,
        each: each as u32,
        used: used as u32,
        spare: 0,
    };
    let mut groups = grid(n.div_ceil(2).div_ceil(pairs as usize));
    groups[2] = launched as u32;
    Ok(Dispatch {
        shader,
        params,
        groups,
    })
}

/// The CPU twin, on dequantised weights `[count · n, k]` and x with a row for each choice, or for
/// each token.
pub fn experts_cpu(x: &[f32], k: usize, weights: &[f32], count: usize, chosen: &[u32]) -> Vec<f32> {
    let each = chosen.len() / (x.len() / k);
    let expert = weights.len() / count;
    let choices = chosen.iter().enumerate();
    let made = choices.flat_map(|(choice, &of)| {
        let x = &x[choice / each * k..][..k];
        let rows = weights[of as usize * expert..][..expert].chunks(k);
        rows.map(move |row| row.iter().zip(x).map(|(a, b)| a * b).sum())
    });
    made.collect()
}
