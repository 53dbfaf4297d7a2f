//! Matrices that are kept as they are stored, packed for the products.

use std::fmt::Debug;
use std::ops::Range;

use conclave_weights::Format;

use crate::error::CpuError;
use crate::formats::rows_of;
use crate::input::{Input, Part};
use crate::lanes::{self, LANES, Lanes, Work};
use crate::packed::Packed;
use crate::threads;
use crate::tile::{MOST, Tile};

/// A matrix `[rows, cols]`.
#[derive(Debug, Clone)]
pub struct Matrix {
    format: Format,
    rows: usize,
    cols: usize,
    packed: Box<dyn Rows>,
}

/// The rows of a matrix in whatever blocks its format has: eight after another, each
/// `cols / COLS` blocks. Rows that are missing are zeros.
pub(crate) trait Rows: Debug + Send + Sync {
    /// The same rows.
    fn copied(&self) -> Box<dyn Rows>;

    /// Bytes of memory.
    fn bytes(&self) -> usize;

    /// Makes room for as many rows.
    fn reserve(&mut self, rows: usize, cols: usize);

    /// Appends eight rows as they are stored.
    fn push(&mut self, rows: &[u8], cols: usize);

    /// Writes the numbers of row `row`, `[cols]`.
    fn row(&self, row: usize, out: &mut [f32]);

    /// Writes the products of some rows of input with some of these, `[of, rows]`.
    fn times(
        &self,
        input: &Input,
        of: Range<usize>,
        cols: usize,
        rows: Range<usize>,
        out: &mut [&mut [f32]],
    );

    /// The same of all rows in plain arrays, of bytes in quads or in pairs.
    #[cfg(test)]
    fn times_in_arrays(&self, input: &Input, cols: usize, quads: bool, out: &mut [f32]);
}

impl Clone for Box<dyn Rows> {
    fn clone(&self) -> Self {
        self.as_ref().copied()
    }
}

/// The format in which rows of `cols` numbers are kept that are stored as `stored`: that one, since
/// products read them all. 8-bit floats, which are multiplied by scales on the way, become Q8_0, or
/// F32 where rows are no whole blocks.
pub fn kept(stored: Format, cols: usize) -> Format {
    let best = match stored {
        Format::F8E4M3 => Format::Q8_0,
        _ => stored,
    };
    if cols.is_multiple_of(best.block_elements()) {
        best
    } else {
        Format::F32
    }
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

    /// Whether its numbers are rounded to blocks: neither F32 nor F16 nor BF16.
    pub fn is_quantised(&self) -> bool {
        self.format.block_elements() > 1
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// Writes the numbers of a row, `[cols]`.
    ///
    /// # Errors
    /// [`CpuError::Shape`] without such a row or for an `out` of another length.
    pub fn row(&self, row: usize, out: &mut [f32]) -> Result<(), CpuError> {
        check("a row's index", row.min(self.rows), row)?;
        check("a row", out.len(), self.cols)?;
        check("the matrix", usize::from(row < self.rows), 1)?;
        self.packed.row(row, out);
        Ok(())
    }

    /// Bytes of memory that a matrix `[rows, cols]` of a [`kept`] format takes.
    pub fn bytes_of(format: Format, rows: u64, cols: usize) -> u64 {
        let Some(mut unit) = rows_of(format) else {
            return 0;
        };
        let block = vec![0; LANES * format.block_bytes()];
        unit.push(&block, format.block_elements());
        let units = rows.div_ceil(LANES as u64) * (cols / format.block_elements()) as u64;
        units * unit.bytes() as u64
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
        let threads = threads::sharing(rows.len() * input.rows() * self.cols);
        let parts = self.parts(input, rows, out, threads)?;
        threads::each(parts.into_iter(), |part| part.make(input));
        Ok(())
    }

    /// [`times`](Self::times) of all rows in as many parts, some rows of the matrix each, for all
    /// of the input.
    fn parts<'a>(
        &'a self,
        input: &Input,
        rows: Range<usize>,
        out: &'a mut [f32],
        count: usize,
    ) -> Result<Vec<Product<'a>>, CpuError> {
        check("a row of input", input.cols(), self.cols)?;
        check("the first row", rows.start % LANES, 0)?;
        check("the matrix", rows.end.max(self.rows), self.rows)?;
        check("the output", out.len(), input.rows() * rows.len())?;
        if rows.is_empty() || out.is_empty() {
            return Ok(Vec::new());
        }
        let width = rows.len();
        let each = width.div_ceil(count).next_multiple_of(LANES);
        let mut parts: Vec<_> = rows
            .clone()
            .step_by(each)
            .map(|begin| Product {
                matrix: self,
                rows: begin..rows.end.min(begin + each),
                out: Vec::with_capacity(input.rows()),
            })
            .collect();
        for row in out.chunks_exact_mut(width) {
            for (part, out) in parts.iter_mut().zip(row.chunks_mut(each)) {
                part.out.push(out);
            }
        }
        Ok(parts)
    }

    /// As [`times`](Self::times), of rows that begin anywhere, `out` made as long as it is to be.
    ///
    /// # Errors
    /// As [`times`](Self::times).
    pub fn times_part(
        &self,
        input: &Input,
        rows: Range<usize>,
        out: &mut Vec<f32>,
    ) -> Result<(), CpuError> {
        let before = rows.start % LANES;
        let all = rows.start - before..rows.end;
        out.resize(input.rows() * all.len(), 0.0);
        self.times(input, all.clone(), out)?;
        if before > 0 {
            for row in 0..input.rows() {
                let made = row * all.len() + before..(row + 1) * all.len();
                out.copy_within(made, row * rows.len());
            }
            out.truncate(input.rows() * rows.len());
        }
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
        let found = &mut out[..rows.len()];
        self.packed
            .times(input, of..of + 1, self.cols, rows, &mut [found]);
        Ok(out[row - first])
    }
}

