//! Matrices that are kept as they are stored, packed for the products.

use std::ops::Range;

use conclave_weights::Format;

use crate::error::CpuError;
use crate::input::{Input, Part};
use crate::lanes::{self, LANES, Lanes, Work};
use crate::packed::{Half, Packed, Q4, Q4K, Q6K, Q8, Q41, Single};
use crate::tile::{MOST, Tile};

/// A matrix `[rows, cols]`.
#[derive(Debug, Clone)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    blocks: Blocks,
}

/// Eight rows after another, each `cols / COLS` blocks; rows that are missing are zeros.
#[derive(Debug, Clone)]
enum Blocks {
    Q8(Vec<Q8>),
    Q4(Vec<Q4>),
    Q41(Vec<Q41>),
    Q4K(Vec<Q4K>),
    Q6K(Vec<Q6K>),
    Half(Vec<Half>),
    Single(Vec<Single>),
}

/// Does the same with whatever blocks there are.
macro_rules! with_blocks {
    ($blocks:expr, $name:ident => $do:expr) => {
        match $blocks {
            Blocks::Q8($name) => $do,
            Blocks::Q4($name) => $do,
            Blocks::Q41($name) => $do,
            Blocks::Q4K($name) => $do,
            Blocks::Q6K($name) => $do,
            Blocks::Half($name) => $do,
            Blocks::Single($name) => $do,
        }
    };
}

/// The format in which rows of `cols` numbers are kept that are stored as `stored`.
pub fn kept(stored: Format, cols: usize) -> Format {
    let best = stored.on_gpu();
    [best, Format::Q8_0]
        .into_iter()
        .find(|format| cols.is_multiple_of(format.block_elements()))
        .unwrap_or(Format::F32)
}

impl Matrix {
    /// Its rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Whether its numbers are rounded to blocks: neither F32 nor F16.
    pub fn is_quantised(&self) -> bool {
        !matches!(self.blocks, Blocks::Half(_) | Blocks::Single(_))
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        with_blocks!(&self.blocks, blocks => size_of_val(&blocks[..]))
    }

    /// Writes the numbers of a row, `[cols]`.
    ///
    /// # Errors
    /// [`CpuError::Shape`] without such a row or for an `out` of another length.
    pub fn row(&self, row: usize, out: &mut [f32]) -> Result<(), CpuError> {
        check("a row's index", row.min(self.rows), row)?;
        check("a row", out.len(), self.cols)?;
        check("the matrix", usize::from(row < self.rows), 1)?;
        with_blocks!(&self.blocks, blocks => unpack(blocks, self.cols, row, out));
        Ok(())
    }

    /// The products of all rows of `input` with the rows `rows` of the matrix, into
    /// `out[input rows, rows]`.
    ///
    /// # Errors
    /// [`CpuError::Shape`] unless `rows` begin at a multiple of 8 and lie within the matrix, and
    /// input and output have the sizes they make.
    pub fn times(
        &self,
        input: &Input,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), CpuError> {
        check("a row of input", input.cols(), self.cols)?;
        check("the first row", rows.start % LANES, 0)?;
        check("the matrix", rows.end.max(self.rows), self.rows)?;
        check("the output", out.len(), input.rows() * rows.len())?;
        if rows.is_empty() {
            return Ok(());
        }
        self.multiply(input, 0..input.rows(), rows, out);
        Ok(())
    }

    /// The product of row `of` of `input` with row `row` of the matrix: the number that
    /// [`times`](Self::times) makes of them.
    ///
    /// # Errors
    /// [`CpuError::Shape`] without such rows or for rows of another length.
    pub fn dot(&self, input: &Input, of: usize, row: usize) -> Result<f32, CpuError> {
        check("a row of input", input.cols(), self.cols)?;
        check("the input", usize::from(of < input.rows()), 1)?;
        check("the matrix", usize::from(row < self.rows), 1)?;
        let first = row - row % LANES;
        let rows = first..self.rows.min(first + LANES);
        let mut out = [0.0; LANES];
        self.multiply(input, of..of + 1, rows.clone(), &mut out[..rows.len()]);
        Ok(out[row - first])
    }

