//! Matrices in their stored format, packed for the products.

use std::fmt::Debug;
use std::ops::Range;

use conclave_weights::Format;

use crate::error::CpuError;
use crate::formats::empty_rows;
use crate::input::{Input, InputBlock};
use crate::lanes::{self, LANES, Lanes, Work};
use crate::packed::{Blocks, Packed};
use crate::threads;
use crate::tile::Tile;
use crate::times::{Sums, Times};

/// A matrix `[rows, cols]`.
#[derive(Debug, Clone)]
pub struct Matrix {
    pub(crate) format: Format,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) packed: Box<dyn Rows>,
}

/// The rows of a matrix in its format's blocks: groups of eight rows, each `cols / COLS` blocks.
/// Missing rows are zeros.
pub(crate) trait Rows: Debug + Send + Sync {
    /// A copy.
    fn boxed_clone(&self) -> Box<dyn Rows>;

    /// Bytes of memory.
    fn bytes(&self) -> usize;

    /// Reserves memory for that many rows.
    fn reserve(&mut self, rows: usize, cols: usize);

    /// Appends groups of eight rows in stored form.
    fn push(&mut self, rows: &[u8], row_bytes: usize, cols: usize);

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

    /// The same for all rows in plain arrays, by products of quads or of pairs.
    #[cfg(test)]
    fn times_in_arrays(&self, input: &Input, cols: usize, quads: bool, out: &mut [f32]);
}

impl Clone for Box<dyn Rows> {
    fn clone(&self) -> Self {
        self.as_ref().boxed_clone()
    }
}

/// Format in memory of rows of `cols` numbers whose format in the file is `stored`. It is the same
/// format, since products read all formats. Only 8-bit floats, which are multiplied by scales at
/// load, become Q8_0. Rows that are not whole blocks become F32.
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
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Whether its numbers are rounded in blocks: neither F32 nor F16 nor BF16.
    pub fn is_quantised(&self) -> bool {
        self.format.block_elements() > 1
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// Writes the numbers of a row, `[cols]`.
    ///
    /// # Errors
    /// [`CpuError::Shape`] for a row out of range or an `out` of another length.
    pub fn row(&self, row: usize, out: &mut [f32]) -> Result<(), CpuError> {
        check("a row's index", row.min(self.rows), row)?;
        check("a row", out.len(), self.cols)?;
        check("the matrix", usize::from(row < self.rows), 1)?;
        self.packed.row(row, out);
        Ok(())
    }

    /// Bytes of memory of a matrix `[rows, cols]` in a [`kept`] format.
    pub fn bytes_of(format: Format, rows: u64, cols: usize) -> u64 {
        let Some(mut unit) = empty_rows(format, lanes::multiply_quads()) else {
            return 0;
        };
        let block = vec![0; LANES * format.block_bytes()];
        unit.push(&block, format.block_bytes(), format.block_elements());
        let units = rows.div_ceil(LANES as u64) * (cols / format.block_elements()) as u64;
        units * unit.bytes() as u64
    }

    /// Writes the products of all rows of `input` with the rows `rows` of the matrix to `out[input
    /// rows, rows]`.
    ///
    /// # Errors
    /// [`CpuError::Shape`] unless `rows` begin at a multiple of 8 and lie within the matrix, and
    /// the sizes of input and output match.
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

    /// [`times`](Self::times) of all rows, divided into parts of some matrix rows with all of the
    /// input.
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

    /// As [`times`](Self::times), for rows that begin anywhere; resizes `out`.
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

    /// The product of row `of` of `input` with row `row` of the matrix, equal to that of
    /// [`times`](Self::times).
    ///
    /// # Errors
    /// [`CpuError::Shape`] for rows out of range or of another length.
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

/// One thread's part of a product.
struct Product<'a> {
    matrix: &'a Matrix,
    rows: Range<usize>,
    /// A slice for each row of input.
    out: Vec<&'a mut [f32]>,
}

impl Product<'_> {
    fn make(mut self, input: &Input) {
        let (of, cols) = (0..self.out.len(), self.matrix.cols);
        let packed = &self.matrix.packed;
        packed.times(input, of, cols, self.rows, &mut self.out);
    }
}

/// Writes the products of all rows of `input` with all rows of several matrices, each to its
/// `out[input rows, rows]`, as [`Matrix::times`] does. Threads share them all at once, since they
/// wait for each other after every shared task.
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

impl<P: Packed + Tile<InputBlock: InputBlock>> Rows for Blocks<P> {
    fn boxed_clone(&self) -> Box<dyn Rows> {
        Box::new(self.clone())
    }

    fn bytes(&self) -> usize {
        size_of_val(&self[..])
    }

    fn reserve(&mut self, rows: usize, cols: usize) {
        self.reserve_exact(rows.div_ceil(LANES) * (cols / P::COLS));
    }

