//! The fused products of a pass: `out = norm(x) · Wᵀ + bias`, gated or added to the content of
//! `out`. The kernel depends on the rows of x, unless a device has other [`crate::Choices`]:
//!
//! | rows | kernel | why |
//! |---|---|---|
//! | 1 | `product_vector` | bound by the bytes of W; on a GPU the norm is fused |
//! | 2 – 27 | `product_block` | a weight is dequantised once for four rows |
//! | from 28 | `product_tile` | numbers pass through workgroup memory, for 32 uses each |
//!
//! On a CPU emulating a GPU a barrier costs more than it saves: there `product_vector_serial` and
//! `product_block_serial`, whose threads compute rows of W independently, serve any number of rows.
//!
//! On devices with subgroups `product_vector_subgroups` may replace `product_vector`: it sums
//! without workgroup memory and barriers.
//!
//! The number of rows is read from the GPU ([`Rows`]), so that one bind group serves passes of any
//! size.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, grid, number_in};

use crate::block::per_format;
use crate::serial::product as serial;
use crate::subgroups;
use crate::{
    Activation, Buffer, Dispatch, Format, GpuError, Launcher, Matrix, gated_cpu, rms_norm,
};

pub(crate) const SHARED: &str = wgsl!("shared/product.wgsl");
const VECTOR: &str = wgsl!("product_vector/cooperative.wgsl");
pub(crate) const VECTORS: &str = wgsl!("shared/product/vector.wgsl");
const BLOCK: &str = wgsl!("product_block/cooperative.wgsl");
pub(crate) const BLOCKS: &str = wgsl!("shared/product/block.wgsl");
const TILE: &str = wgsl!("product_tile.wgsl");
pub(crate) const TILES: &str = wgsl!("shared/product/tile.wgsl");
pub(crate) const PLAIN: &str = wgsl!("shared/product/input_plain.wgsl");
pub(crate) const NORM: &str = wgsl!("shared/product/input_norm.wgsl");
pub(crate) const ROWS: &str = wgsl!("shared/product/output_rows.wgsl");
pub(crate) const GATED: &str = wgsl!("shared/product/output_gated.wgsl");

/// Number of pairs of weight rows in a workgroup.
const VECTOR_PAIRS: u32 = number_in(VECTOR, "PAIRS: u32 = ");
const BLOCK_PAIRS: u32 = number_in(BLOCK, "PAIRS: u32 = ");
pub(crate) const TILE_PAIRS: u32 = number_in(TILES, "PAIRS: u32 = ");
/// Number of rows of x in a workgroup.
const BLOCK_ROWS: u32 = number_in(BLOCKS, "BLOCK: u32 = ");
pub(crate) const TILE_ROWS: u32 = number_in(TILES, "TILE: u32 = ");

/// Parameters of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Params {
    pub(crate) rows: u32,
    pub(crate) units: u32,
    pub(crate) plane1_offset: u32,
    pub(crate) begin: u32,
    pub(crate) n: u32,
    pub(crate) has_bias: u32,
    pub(crate) adds: u32,
    pub(crate) gelu: u32,
    pub(crate) epsilon: f32,
    pub(crate) softcap: f32,
    pub(crate) first_tile: u32,
    pub(crate) tiles: u32,
}

/// A shader for each format, in the order of [`Format::index`].
pub(crate) type Family = [Shader; Format::ALL.len()];

static VECTOR_ROWS: Family = per_format!(
    "product_vector",
    [VECTOR, VECTORS, SHARED, PLAIN, ROWS],
    Params
);
static VECTOR_GATED: Family = per_format!(
    "product_vector_gated",
    [VECTOR, VECTORS, SHARED, PLAIN, GATED],
    Params
);
static NORM_VECTOR_ROWS: Family = per_format!(
    "product_vector_norm",
    [VECTOR, VECTORS, SHARED, NORM, ROWS],
    Params
);
static NORM_VECTOR_GATED: Family = per_format!(
    "product_vector_norm_gated",
    [VECTOR, VECTORS, SHARED, NORM, GATED],
    Params
);
static BLOCK_ROWS_OUT: Family = per_format!(
    "product_block",
    [BLOCK, BLOCKS, SHARED, PLAIN, ROWS],
    Params
);
static BLOCK_GATED: Family = per_format!(
    "product_block_gated",
    [BLOCK, BLOCKS, SHARED, PLAIN, GATED],
    Params
);
static TILE_ROWS_OUT: Family =
    per_format!("product_tile", [TILE, TILES, SHARED, PLAIN, ROWS], Params);