/// A part of a product that one thread makes.
struct Product<'a> {
    matrix: &'a Matrix,
    rows: Range<usize>,
    /// Of each row of input.
    out: Vec<&'a mut [f32]>,
}

impl Product<'_> {
    fn make(mut self, input: &Input) {
        let (of, cols) = (0..self.out.len(), self.matrix.cols);
        let packed = &self.matrix.packed;
        packed.times(input, of, cols, self.rows, &mut self.out);
    }
}

/// The products of all rows of `input` with all rows of several matrices, each into its `out[input
/// rows, rows]`, as [`Matrix::times`] makes them: threads share them all at once, since they wait
/// for one another behind whatever they share.
///
/// # Errors
/// As [`Matrix::times`].
pub fn products<const N: usize>(
    input: &Input,
    of: [(&Matrix, &mut [f32]); N],
) -> Result<(), CpuError> {
    let rows: usize = of.iter().map(|(matrix, _)| matrix.rows).sum();
    let threads = threads::sharing(rows * input.rows() * input.cols());
    let mut parts = Vec::with_capacity(N * threads);
    for (matrix, out) in of {
        parts.extend(matrix.parts(input, 0..matrix.rows, out, threads)?);
    }
    threads::each(parts.into_iter(), |part| part.make(input));
    Ok(())
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

impl<P: Packed + Tile<Part: Part>> Rows for Vec<P> {
    fn copied(&self) -> Box<dyn Rows> {
        Box::new(self.clone())
    }

    fn bytes(&self) -> usize {
        size_of_val(&self[..])
    }

    fn reserve(&mut self, rows: usize, cols: usize) {
        self.reserve_exact(rows.div_ceil(LANES) * (cols / P::COLS));
    }

    fn push(&mut self, rows: &[u8], cols: usize) {
        let row_bytes = rows.len() / LANES;
        let blocks = cols / P::COLS;
        let bytes = row_bytes / blocks;
        let first = self.len();
        self.resize(first + blocks, P::EMPTY);
        for (at, packed) in (0..row_bytes).step_by(bytes).zip(&mut self[first..]) {
            let mut eight = [&rows[..0]; LANES];
            for (block, row) in eight.iter_mut().zip(rows.chunks_exact(row_bytes)) {
                *block = &row[at..][..bytes];
            }
            packed.pack(eight);
        }
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        let blocks = out.len() / P::COLS;
        lanes::run(Row {
            blocks: &self[row / LANES * blocks..][..blocks],
            lane: row % LANES,
            out,
        });
    }

    fn times(
        &self,
        input: &Input,
        of: Range<usize>,
        cols: usize,
        rows: Range<usize>,
        out: &mut [&mut [f32]],
    ) {
        let (per_row, parts) = (cols / P::COLS, cols / P::Part::COLS);
        lanes::run(Times {
            blocks: &self[rows.start / LANES * per_row..rows.end.div_ceil(LANES) * per_row],
            per_row,
            input: &P::Part::of(input)[of.start * parts..of.end * parts],
            parts,
            rows: rows.len(),
            out,
        });
    }

    #[cfg(test)]
    fn times_in_arrays(&self, input: &Input, cols: usize, quads: bool, out: &mut [f32]) {
        let rows = out.len() / input.rows();
        let times = Times {
            blocks: self,
            per_row: cols / P::COLS,
            input: P::Part::of(input),
            parts: cols / P::Part::COLS,
            rows,
            out: &mut out.chunks_exact_mut(rows).collect::<Vec<_>>(),
        };
        if quads {
            times.with(lanes::Plain::<true>);
        } else {
            times.with(lanes::Plain::<false>);
        }
    }
}

/// A row to be unpacked.
struct Row<'a, P> {
    /// Of eight rows.
    blocks: &'a [P],
    lane: usize,
    /// `[cols]`.
    out: &'a mut [f32],
}

