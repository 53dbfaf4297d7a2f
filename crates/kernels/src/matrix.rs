//! Weight matrices on the GPU, still quantised.
//!
//! A part of a matrix is one buffer: first the rows in units of 16 bytes, then the block
//! scales, two f16 a word. GGUF's blocks (2 bytes of scale, then the quants) are taken
//! apart once, at load, so that a thread reads its share of a row in one aligned load.

use std::ops::Range;

use crate::{Buffer, Gpu, GpuError};

/// How a matrix's numbers are stored, as in GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// Blocks of 32: an f16 scale, 32 signed bytes.
    Q8_0,
    /// Blocks of 32: an f16 scale, 32 nibbles, each minus 8.
    Q4_0,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 4] = [Format::F32, Format::F16, Format::Q8_0, Format::Q4_0];

    /// Numbers in a block: a row must be a multiple of it.
    pub const fn block(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 => 8,
            Format::Q8_0 | Format::Q4_0 => 32,
        }
    }

    /// Bytes of a block, as in GGUF.
    pub const fn block_bytes(self) -> usize {
        match self {
            Format::F32 | Format::F16 => 16,
            Format::Q8_0 => 34,
            Format::Q4_0 => 18,
        }
    }

    /// Numbers in the 16 bytes that a thread reads at once.
    pub(crate) const fn unit(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 => 8,
            Format::Q8_0 => 16,
            Format::Q4_0 => 32,
        }
    }

    const fn has_scales(self) -> bool {
        matches!(self, Format::Q8_0 | Format::Q4_0)
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Format::F32 => 0,
            Format::F16 => 1,
            Format::Q8_0 => 2,
            Format::Q4_0 => 3,
        }
    }
}

/// Some rows of a matrix in one buffer.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub buffer: Buffer,
    /// The matrix's rows that are here.
    pub rows: Range<usize>,
    /// Where the scales start, in words.
    pub scales: u32,
}

/// A weight matrix `[rows, cols]`; a product with it makes `rows` outputs of `cols` inputs.
#[derive(Debug, Clone)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    format: Format,
    parts: Vec<Part>,
}

impl Matrix {
    /// Upload a matrix in GGUF's layout: `rows · cols / block` blocks, row by row.
    /// `cols` must be a multiple of [`Format::block`]. What exceeds the device's binding
    /// limit is split by rows.
    pub fn upload(
        gpu: &Gpu,
        format: Format,
        rows: usize,
        cols: usize,
        blocks: &[u8],
    ) -> Result<Self, GpuError> {
        Self::upload_split(gpu, format, rows, cols, blocks, gpu.limits().binding_bytes)
    }

    /// [`Self::upload`] with a binding limit below the device's, in bytes.
    pub fn upload_split(
        gpu: &Gpu,
        format: Format,
        rows: usize,
        cols: usize,
        blocks: &[u8],
        limit: u64,
    ) -> Result<Self, GpuError> {
        if rows == 0 || cols == 0 || !cols.is_multiple_of(format.block()) {
            return Err(GpuError::shape(
                "matrix",
                format!(
                    "[{rows}, {cols}]; {format:?} rows are positive multiples of {}",
                    format.block()
                ),
            ));
        }
        let row_bytes = cols / format.block() * format.block_bytes();
        if rows.checked_mul(row_bytes) != Some(blocks.len()) {
            return Err(GpuError::shape(
                "matrix",
                format!(
                    "{} bytes for [{rows}, {cols}] in {format:?}, {row_bytes} a row",
                    blocks.len()
                ),
            ));
        }
        // 16 bytes of padding may follow the scales; kernels count words in 32 bits.
        let limit = limit.min(gpu.limits().binding_bytes).min(1 << 32);
        let rows_a_part = (limit.saturating_sub(16) / row_bytes as u64) as usize;
        if rows_a_part == 0 {
            return Err(GpuError::TooLarge {
                what: "one row of a matrix",
                bytes: row_bytes as u64,
                limit,
            });
        }
        let parts = (0..rows)
            .step_by(rows_a_part)
            .map(|begin| {
                let rows = begin..rows.min(begin + rows_a_part);
                let packed = pack(
                    format,
                    &blocks[rows.start * row_bytes..rows.end * row_bytes],
                );
                let scales = (rows.len() * cols / format.unit() * 4) as u32;
                Ok(Part {
                    buffer: gpu.keep(packed)?,
                    rows,
                    scales,
                })
            })
            .collect::<Result<_, GpuError>>()?;
        Ok(Self {
            rows,
            cols,
            format,
            parts,
        })
    }

    /// Rows: outputs of a product, or entries of an embedding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: inputs of a product, or the width of an embedding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How the numbers are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes on the GPU.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.buffer.bytes() as u64).sum()
    }

    /// Buffers the matrix is split into.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn each_part(&self) -> &[Part] {
        &self.parts
    }

    /// Units in a row.
    pub(crate) fn units(&self) -> u32 {
        (self.cols / self.format.unit()) as u32
    }
}

/// GGUF blocks to quants, then scales, padded to 16 bytes.
fn pack(format: Format, blocks: &[u8]) -> Vec<u8> {
    if !format.has_scales() {
        return blocks.to_vec();
    }
    let bytes = format.block_bytes();
    let mut packed = Vec::with_capacity(blocks.len() + 16);
    for block in blocks.chunks_exact(bytes) {
        packed.extend_from_slice(&block[2..]);
    }
    for block in blocks.chunks_exact(bytes) {
        packed.extend_from_slice(&block[..2]);
    }
    packed.resize(packed.len().next_multiple_of(16), 0);
    packed
}

/// The numbers behind GGUF blocks: the CPU twin of `shaders/block/*.wgsl`. An incomplete
/// block at the end is ignored.
pub fn dequantise(format: Format, blocks: &[u8]) -> Vec<f32> {
    let f16_at = |b: &[u8]| half::f16::from_le_bytes([b[0], b[1]]).to_f32();
    match format {
        Format::F32 => blocks
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        Format::F16 => blocks.chunks_exact(2).map(f16_at).collect(),
        Format::Q8_0 => blocks
            .chunks_exact(34)
            .flat_map(|block| {
                let scale = f16_at(block);
                block[2..].iter().map(move |&q| f32::from(q as i8) * scale)
            })
            .collect(),
        Format::Q4_0 => blocks
            .chunks_exact(18)
            .flat_map(|block| {
                let scale = f16_at(block);
                let low = block[2..].iter().map(|&q| q & 15);
                let high = block[2..].iter().map(|&q| q >> 4);
                low.chain(high)
                    .map(move |q| (f32::from(q) - 8.0) * scale)
                    .collect::<Vec<_>>()
            })
            .collect(),
    }
}