static TILE_GATED: Family = per_format!(
    "product_tile_gated",
    [TILE, TILES, SHARED, PLAIN, GATED],
    Params
);

pub(crate) static FAMILIES: [&Family; 12] = [
    &serial::VECTOR_ROWS,
    &serial::VECTOR_GATED,
    &serial::BLOCK_ROWS,
    &serial::BLOCK_GATED,
    &VECTOR_ROWS,
    &VECTOR_GATED,
    &NORM_VECTOR_ROWS,
    &NORM_VECTOR_GATED,
    &BLOCK_ROWS_OUT,
    &BLOCK_GATED,
    &TILE_ROWS_OUT,
    &TILE_GATED,
];

/// The rows of a pass: on the CPU to choose kernels and workgroups, on the GPU to bound the
/// kernels.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Number of rows.
    pub count: usize,
    /// The same number on the GPU, `[1]` (u32).
    pub counts: &'a Buffer,
}

/// An RMS norm before a product.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// `[k]`.
    pub weight: &'a Buffer,
    /// Number added to the mean square.
    pub epsilon: f32,
    /// Buffer for the normalised rows, `[m, k]`. It is used if the norm takes a dispatch of its
    /// own: for several rows, and where that is faster.
    pub scratch: &'a Buffer,
    /// Whether the norm may be fused into the product of one row.
    pub inside: bool,
}

/// Operations fused with a product.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fused<'a> {
    /// Norm of x, before the product.
    pub norm: Option<Norm<'a>>,
    /// `[n]`, a number for each weight row.
    pub bias: Option<&'a Buffer>,
    /// Activation of a gate. The first half of the weight rows are then the gate, the second half
    /// the gated values, and the output has half as many columns.
    pub gate: Option<Activation>,
    /// Whether the product is added to the output instead of overwriting it.
    pub adds: bool,
}

/// Kernel of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProductKernel {
    /// Computes one row of x at a time.
    Vector,
    /// Computes four rows of x at a time.
    Block,
    /// Computes 32 rows of x at a time.
    Tile,
    /// Computes one row of x at a time, without barriers.
    VectorSerial,
    /// Computes four rows of x at a time, without barriers.
    BlockSerial,
    /// [`Self::Vector`] with subgroups, on devices that [have them](crate::Gpu::has_subgroups).
    VectorSubgroups,
}

impl ProductKernel {
    /// All kernels of products.
    pub const ALL: [Self; 6] = [
        Self::Vector,
        Self::Block,
        Self::Tile,
        Self::VectorSerial,
        Self::BlockSerial,
        Self::VectorSubgroups,
    ];

    /// Whether the kernel can fuse the norm of x.
    pub(crate) fn takes_norms(self) -> bool {
        matches!(self, Self::Vector | Self::VectorSubgroups)
    }
}

/// `out = norm(x) · Wᵀ + bias`, gated or added: x `[m, k]`; W the given matrices `[nᵢ, k]`
/// stacked, n rows together, a dispatch each (several only where their formats differ); out
/// `[m, n]`, or `[m, n / 2]` if gated.
///
/// # Errors
/// [`GpuError::Shape`] for buffers too small, matrices of different widths, and a gated product of
/// several matrices or of a split one: see [`can_gate`].
pub fn product(
    launcher: &Launcher,
    x: &Buffer,
    rows: Rows<'_>,
    matrices: &[&Matrix],
    fused: Fused<'_>,
    out: &Buffer,
) -> Result<(), GpuError> {
    let choices = launcher.choices();
    let kernel = choices.product(rows.count);
    let norm = fused.norm.map(|norm| Norm {
        inside: norm.inside && choices.norm_inside,
        ..norm
    });
    product_by(
        launcher,
        (x, rows),
        matrices,
        Fused { norm, ..fused },
        out,
        kernel,
    )
}