    /// The products of some rows of input with some of the matrix, which were checked.
    fn multiply(&self, input: &Input, of: Range<usize>, rows: Range<usize>, out: &mut [f32]) {
        with_blocks!(&self.blocks, blocks => times(blocks, input, of, self.cols, rows, out));
    }
}

fn check(what: &'static str, found: usize, expected: usize) -> Result<(), CpuError> {
    if found == expected {
        Ok(())
    } else {
        Err(CpuError::Shape {
            what,
            found,
            expected,
        })
    }
}

fn unpack<P: Packed>(blocks: &[P], cols: usize, row: usize, out: &mut [f32]) {
    let per_row = cols / P::COLS;
    let blocks = &blocks[row / LANES * per_row..][..per_row];
    for (block, out) in blocks.iter().zip(out.chunks_exact_mut(P::COLS)) {
        block.unpack(row % LANES, out);
    }
}

/// Multiplies some rows of a matrix with some of input.
fn times<P: Packed + Tile<Part: Part>>(
    blocks: &[P],
    input: &Input,
    of: Range<usize>,
    cols: usize,
    rows: Range<usize>,
    out: &mut [f32],
) {
    let (per_row, parts) = (cols / P::COLS, cols / P::Part::COLS);
    lanes::run(Times {
        blocks: &blocks[rows.start / LANES * per_row..rows.end.div_ceil(LANES) * per_row],
        per_row,
        input: &P::Part::of(input)[of.start * parts..of.end * parts],
        parts,
        rows: rows.len(),
        out,
    });
}

/// A product to be done.
pub(crate) struct Times<'a, P: Tile> {
    /// Eight rows after another.
    pub blocks: &'a [P],
    /// Blocks of a row.
    pub per_row: usize,
    /// Rows of input, one after another.
    pub input: &'a [P::Part],
    /// Parts of a row of input.
    pub parts: usize,
    /// Rows of the matrix.
    pub rows: usize,
    /// `[input rows, rows]`.
    pub out: &'a mut [f32],
}

impl<P: Tile> Work for Times<'_, P> {
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(mut self, lanes: L) {
        for first in (0..self.rows).step_by(LANES) {
            let blocks = &self.blocks[first / LANES * self.per_row..][..self.per_row];
            let count = self.out.len() / self.rows;
            let mut row = 0;
            while row < count {
                match count - row {
                    1 => self.tile::<L, 1>(lanes, blocks, row, first),
                    2 => self.tile::<L, 2>(lanes, blocks, row, first),
                    3 => self.tile::<L, 3>(lanes, blocks, row, first),
                    _ => self.tile::<L, MOST>(lanes, blocks, row, first),
                }
                row += MOST;
            }
        }
    }
}

impl<P: Tile> Times<'_, P> {
    /// The products of eight rows of the matrix with `T` of input.
    #[inline(always)]
    fn tile<L: Lanes, const T: usize>(&mut self, l: L, blocks: &[P], row: usize, first: usize) {
        let input = std::array::from_fn(|t| &self.input[(row + t) * self.parts..][..self.parts]);
        let sums = P::products::<L, T>(l, blocks, input);
        for (t, sums) in sums.into_iter().enumerate() {
            let out = &mut self.out[(row + t) * self.rows..][first..self.rows];
            if let Some(out) = out.first_chunk_mut() {
                l.store(sums, out);
            } else {
                let mut eight = [0.0; LANES];
                l.store(sums, &mut eight);
                out.copy_from_slice(&eight[..out.len()]);
            }
        }
    }
}

/// A matrix whose rows come in piece by piece.
#[derive(Debug)]
pub struct Upload {
    matrix: Matrix,
    row_bytes: usize,
    /// Rows that do not fill eight yet.
    waiting: Vec<u8>,
    bytes: usize,
}

