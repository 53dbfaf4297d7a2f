//! Assembly of a matrix from rows that arrive in pieces.

use std::mem;

use conclave_weights::Format;

use crate::error::CpuError;
use crate::formats::empty_rows;
use crate::lanes::{LANES, multiply_quads};
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
        Self::begin_stored(format, rows, cols, multiply_quads())
    }

    /// The same, stored for products of `quads` or of pairs.
    pub(crate) fn begin_stored(
        format: Format,
        rows: usize,
        cols: usize,
        quads: bool,
    ) -> Result<Self, CpuError> {
        let row_bytes = format
            .bytes_of(cols)
            .ok_or(CpuError::Cols { format, cols })?;
        if rows.checked_mul(row_bytes).is_none() {
            return Err(CpuError::TooLarge { rows, cols });
        }
        let packed = empty_rows(format, quads).ok_or(CpuError::Format(format))?;
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
        let mut bytes = bytes;
        if !self.waiting.is_empty() {
            let missing = LANES * self.row_bytes - self.waiting.len();
            let (first, rest) = bytes.split_at(missing.min(bytes.len()));
            self.waiting.extend_from_slice(first);
            if first.len() < missing {
                return Ok(());
            }
            let eight = mem::take(&mut self.waiting);
            self.pack(&eight);
            bytes = rest;
        }
        let rest = self.pack(bytes);
        self.waiting.extend_from_slice(rest);
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
            let mut last = mem::take(&mut self.waiting);
            last.resize(LANES * self.row_bytes, 0);
            self.pack(&last);
        }
        Ok(self.matrix)
    }

    /// Packs rows, eight at a time, which threads share; returns those left over.
    fn pack<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Matrix {
            rows, cols, packed, ..
        } = &mut self.matrix;
        // All memory at once, now that there is data for it.
        if packed.bytes() == 0 && !bytes.is_empty() {
            packed.reserve(*rows, *cols);
        }
        let eight = (LANES * self.row_bytes).max(1);
        let (whole, rest) = bytes.split_at(bytes.len() / eight * eight);
        packed.push(whole, self.row_bytes, *cols);
        rest
    }
}