/// [`product`] by a given kernel; [`ProductKernel::Vector`] takes any number of rows, one by one. A
/// kernel with subgroups on a device without is an error of the next read.
///
/// # Errors
/// As [`product`].
pub fn product_by(
    launcher: &Launcher,
    (x, rows): (&Buffer, Rows<'_>),
    matrices: &[&Matrix],
    fused: Fused<'_>,
    out: &Buffer,
    kernel: ProductKernel,
) -> Result<(), GpuError> {
    const NAME: &str = "product";
    let m = rows.count;
    let n: usize = matrices.iter().map(|matrix| matrix.rows()).sum();
    let k = matrices.first().map_or(0, |matrix| matrix.cols());
    if m == 0 || matrices.iter().any(|matrix| matrix.cols() != k) || n == 0 {
        return Err(GpuError::shape(
            NAME,
            format!(
                "{m} rows with {} matrices; there must be both, the matrices of one width",
                matrices.len()
            ),
        ));
    }
    let gated = fused.gate.is_some();
    if gated && !(matrices.len() == 1 && can_gate(matrices[0])) {
        return Err(GpuError::shape(
            NAME,
            "a gate needs one unsplit matrix with an even number of rows; multiply by gate and up \
            apart",
        ));
    }
    let columns = if gated { n / 2 } else { n };
    x.holds(m * k, NAME, "x")?;
    out.holds(m * columns, NAME, "out")?;
    rows.counts.holds(1, NAME, "counts")?;
    count(NAME, "m · k", m * k)?;
    count(NAME, "m · n", m * n)?;
    if let Some(bias) = fused.bias {
        bias.holds(n, NAME, "bias")?;
    }
    // For several rows, a separate norm is cheaper than one in each workgroup.
    let (x, norm) = match fused.norm {
        Some(norm) if !kernel.takes_norms() || !norm.inside => {
            let Norm {
                weight,
                epsilon,
                scratch,
                ..
            } = norm;
            rms_norm(launcher, x, weight, epsilon, [m, k], scratch)?;
            (scratch, None)
        }
        Some(norm) => {
            norm.weight.holds(k, NAME, "norm")?;
            (x, Some(norm))
        }
        None => (x, None),
    };
    let params = Params {
        n: columns as u32,
        has_bias: u32::from(fused.bias.is_some()),
        adds: u32::from(fused.adds),
        gelu: u32::from(fused.gate == Some(Activation::Gelu)),
        epsilon: norm.map_or(0.0, |norm| norm.epsilon),
        ..Params::zeroed()
    };
    let kind = (kernel, norm.is_some(), gated);
    let mut begin = 0;
    for matrix in matrices {
        for part in matrix.each_part() {
            let params = Params {
                begin: (begin + part.rows.start) as u32,
                ..params
            };
            let dispatch = dispatch(kind, matrix.format(), k, &part.rows, m, params)?;
            let buffers = [
                Use::Read(x),
                Use::Read(&part.buffer),
                Use::Read(fused.bias.unwrap_or(launcher.zeros())),
                Use::Read(rows.counts),
                Use::Write(out),
                Use::Read(norm.map_or(launcher.zeros(), |norm| norm.weight)),
            ];
            let bound = if norm.is_some() { 6 } else { 5 };
            launcher.run(&dispatch, &buffers[..bound])?;
        }
        begin += matrix.rows();
    }
    Ok(())
}

/// Dispatch of [`product`] for `m` rows of x and the rows `rows` of a matrix `[n, k]`, without
/// norm, bias, gate or sum. It binds x, the planes of these rows ([`Format::pack`]), any buffer in
/// place of a bias, the count of x's rows, and out `[m, n]`.
///
/// # Errors
/// [`GpuError::Shape`] for more rows than kernels count.
pub fn product_dispatch(
    kernel: ProductKernel,
    format: Format,
    [n, k]: [usize; 2],
    rows: &Range<usize>,
    m: usize,
) -> Result<Dispatch<Params>, GpuError> {
    count("product", "m · k", m * k)?;
    count("product", "m · n", m * n)?;
    let params = Params {
        n: n as u32,
        begin: rows.start as u32,
        ..Params::zeroed()
    };
    dispatch((kernel, false, false), format, k, rows, m, params)
}

/// A launch for some rows of a matrix, with a given kernel.
fn dispatch(
    (kernel, normed, gated): (ProductKernel, bool, bool),
    format: Format,
    k: usize,
    rows: &Range<usize>,
    m: usize,
    params: Params,
) -> Result<Dispatch<Params>, GpuError> {
    use ProductKernel::{Vector, VectorSubgroups};
    let (family, pairs, rows_at_once) = match (kernel, normed, gated) {
        (Vector | VectorSubgroups, false, false) => (&VECTOR_ROWS, VECTOR_PAIRS, 1),
        (Vector | VectorSubgroups, false, true) => (&VECTOR_GATED, VECTOR_PAIRS, 1),
        (Vector | VectorSubgroups, true, false) => (&NORM_VECTOR_ROWS, VECTOR_PAIRS, 1),
        (Vector | VectorSubgroups, true, true) => (&NORM_VECTOR_GATED, VECTOR_PAIRS, 1),
        (ProductKernel::Block, _, false) => (&BLOCK_ROWS_OUT, BLOCK_PAIRS, BLOCK_ROWS),
        (ProductKernel::Block, _, true) => (&BLOCK_GATED, BLOCK_PAIRS, BLOCK_ROWS),
        (ProductKernel::Tile, _, false) => (&TILE_ROWS_OUT, TILE_PAIRS, TILE_ROWS),
        (ProductKernel::Tile, _, true) => (&TILE_GATED, TILE_PAIRS, TILE_ROWS),
        (ProductKernel::VectorSerial, _, false) => (&serial::VECTOR_ROWS, serial::VECTOR_PAIRS, 1),
        (ProductKernel::VectorSerial, _, true) => (&serial::VECTOR_GATED, serial::VECTOR_PAIRS, 1),
        (ProductKernel::BlockSerial, _, false) => {
            (&serial::BLOCK_ROWS, serial::BLOCK_PAIRS, BLOCK_ROWS)
        }
        (ProductKernel::BlockSerial, _, true) => {
            (&serial::BLOCK_GATED, serial::BLOCK_PAIRS, BLOCK_ROWS)
        }
    };
    let twin = match kernel {
        VectorSubgroups => subgroups::product_vector(normed, gated),
        _ => None,
    };
    let (family, pairs) = twin.unwrap_or((family, pairs));
    let shader = &family[format.index()];
    let params = Params {
        rows: rows.len() as u32,
        units: (k / format.unit()) as u32,
        plane1_offset: format.plane1_offset(rows.len(), k),
        ..params
    };
    let mut groups = grid(rows.len().div_ceil(2).div_ceil(pairs as usize));
    groups[2] = count("product", "rows of x", m.div_ceil(rows_at_once as usize))?;
    Ok(Dispatch {
        shader,
        params,
        groups,
    })
}

/// Whether [`product`] can apply a gate with this matrix, which has gate rows above as many up
/// rows. It can if the matrix lies in one buffer.
pub fn can_gate(matrix: &Matrix) -> bool {
    matrix.parts() == 1 && matrix.rows().is_multiple_of(2)
}

/// The CPU twin, on normalised x, dequantised weights `[n, k]` and the content of `out` where the
/// product is added.
pub fn product_cpu(
    x: &[f32],
    k: usize,
    weights: &[f32],
    bias: Option<&[f32]>,
    gate: Option<Activation>,
    adds_to: Option<&[f32]>,
) -> Vec<f32> {
    let rows = x.chunks(k);
    let mut out: Vec<f32> = rows
        .flat_map(|row| {
            weights.chunks(k).enumerate().map(move |(column, weight)| {
                let dot: f32 = row.iter().zip(weight).map(|(a, b)| a * b).sum();
                dot + bias.map_or(0.0, |bias| bias[column])
            })
        })
        .collect();
    if let Some(activation) = gate {
        let n = weights.len() / k;
        let halves = |second: usize| -> Vec<f32> {
            let rows = out.chunks(n);
            rows.flat_map(|row| row[second * n / 2..][..n / 2].to_vec())
                .collect()
        };
        out = gated_cpu(&halves(0), &halves(1), activation);
    }
    if let Some(before) = adds_to {
        out.iter_mut().zip(before).for_each(|(v, b)| *v += b);
    }
    out
}