impl<P: Packed> Work for Row<'_, P> {
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(self, l: L) {
        for (block, out) in self.blocks.iter().zip(self.out.chunks_exact_mut(P::COLS)) {
            block.columns(l, |col, numbers| {
                let mut eight = [0.0; LANES];
                l.store(numbers, &mut eight);
                out[col] = eight[self.lane];
            });
        }
    }
}

/// A product to be done.
pub(crate) struct Times<'a, 'b, P: Tile> {
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
    /// `[input rows, rows]`, row by row.
    pub out: &'a mut [&'b mut [f32]],
}

impl<P: Tile> Work for Times<'_, '_, P> {
    type Out = ();
    const QUADS: bool = P::QUADS;

    #[inline(always)]
    fn with<L: Lanes>(mut self, lanes: L) {
        for first in (0..self.rows).step_by(LANES) {
            let blocks = &self.blocks[first / LANES * self.per_row..][..self.per_row];
            let count = self.out.len();
            let mut row = 0;
            while row < count {
                // Three are two and one: a quarter of the products' code less.
                row += match count - row {
                    1 => self.tile::<L, 1>(lanes, blocks, row, first),
                    2 | 3 => self.tile::<L, 2>(lanes, blocks, row, first),
                    left if L::REGISTERS >= 32 && left >= 2 * MOST => {
                        self.tile::<L, { 2 * MOST }>(lanes, blocks, row, first)
                    }
                    // Bytes leave room for one more, and four are twice two then.
                    left if L::QUADS && P::QUADS => match left {
                        MOST => self.tile::<L, 2>(lanes, blocks, row, first),
                        _ => self.tile::<L, { MOST + 1 }>(lanes, blocks, row, first),
                    },
                    _ => self.tile::<L, MOST>(lanes, blocks, row, first),
                };
            }
        }
    }
}

