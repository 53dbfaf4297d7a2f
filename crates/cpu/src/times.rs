//! Products of packed rows with rows of input: which of them are multiplied together, in which
//! vectors.

use crate::codes::{self, UnpackedCodes};
use crate::lanes::{LANES, Lanes, Work};
use crate::tile::{MAX_ROWS, Tile};

/// A pending product.
pub(crate) struct Times<'a, 'b, P: Tile> {
    /// Groups of eight rows.
    pub blocks: &'a [P],
    /// Number of blocks of a row.
    pub per_row: usize,
    /// Rows of the matrix.
    pub rows: usize,
    /// The results.
    pub sums: Sums<'a, 'b, P::InputBlock>,
}

/// Rows of input, and their products.
pub(crate) struct Sums<'a, 'b, I> {
    /// Rows of input, concatenated.
    pub input: &'a [I],
    /// Number of input blocks of a row of input.
    pub parts: usize,
    /// `[input rows, rows]`, row by row.
    pub out: &'a mut [&'b mut [f32]],
}

impl<P: Tile> Work for Times<'_, '_, P> {
    type Out = ();
    const QUADS: bool = P::QUADS;
    const PAIRS: bool = P::PAIRS;

    #[inline(always)]
    fn with<L: Lanes>(mut self, l: L) {
        let groups = self.rows.div_ceil(LANES);
        let count = self.sums.out.len();
        let (all, per_row) = (self.blocks, self.per_row);
        let blocks = |group: usize| &all[group * per_row..][..per_row];
        let quads = L::QUADS && P::QUADS;
        let unpacks = L::UNPACKS && if quads { P::UNPACKS_QUADS } else { P::UNPACKS };
        if unpacks && count > 1 {
            if quads {
                self.unpacked::<L, codes::Quads>(l);
            } else {
                self.unpacked::<L, codes::Bytes>(l);
            }
            return;
        }
        // Groups far apart, so that each is the next of a stream that processors read ahead.
        let pairs = match count <= L::WIDENS {
            false => 0,
            // If the number of groups is odd, the last group is multiplied twice. This saves code.
            true if L::WIDENS == 1 => groups.div_ceil(2),
            true => groups / 2,
        };
        for group in 0..pairs {
            let second = (group + pairs).min(groups - 1);
            // SAFETY: products load nothing but their blocks.
            let wide = unsafe { l.wide(blocks(group), blocks(second)) };
            let mut tiles = Tiles {
                blocks: blocks(group),
                first: [group * LANES, second * LANES],
                sums: &mut self.sums,
            };
            if L::WIDENS == 1 {
                tiles.tile::<L::Wide, 1>(wide, 0);
            } else {
                tiles.with(wide);
            }
        }
        if unpacks {
            return;
        }
        for group in 2 * pairs..groups {
            let tiles = Tiles {
                blocks: blocks(group),
                first: [group * LANES; 2],
                sums: &mut self.sums,
            };
            tiles.with(l);
        }
    }
}

impl<P: Tile> Times<'_, '_, P> {
    /// The products with several rows of input, by codes that are unpacked to `U`.
    #[inline(always)]
    fn unpacked<L: Lanes, U: UnpackedCodes>(mut self, l: L) {
        let mut unpacked = Vec::new();
        for group in 0..self.rows.div_ceil(LANES) {
            let blocks = &self.blocks[group * self.per_row..][..self.per_row];
            P::unpack::<L, U>(l, blocks, &mut unpacked);
            l.apart(Tiles {
                blocks: &unpacked,
                first: [group * LANES; 2],
                sums: &mut self.sums,
            });
        }
    }
}

/// The products of a group of rows of the matrix with all rows of input; of two groups with wide
/// vectors.
struct Tiles<'s, 'a, 'b, P: Tile> {
    /// The first group.
    blocks: &'s [P],
    /// First rows of the groups.
    first: [usize; 2],
    sums: &'s mut Sums<'a, 'b, P::InputBlock>,
}

impl<P: Tile> Work for Tiles<'_, '_, '_, P> {
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(mut self, l: L) {
        let count = self.sums.out.len();
        let mut row = 0;
        while row < count {
            // Three are two and one, which saves a quarter of the products' code.
            row += match count - row {
                // A single row has been multiplied with wide vectors. Another row again saves code.
                1 if L::WIDENS == 1 => self.tile::<L, 2>(l, row - 1) - 1,
                1 => self.tile::<L, 1>(l, row),
                2 | 3 => self.tile::<L, 2>(l, row),
                left if L::REGISTERS >= 32 && left >= 2 * MAX_ROWS => {
                    self.tile::<L, { 2 * MAX_ROWS }>(l, row)
                }
                // Bytes leave registers for one more, and four are twice two then.
                left if L::QUADS && P::QUADS => match left {
                    MAX_ROWS => self.tile::<L, 2>(l, row),
                    _ => self.tile::<L, { MAX_ROWS + 1 }>(l, row),
                },
                _ => self.tile::<L, MAX_ROWS>(l, row),
            };
        }
    }
}

impl<P: Tile> Tiles<'_, '_, '_, P> {
    /// The products with `T` rows of input from `row` on; returns `T`.
    #[inline(always)]
    fn tile<L: Lanes, const T: usize>(&mut self, l: L, row: usize) -> usize {
        let Sums { input, parts, out } = &mut *self.sums;
        let mut rows: [&[P::InputBlock]; T] = [&[]; T];
        for (t, rows) in rows.iter_mut().enumerate() {
            *rows = &input[(row + t) * *parts..][..*parts];
        }
        let sums = P::products::<L, T>(l, self.blocks, rows);
        for (t, sums) in sums.into_iter().enumerate() {
            let out = &mut out[row + t];
            put(l, sums, &mut out[self.first[0]..]);
            if L::WIDE {
                put(l, l.upper(sums), &mut out[self.first[1]..]);
            }
        }
        T
    }
}

/// Stores eight numbers, or only the first ones where `out` is shorter.
#[inline(always)]
fn put<L: Lanes>(l: L, numbers: L::Floats, out: &mut [f32]) {
    if let Some(out) = out.first_chunk_mut() {
        l.store(numbers, out);
    } else {
        let mut eight = [0.0; LANES];
        l.store(numbers, &mut eight);
        out.copy_from_slice(&eight[..out.len()]);
    }
}
