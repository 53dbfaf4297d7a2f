//! Weight matrices on the GPU, still quantised.
//!
//! A part of a matrix is one buffer: its planes ([`Format::planes`]) in sequence, each row by row,
//! then the format's code book, if any. A matrix above the device's binding limit is split by rows
//! into parts.

use std::ops::Range;

use crate::{Buffer, Format, Gpu, GpuError, MatrixUpload};

/// Some rows of a matrix in one buffer.
#[derive(Debug, Clone)]
pub(crate) struct MatrixBuffer {
    pub buffer: Buffer,
    /// The matrix's rows in it.
    pub rows: Range<usize>,
    /// Word offset of the second plane.
    pub plane1_offset: u32,
}

/// A weight matrix `[rows, cols]`; a product with it makes `rows` outputs from `cols` inputs.
#[derive(Debug, Clone)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    format: Format,
    parts: Vec<MatrixBuffer>,
}

impl Matrix {
    /// Begins an upload: allocates the GPU memory; rows follow by [`MatrixUpload::push`]. `cols`
    /// must be a multiple of [`Format::block`].
    ///
    /// # Errors
    /// [`GpuError::Shape`] for another number of columns, [`GpuError::TooLarge`] where the device
    /// cannot bind one row.
    pub fn begin(
        gpu: &Gpu,
        format: Format,
        rows: usize,
        cols: usize,
    ) -> Result<MatrixUpload, GpuError> {
        Self::begin_split(gpu, format, rows, cols, gpu.limits().binding_bytes)
    }

    /// [`Self::begin`] with a binding limit below the device's, in bytes.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_split(
        gpu: &Gpu,
        format: Format,
        rows: usize,
        cols: usize,
        limit: u64,
    ) -> Result<MatrixUpload, GpuError> {
        Ok(MatrixUpload::new(
            gpu,
            Self::allocate(gpu, format, rows, cols, limit)?,
        ))
    }

    /// Uploads a whole matrix in GGUF's layout: `rows · cols / block` blocks, row by row.
    ///
    /// # Errors
    /// As [`Self::begin`], and [`GpuError::Shape`] for another number of bytes.
    pub fn upload(
        gpu: &Gpu,
        format: Format,
        rows: usize,
        cols: usize,
        blocks: &[u8],
    ) -> Result<Self, GpuError> {
        let mut upload = Self::begin(gpu, format, rows, cols)?;
        upload.push(blocks)?;
        upload.finish()
    }

    /// Whether [`Self::stack`] can put matrices of these formats and rows, all `cols` wide, into
    /// one buffer on any device.
    pub fn stacks(of: &[(Format, usize)], cols: usize) -> bool {
        /// The binding limit of every device.
        const LIMIT: usize = 128 << 20;
        let Some(&(format, _)) = of.first() else {
            return false;
        };
        let blocks = cols / format.block();
        let rows: usize = of.iter().map(|(_, rows)| rows).sum();
        // Copies are whole words.
        let whole = |&(other, rows): &(Format, usize)| {
            let planes = format.planes().iter();
            other == format
                && planes
                    .clone()
                    .all(|plane| (rows * blocks * plane).is_multiple_of(4))
        };
        let planes = rows.saturating_mul(blocks * format.block_bytes());
        of.iter().all(whole) && planes <= LIMIT - 16 - format.book().len()
    }

    /// One matrix of all rows of these, in order, if they [stack](Self::stacks).
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] and the device's.
    pub fn stack(gpu: &Gpu, matrices: &[&Self]) -> Result<Option<Self>, GpuError> {
        let of: Vec<_> = matrices.iter().map(|m| (m.format, m.rows)).collect();
        let Some(first) = matrices.first() else {
            return Ok(None);
        };
        let (format, cols) = (first.format, first.cols);
        let alike = matrices
            .iter()
            .all(|m| m.cols == cols && m.parts.len() == 1);
        if !alike || !Self::stacks(&of, cols) {
            return Ok(None);
        }
        let rows = matrices.iter().map(|matrix| matrix.rows).sum();
        let stack = Self::allocate(gpu, format, rows, cols, u64::MAX)?;
        let [part] = stack.parts.as_slice() else {
            return Ok(None);
        };
        let blocks = cols / format.block();
        let mut to = 0;
        for (index, plane) in format.planes().iter().enumerate() {
            let before: usize = format.planes()[..index].iter().sum();
            for matrix in matrices {
                let bytes = matrix.rows * blocks * plane;
                let from = (&matrix.parts[0].buffer, matrix.rows * blocks * before);
                gpu.copy(from, (&part.buffer, to), bytes);
                to += bytes;
            }
        }
        Ok(Some(stack))
    }

    /// The matrix with its memory, of unspecified content.
    fn allocate(
        gpu: &Gpu,
        format: Format,
        rows: usize,
        cols: usize,
        limit: u64,
    ) -> Result<Self, GpuError> {
        if rows == 0 || cols == 0 || !cols.is_multiple_of(format.block()) {
            return Err(GpuError::shape(
                "matrix",
                format!(
                    "[{rows}, {cols}] in {format:?}: there must be rows, and their width a \
                    positive multiple of {}; store it in another format",
                    format.block()
                ),
            ));
        }
        // Kernels count rows and 16-byte units in 32 bits, and the number of bytes must be
        // representable.
        if rows > u32::MAX as usize || cols > u32::MAX as usize || rows.checked_mul(cols).is_none()
        {
            return Err(GpuError::shape(
                "matrix",
                format!("[{rows}, {cols}] is more than kernels can count"),
            ));
        }
        let row_bytes = cols / format.block() * format.block_bytes();
        // Up to 15 bytes of padding follow the last plane; kernels count words in 32 bits.
        let limit = limit.min(gpu.limits().binding_bytes).min(1 << 32);
        let others = 16 + format.book().len() as u64;
        let rows_a_part = (limit.saturating_sub(others) / row_bytes as u64) as usize;
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
                let bytes = format.bytes(rows.len() as u64, cols) as usize;
                let buffer = gpu.allocate(bytes)?;
                if !format.book().is_empty() {
                    gpu.write_at(&buffer, bytes - format.book().len(), format.book())?;
                }
                Ok(MatrixBuffer {
                    buffer,
                    plane1_offset: format.plane1_offset(rows.len(), cols),
                    rows,
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

    /// Storage of the numbers.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes on the GPU.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.buffer.bytes() as u64).sum()
    }

    /// Number of buffers that hold it.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn each_part(&self) -> &[MatrixBuffer] {
        &self.parts
    }

    /// Units in a row.
    pub(crate) fn units(&self) -> u32 {
        (self.cols / self.format.unit()) as u32
    }
}