impl<P: Tile> Times<'_, '_, P> {
    /// The products of eight rows of the matrix with `T` of input; `T`.
    #[inline(always)]
    fn tile<L: Lanes, const T: usize>(
        &mut self,
        l: L,
        blocks: &[P],
        row: usize,
        first: usize,
    ) -> usize {
        let mut input: [&[P::Part]; T] = [&[]; T];
        for (t, part) in input.iter_mut().enumerate() {
            *part = &self.input[(row + t) * self.parts..][..self.parts];
        }
        let sums = P::products::<L, T>(l, blocks, input);
        for (t, sums) in sums.into_iter().enumerate() {
            let out = &mut self.out[row + t][first..];
            if let Some(out) = out.first_chunk_mut() {
                l.store(sums, out);
            } else {
                let mut eight = [0.0; LANES];
                l.store(sums, &mut eight);
                out.copy_from_slice(&eight[..out.len()]);
            }
        }
        T
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
    /// Begins a matrix `[rows, cols]` that is stored in `format` and stays in it.
    ///
    /// # Errors
    /// [`CpuError::Cols`] where rows are no whole blocks (see [`kept`]), and
    /// [`CpuError::TooLarge`].
    pub fn begin(format: Format, rows: usize, cols: usize) -> Result<Self, CpuError> {
        let row_bytes = format
            .bytes_of(cols)
            .ok_or(CpuError::Cols { format, cols })?;
        if rows.checked_mul(row_bytes).is_none() {
            return Err(CpuError::TooLarge { rows, cols });
        }
        let packed = rows_of(format).ok_or(CpuError::Format(format))?;
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
        let Matrix {
            rows, cols, packed, ..
        } = &mut self.matrix;
        // All at once, now that there is something to put there.
        if packed.bytes() == 0 && bytes > 0 {
            packed.reserve(*rows, *cols);
        }
        let eights = self.waiting[..bytes].chunks_exact((LANES * self.row_bytes).max(1));
        eights.for_each(|rows| packed.push(rows, *cols));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever vectors this machine has, they do what the arrays do.
    #[test]
    fn vectors_do_what_arrays_do() {
        let cols = 512;
        let x: Vec<f32> = (0..6 * cols)
            .map(|i| (i * 37 % 101) as f32 - 50.0)
            .collect();
        let mut input = Input::new();
        for count in 1..=6 {
            input.set(&x[..count * cols], cols);
            for format in Format::ALL {
                let matrix = matrix(format, 16, cols);
                let (mut found, mut wanted) = (vec![0.0; 16 * count], vec![0.0; 16 * count]);
                matrix.times(&input, 0..16, &mut found).unwrap();
                let packed = &matrix.packed;
                packed.times_in_arrays(&input, cols, false, &mut wanted);
                let largest = wanted.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                assert!(largest > 0.05, "{format}: {largest}");
                for (found, wanted) in found.iter().zip(wanted) {
                    // Sums in f32, fused or not.
                    assert!(
                        (found - wanted).abs() < 1e-5 * largest,
                        "{format}: {found} is not {wanted}"
                    );
                }
            }
        }
    }

    /// Bytes that are multiplied four at once make the same sums as numbers of 16 bits, to the last
    /// bit.
    #[test]
    fn products_of_quads_are_those_of_pairs() {
        let cols = 512;
        // The largest magnitudes of a block are of both signs, and few of the others are multiples
        // of 256.
        let x: Vec<f32> = (0..7 * cols)
            .map(|i| [1.0, -1.0, (i * 7919 % 10_007) as f32 / 5003.0 - 1.0][(i % 17).min(2)])
            .collect();
        let mut input = Input::new();
        for count in 1..=7 {
            input.set(&x[..count * cols], cols);
            for format in Format::ALL {
                let packed = matrix(format, 16, cols).packed;
                let (mut quads, mut pairs) = (vec![0.0; 16 * count], vec![0.0; 16 * count]);
                packed.times_in_arrays(&input, cols, true, &mut quads);
                packed.times_in_arrays(&input, cols, false, &mut pairs);
                assert!(pairs.iter().any(|&x| x != 0.0), "{format}");
                assert_eq!(quads, pairs, "{format}, {count} rows");
            }
        }
    }

    /// Arbitrary bytes, and scales of a hundredth and less.
    fn matrix(format: Format, rows: usize, cols: usize) -> Matrix {
        let mut bytes: Vec<u8> = (0..rows * format.bytes_of(cols).unwrap())
            .map(|i| (i * 89 % 251) as u8)
            .collect();
        let mut number = 0;
        for block in bytes.chunks_mut(format.block_bytes()) {
            let mut next = || {
                number = (number * 37 + 11) % 64;
                (number as f32 - 31.5) / 4096.0
            };
            format.set_scales(block, &mut next).unwrap();
        }
        let mut upload = Upload::begin(format, rows, cols).unwrap();
        upload.push(&bytes).unwrap();
        upload.finish().unwrap()
    }
}
