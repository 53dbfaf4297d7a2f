//! Assembly of a matrix from rows that arrive in pieces.

use conclave_weights::Format;

use crate::error::CpuError;
use crate::formats::empty_rows;
use crate::lanes::LANES;
use crate::matrix::Matrix;

/// A matrix whose rows arrive in pieces.
#[derive(Debug)]
pub struct Upload {
    matrix: Matrix,
    row_bytes: usize,
    /// Rows that do not fill a group of eight yet.
    waiting: Vec<u8>,
    bytes: usize,
}

impl Upload {
    /// Begins a matrix `[rows, cols]` stored and kept in `format`.
    ///
    /// # Errors
    /// [`CpuError::Cols`] where rows are not whole blocks (see [`kept`](crate::kept)), and
    /// [`CpuError::TooLarge`].
    pub fn begin(format: Format, rows: usize, cols: usize) -> Result<Self, CpuError> {
        let row_bytes = format
            .bytes_of(cols)
            .ok_or(CpuError::Cols { format, cols })?;
        if rows.checked_mul(row_bytes).is_none() {
            return Err(CpuError::TooLarge { rows, cols });
        }
        let packed = empty_rows(format).ok_or(CpuError::Format(format))?;
        Ok(Self {
            matrix: Matrix {
                format,
                rows,
                cols,
                packed,
            },
            row_bytes,
            waiting: Vec::new(),
            bytes: 0,
        })
    }

    /// Appends bytes of rows.
    ///
    /// # Errors
    /// [`CpuError::Bytes`] for more than the matrix has.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), CpuError> {
        let expected = self.matrix.rows * self.row_bytes;
        if bytes.len() > expected - self.bytes {
            let found = self.bytes.saturating_add(bytes.len());
            return Err(CpuError::Bytes { expected, found });
        }
        self.bytes += bytes.len();
        let eight = LANES * self.row_bytes;
        self.waiting.extend_from_slice(bytes);
        let whole = self.waiting.len().checked_div(eight).unwrap_or(0) * eight;
        self.pack(whole);
        self.waiting.drain(..whole);
        Ok(())
    }

    /// Completes the matrix.
    ///
    /// # Errors
    /// [`CpuError::Bytes`] for fewer than the matrix has.
    pub fn finish(mut self) -> Result<Matrix, CpuError> {
        let expected = self.matrix.rows * self.row_bytes;
        if self.bytes != expected {
            let found = self.bytes;
            return Err(CpuError::Bytes { expected, found });
        }
        if !self.waiting.is_empty() {
            self.waiting.resize(LANES * self.row_bytes, 0);
            self.pack(self.waiting.len());
        }
        Ok(self.matrix)
    }

    /// Packs the first `bytes` of the waiting rows, eight rows at a time.
    fn pack(&mut self, bytes: usize) {
        let Matrix {
            rows, cols, packed, ..
        } = &mut self.matrix;
        // All memory at once, now that there is data for it.
        if packed.bytes() == 0 && bytes > 0 {
            packed.reserve(*rows, *cols);
        }
        let eights = self.waiting[..bytes].chunks_exact((LANES * self.row_bytes).max(1));
        eights.for_each(|rows| packed.push(rows, *cols));
    }
}
