//! Upload of a matrix in pieces of rows: a file of any size passes through one megabyte of memory.

use std::ops::Range;

use crate::pack::pack;
use crate::{Gpu, GpuError, Matrix};

/// Bytes split and written at once.
const PIECE: usize = 1 << 20;

/// A matrix whose rows are still arriving; made by [`Matrix::begin`].
#[derive(Debug)]
pub struct MatrixUpload {
    gpu: Gpu,
    matrix: Matrix,
    /// Rows that have arrived.
    rows: usize,
    /// The part for the next rows.
    part: usize,
    planes: Vec<Plane>,
    /// Bytes of each plane that are not written yet; the last may be part of a word.
    waiting: Vec<Vec<u8>>,
}

/// Write position of a plane in the current part.
#[derive(Debug)]
struct Plane {
    /// Bytes of a row.
    row_bytes: usize,
    at: usize,
}

impl MatrixUpload {
    pub(crate) fn new(gpu: &Gpu, matrix: Matrix) -> Self {
        let format = matrix.format();
        let planes: Vec<Plane> = format
            .planes()
            .iter()
            .map(|bytes| Plane {
                row_bytes: matrix.cols() / format.block() * bytes,
                at: 0,
            })
            .collect();
        let mut upload = Self {
            gpu: gpu.clone(),
            rows: 0,
            part: 0,
            waiting: vec![Vec::new(); planes.len()],
            planes,
            matrix,
        };
        upload.start_part();
        upload
    }

    /// Bytes of a row in the file.
    pub fn row_bytes(&self) -> usize {
        let format = self.matrix.format();
        self.matrix.cols() / format.block() * format.block_bytes()
    }

    /// Uploads the next whole rows, in GGUF's layout. On return the rows are on their way to the
    /// GPU, and no copy of them is kept here.
    ///
    /// # Errors
    /// [`GpuError::Shape`] for partial rows, or more than the matrix has; errors reported by the
    /// device so far, such as [`GpuError::OutOfMemory`].
    pub fn push(&mut self, blocks: &[u8]) -> Result<(), GpuError> {
        let row_bytes = self.row_bytes();
        let rows = blocks.len() / row_bytes;
        if !blocks.len().is_multiple_of(row_bytes) || rows > self.matrix.rows() - self.rows {
            return Err(GpuError::shape(
                "matrix",
                format!(
                    "{} bytes after row {} of [{}, {}] in {:?}, {row_bytes} a row",
                    blocks.len(),
                    self.rows,
                    self.matrix.rows(),
                    self.matrix.cols(),
                    self.matrix.format(),
                ),
            ));
        }
        let mut blocks = blocks;
        while !blocks.is_empty() {
            let left = self.part_rows().end - self.rows;
            let rows = left
                .min(blocks.len() / row_bytes)
                .min((PIECE / row_bytes).max(1));
            let (piece, rest) = blocks.split_at(rows * row_bytes);
            blocks = rest;
            pack(self.matrix.format().stored(), piece, &mut self.waiting);
            self.rows += rows;
            let complete = self.rows == self.part_rows().end;
            self.write(complete)?;
            if complete && self.rows < self.matrix.rows() {
                self.part += 1;
                self.start_part();
            }
        }
        Ok(())
    }

    /// The matrix, once all rows have arrived.
    ///
    /// # Errors
    /// [`GpuError::Shape`] if rows are missing.
    pub fn finish(self) -> Result<Matrix, GpuError> {
        if self.rows < self.matrix.rows() {
            return Err(GpuError::shape(
                "matrix",
                format!("{} of {} rows arrived", self.rows, self.matrix.rows()),
            ));
        }
        Ok(self.matrix)
    }

    fn part_rows(&self) -> Range<usize> {
        self.matrix.each_part()[self.part].rows.clone()
    }

    /// Lays out the planes in sequence.
    fn start_part(&mut self) {
        let rows = self.part_rows().len();
        let mut at = 0;
        for plane in &mut self.planes {
            plane.at = at;
            at += rows * plane.row_bytes;
        }
    }

    /// Writes the waiting bytes: whole words only, unless the part is `complete` and followed by
    /// padding.
    fn write(&mut self, complete: bool) -> Result<(), GpuError> {
        let buffer = &self.matrix.each_part()[self.part].buffer;
        for (plane, waiting) in self.planes.iter_mut().zip(&mut self.waiting) {
            if complete {
                waiting.resize(waiting.len().next_multiple_of(4), 0);
            }
            let rest = waiting.split_off(waiting.len() / 4 * 4);
            let bytes = std::mem::replace(waiting, rest);
            let at = plane.at;
            plane.at += bytes.len();
            if !bytes.is_empty() {
                self.gpu.write_at(buffer, at, &bytes)?;
            }
        }
        // Now, not at the next launch: the queue would hold the bytes until then.
        self.gpu.flush()
    }
}