impl Upload {
    /// Begins a matrix of one of the formats that [`kept`] names.
    ///
    /// # Errors
    /// [`CpuError::Format`], [`CpuError::Cols`], and [`CpuError::TooLarge`].
    pub fn begin(format: Format, rows: usize, cols: usize) -> Result<Self, CpuError> {
        let row_bytes = format
            .bytes_of(cols)
            .ok_or(CpuError::Cols { format, cols })?;
        if rows.checked_mul(row_bytes).is_none() {
            return Err(CpuError::TooLarge { rows, cols });
        }
        let blocks = match format {
            Format::Q8_0 => Blocks::Q8(Vec::new()),
            Format::Q4_0 => Blocks::Q4(Vec::new()),
            Format::Q4_1 => Blocks::Q41(Vec::new()),
            Format::Q4K => Blocks::Q4K(Vec::new()),
            Format::Q6K => Blocks::Q6K(Vec::new()),
            Format::F16 => Blocks::Half(Vec::new()),
            Format::F32 => Blocks::Single(Vec::new()),
            _ => return Err(CpuError::Format(format)),
        };
        Ok(Self {
            matrix: Matrix { rows, cols, blocks },
            row_bytes,
            waiting: Vec::new(),
            bytes: 0,
        })
    }

    /// Adds bytes of rows, one row after another.
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

    /// Ends the matrix.
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

    /// Packs the first bytes that wait, eight rows after another.
    fn pack(&mut self, bytes: usize) {
        let (left, cols) = (self.matrix.rows, self.matrix.cols);
        let rows = self.waiting[..bytes].chunks_exact((LANES * self.row_bytes).max(1));
        with_blocks!(&mut self.matrix.blocks, blocks => {
            // All at once, now that there is something to put there.
            if blocks.is_empty() && bytes > 0 {
                blocks.reserve_exact(per_row(blocks, cols) * left.div_ceil(LANES));
            }
            rows.for_each(|rows| pack(rows, self.row_bytes, blocks));
        });
    }
}

fn per_row<P: Packed>(_: &[P], cols: usize) -> usize {
    cols / P::COLS
}

fn pack<P: Packed>(rows: &[u8], row_bytes: usize, blocks: &mut Vec<P>) {
    for at in (0..row_bytes).step_by(P::BYTES) {
        let row = |lane: usize| &rows[lane * row_bytes + at..][..P::BYTES];
        blocks.push(P::pack(std::array::from_fn(row)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Plain;

    /// Whatever vectors this machine has, they do what the arrays do.
    #[test]
    fn vectors_do_what_arrays_do() {
        let cols = 512;
        let x: Vec<f32> = (0..6 * cols)
            .map(|i| (i * 37 % 101) as f32 - 50.0)
            .collect();
        let mut input = Input::new();
        input.set(&x, cols);
        for format in [
            Format::Q8_0,
            Format::Q4_0,
            Format::Q4_1,
            Format::Q4K,
            Format::Q6K,
        ] {
            let mut bytes: Vec<u8> = (0..16 * format.bytes_of(cols).unwrap())
                .map(|i| (i * 89 % 251) as u8)
                .collect();
            for block in bytes.chunks_mut(format.block_bytes()) {
                for &at in format.halves() {
                    block[at + 1] = 0x12;
                }
            }
            let mut upload = Upload::begin(format, 16, cols).unwrap();
            upload.push(&bytes).unwrap();
            let matrix = upload.finish().unwrap();
            let (mut found, mut wanted) = ([0.0; 96], [0.0; 96]);
            matrix.times(&input, 0..16, &mut found).unwrap();
            with_blocks!(&matrix.blocks, blocks => in_arrays(blocks, &input, cols, &mut wanted));
            let largest = wanted.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            assert!(largest > 1.0, "{format}: {largest}");
            for (found, wanted) in found.iter().zip(wanted) {
                // Sums in f32, fused or not.
                assert!(
                    (found - wanted).abs() < 1e-5 * largest,
                    "{format}: {found} is not {wanted}"
                );
            }
        }
    }

    fn in_arrays<P: Packed + Tile<Part: Part>>(
        blocks: &[P],
        input: &Input,
        cols: usize,
        out: &mut [f32],
    ) {
        let times = Times {
            blocks,
            per_row: cols / P::COLS,
            input: P::Part::of(input),
            parts: cols / P::Part::COLS,
            rows: 16,
            out,
        };
        times.with(Plain);
    }
}