    fn push(&mut self, rows: &[u8], row_bytes: usize, cols: usize) {
        let blocks = cols / P::COLS;
        let groups = rows.chunks_exact((LANES * row_bytes).max(1));
        let first = self.len();
        self.resize(first + groups.len() * blocks, P::EMPTY);
        let groups = self[first..].chunks_exact_mut(blocks.max(1)).zip(groups);
        threads::each(groups, |(packed, rows)| {
            let bytes = row_bytes / blocks;
            for (at, packed) in (0..row_bytes).step_by(bytes).zip(packed) {
                let mut eight = [&rows[..0]; LANES];
                for (block, row) in eight.iter_mut().zip(rows.chunks_exact(row_bytes)) {
                    *block = &row[at..][..bytes];
                }
                packed.pack(eight);
            }
        });
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
        let (per_row, parts) = (cols / P::COLS, cols / P::InputBlock::COLS);
        lanes::run(Times {
            blocks: &self[rows.start / LANES * per_row..rows.end.div_ceil(LANES) * per_row],
            per_row,
            rows: rows.len(),
            sums: Sums {
                input: &P::InputBlock::blocks(input)[of.start * parts..of.end * parts],
                parts,
                out,
            },
        });
    }

    #[cfg(test)]
    fn times_in_arrays(&self, input: &Input, cols: usize, quads: bool, out: &mut [f32]) {
        let rows = out.len() / input.rows();
        let times = Times {
            blocks: self,
            per_row: cols / P::COLS,
            rows,
            sums: Sums {
                input: P::InputBlock::blocks(input),
                parts: cols / P::InputBlock::COLS,
                out: &mut out.chunks_exact_mut(rows).collect::<Vec<_>>(),
            },
        };
        if quads {
            times.with(lanes::Plain::<true>);
        } else {
            times.with(lanes::Plain::<false>);
        }
    }
}

/// Unpacking of a row.
struct Row<'a, P> {
    /// Blocks of eight rows.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::Upload;

    /// This machine's vectors agree with the arrays.
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
                let largest = wanted.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
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

    /// Products of quads make the same sums as those of pairs, whose codes may be stored in another
    /// way, to the last bit.
    #[test]
    fn products_of_quads_are_those_of_pairs() {
        let cols = 512;
        // The largest magnitudes of a block have both signs, and few others are multiples of 256.
        let x: Vec<f32> = (0..7 * cols)
            .map(|i| [1.0, -1.0, (i * 7919 % 10_007) as f32 / 5003.0 - 1.0][(i % 17).min(2)])
            .collect();
        let mut input = Input::new();
        for count in 1..=7 {
            input.set(&x[..count * cols], cols);
            for format in Format::ALL {
                // Two groups and a part of a third.
                let times = |quads: bool, stored: bool| {
                    let mut out = vec![0.0; 19 * count];
                    let packed = matrix_stored(format, 19, cols, stored).packed;
                    packed.times_in_arrays(&input, cols, quads, &mut out);
                    out
                };
                let pairs = times(false, false);
                assert!(pairs.iter().any(|&x| x != 0.0), "{format}");
                assert_eq!(times(true, true), pairs, "{format}, {count} rows");
                assert_eq!(times(false, true), pairs, "{format}, {count} rows");
            }
        }
    }

    /// Rows multiplied in pairs of eights have the bits of those multiplied eight by eight.
    #[test]
    fn sixteen_lanes_are_twice_eight() {
        let cols = 512;
        let x: Vec<f32> = (0..13 * cols)
            .map(|i| (i * 7919 % 10_007) as f32 / 5003.0 - 1.0)
            .collect();
        let mut input = Input::new();
        // Whole pairs, one half empty, a group of its own.
        for rows in [16, 27, 35] {
            for count in [1, 2, 4, 13] {
                input.set(&x[..count * cols], cols);
                for format in Format::ALL {
                    let matrix = matrix(format, rows, cols);
                    let mut all = vec![0.0; rows * count];
                    matrix.times(&input, 0..rows, &mut all).unwrap();
                    for first in (0..rows).step_by(LANES) {
                        let eight = first..rows.min(first + LANES);
                        let mut few = vec![0.0; eight.len() * count];
                        matrix.times(&input, eight.clone(), &mut few).unwrap();
                        for (few, all) in few.chunks(eight.len()).zip(all.chunks(rows)) {
                            assert!(few.iter().any(|&x| x != 0.0), "{format}");
                            assert_eq!(few, &all[eight.clone()], "{format}, {count} of {rows}");
                        }
                    }
                }
            }
        }
    }

    /// Rows are unpacked to the same numbers from either storage.
    #[test]
    fn rows_are_the_same_from_either_storage() {
        let cols = 512;
        for format in Format::ALL {
            let both = [true, false].map(|quads| {
                let mut out = vec![0.0; cols];
                let matrix = matrix_stored(format, 16, cols, quads);
                matrix.row(11, &mut out).unwrap();
                out
            });
            assert!(both[0].iter().any(|&x| x != 0.0), "{format}");
            assert_eq!(both[0], both[1], "{format}");
        }
    }

    fn matrix(format: Format, rows: usize, cols: usize) -> Matrix {
        matrix_stored(format, rows, cols, lanes::multiply_quads())
    }

    /// Arbitrary bytes, and scales of a hundredth and less.
    fn matrix_stored(format: Format, rows: usize, cols: usize, quads: bool) -> Matrix {
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
        let mut upload = Upload::begin_stored(format, rows, cols, quads).unwrap();
        upload.push(&bytes).unwrap();
        upload.finish().unwrap()
    }
}
