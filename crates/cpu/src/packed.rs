//! Matrices as the products read them: eight rows packed together, block by block, so that a
//! vector holds the same columns of eight rows and every lane sums a row of its own. As many bytes
//! as the file's blocks, except where said.

use crate::half::from_half;
use crate::lanes::LANES;

/// Blocks of eight rows, packed.
pub(crate) trait Packed: Sized {
    /// Columns of a block.
    const COLS: usize;
    /// Bytes of one row's block as stored.
    const BYTES: usize;

    /// Packs one block of each row, `BYTES` bytes each.
    fn pack(rows: [&[u8]; LANES]) -> Self;

    /// The numbers of row `lane`, `COLS` of them.
    fn unpack(&self, lane: usize, out: &mut [f32]);
}

/// Q8_0.
#[derive(Debug, Clone)]
pub(crate) struct Q8 {
    /// f16.
    pub scales: [u16; LANES],
    /// Two columns of each row at a time.
    pub quants: [[i8; 2 * LANES]; 16],
}

/// Q4_0.
#[derive(Debug, Clone)]
pub(crate) struct Q4 {
    /// f16.
    pub scales: [u16; LANES],
    /// Eight columns at a time, see [`put_nibble`].
    pub quants: [[u8; 4 * LANES]; 4],
}

/// Q4_1.
#[derive(Debug, Clone)]
pub(crate) struct Q41 {
    /// f16.
    pub scales: [u16; LANES],
    /// f16.
    pub minima: [u16; LANES],
    /// As in [`Q4`].
    pub quants: [[u8; 4 * LANES]; 4],
}

/// Q4_K; its 6-bit scales and minima take a byte each, 4.6 bits a number in place of 4.5.
#[derive(Debug, Clone)]
pub(crate) struct Q4K {
    /// f16, the scale of scales.
    pub scales: [u16; LANES],
    /// f16, the scale of minima.
    pub floors: [u16; LANES],
    /// One for 32 columns.
    pub steps: [[i8; LANES]; 8],
    /// One for 32 columns, of the other sign than in the file: added, not taken away.
    pub minima: [[i8; LANES]; 8],
    /// Eight columns at a time, see [`put_nibble`], four times for each step.
    pub quants: [[[u8; 4 * LANES]; 4]; 8],
}

/// Q6_K; a quant takes a byte, 8.6 bits a number in place of 6.6.
#[derive(Debug, Clone)]
pub(crate) struct Q6K {
    /// f16, the scale of scales.
    pub scales: [u16; LANES],
    /// One for 16 columns.
    pub steps: [[i8; LANES]; 16],
    /// Two columns of each row at a time, eight times for each step.
    pub quants: [[[i8; 2 * LANES]; 8]; 16],
}

/// One column of f16.
pub(crate) type Half = [u16; LANES];

/// One column of i16, as the cache keeps values.
pub(crate) type Short = [i16; LANES];

/// Eight columns of i16, as the cache keeps keys: two of each row at a time.
pub(crate) type Shorts = [[i16; 2 * LANES]; 4];

/// One column of f32.
pub(crate) type Single = [f32; LANES];

fn half(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// Puts the nibble of row `lane` and column `col` of eight into place: the columns 2i and 2i + 1 of
/// a row are nibble `i` of two neighbouring little-endian u16, so that shifts make pairs of them.
fn put_nibble(quants: &mut [u8; 4 * LANES], lane: usize, col: usize, nibble: u8) {
    let (byte, shift) = nibble_place(lane, col);
    quants[byte] |= (nibble & 15) << shift;
}

fn nibble(quants: &[u8; 4 * LANES], lane: usize, col: usize) -> u8 {
    let (byte, shift) = nibble_place(lane, col);
    quants[byte] >> shift & 15
}

/// 32 columns of nibbles of each row, which lie in the file as in Q4_0.
fn nibbles(rows: [&[u8]; LANES]) -> [[u8; 4 * LANES]; 4] {
    let mut quants = [[0; 4 * LANES]; 4];
    for (lane, row) in rows.iter().enumerate() {
        for (i, byte) in row.iter().enumerate() {
            for (col, nibble) in [(i, byte & 15), (i + 16, byte >> 4)] {
                put_nibble(&mut quants[col / 8], lane, col % 8, nibble);
            }
        }
    }
    quants
}

fn nibble_place(lane: usize, col: usize) -> (usize, usize) {
    let (which, word) = (col / 2, 2 * lane + col % 2);
    (2 * word + which / 2, 4 * (which % 2))
}

impl Packed for Q8 {
    const COLS: usize = 32;
    const BYTES: usize = 34;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        let at = |lane: usize, col: usize| rows[lane][2 + col].cast_signed();
        Self {
            scales: rows.map(half),
            quants: std::array::from_fn(|pair| {
                std::array::from_fn(|i| at(i / 2, 2 * pair + i % 2))
            }),
        }
    }

    fn unpack(&self, lane: usize, out: &mut [f32]) {
        let scale = from_half(self.scales[lane]);
        for (col, out) in out.iter_mut().enumerate() {
            *out = scale * f32::from(self.quants[col / 2][2 * lane + col % 2]);
        }
    }
}

impl Packed for Q4 {
    const COLS: usize = 32;
    const BYTES: usize = 18;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        Self {
            scales: rows.map(half),
            quants: nibbles(rows.map(|row| &row[2..])),
        }
    }

    fn unpack(&self, lane: usize, out: &mut [f32]) {
        let scale = from_half(self.scales[lane]);
        for (col, out) in out.iter_mut().enumerate() {
            let q = nibble(&self.quants[col / 8], lane, col % 8);
            *out = scale * (f32::from(q) - 8.0);
        }
    }
}

impl Packed for Q41 {
    const COLS: usize = 32;
    const BYTES: usize = 20;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        Self {
            scales: rows.map(half),
            minima: rows.map(|row| half(&row[2..])),
            quants: nibbles(rows.map(|row| &row[4..])),
        }
    }

    fn unpack(&self, lane: usize, out: &mut [f32]) {
        let (scale, minimum) = (from_half(self.scales[lane]), from_half(self.minima[lane]));
        for (col, out) in out.iter_mut().enumerate() {
            let q = nibble(&self.quants[col / 8], lane, col % 8);
            *out = scale * f32::from(q) + minimum;
        }
    }
}

impl Packed for Q4K {
    const COLS: usize = 256;
    const BYTES: usize = 144;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        let mut packed = Self {
            scales: rows.map(half),
            floors: rows.map(|row| half(&row[2..])),
            steps: [[0; LANES]; 8],
            minima: [[0; LANES]; 8],
            quants: [[[0; 4 * LANES]; 4]; 8],
        };
        for (lane, row) in rows.iter().enumerate() {
            let (six_bits, bytes) = row[4..].split_at(12);
            for group in 0..8 {
                let (step, minimum) = step_and_minimum(six_bits, group);
                packed.steps[group][lane] = step.cast_signed();
                packed.minima[group][lane] = -minimum.cast_signed();
                let bytes = &bytes[32 * (group / 2)..][..32];
                for (col, byte) in bytes.iter().enumerate() {
                    let nibble = byte >> (4 * (group % 2));
                    put_nibble(&mut packed.quants[group][col / 8], lane, col % 8, nibble);
                }
            }
        }
        packed
    }

    fn unpack(&self, lane: usize, out: &mut [f32]) {
        let (scale, floor) = (from_half(self.scales[lane]), from_half(self.floors[lane]));
        for (group, out) in out.chunks_exact_mut(32).enumerate() {
            let step = scale * f32::from(self.steps[group][lane]);
            let minimum = floor * f32::from(self.minima[group][lane]);
            for (col, out) in out.iter_mut().enumerate() {
                let q = nibble(&self.quants[group][col / 8], lane, col % 8);
                *out = step * f32::from(q) + minimum;
            }
        }
    }
}

/// The 6-bit scale and minimum of a group of Q4_K: the first four groups' lie whole in eight bytes,
/// the others' in four bytes of nibbles and the upper two bits of those eight.
fn step_and_minimum(packed: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        return (packed[group] & 63, packed[group + 4] & 63);
    }
    let (low, high) = (packed[group + 4], |index: usize| packed[index] >> 6 << 4);
    (low & 15 | high(group - 4), low >> 4 | high(group))
}

impl Packed for Q6K {
    const COLS: usize = 256;
    const BYTES: usize = 210;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        let mut packed = Self {
            scales: rows.map(|row| half(&row[208..])),
            steps: [[0; LANES]; 16],
            quants: [[[0; 2 * LANES]; 8]; 16],
        };
        for (lane, row) in rows.iter().enumerate() {
            for (steps, byte) in packed.steps.iter_mut().zip(&row[192..208]) {
                steps[lane] = byte.cast_signed();
            }
            for col in 0..256 {
                // Each half of a block has four runs of 32 columns.
                let (half, run, at) = (col / 128, col % 128 / 32, col % 32);
                let low = row[64 * half + 32 * (run % 2) + at] >> (4 * (run / 2)) & 15;
                let high = row[128 + 32 * half + at] >> (2 * run) & 3;
                packed.quants[col / 16][col % 16 / 2][2 * lane + col % 2] =
                    (low | high << 4).cast_signed() - 32;
            }
        }
        packed
    }

    fn unpack(&self, lane: usize, out: &mut [f32]) {
        let scale = from_half(self.scales[lane]);
        for (group, out) in out.chunks_exact_mut(16).enumerate() {
            let step = scale * f32::from(self.steps[group][lane]);
            for (col, out) in out.iter_mut().enumerate() {
                *out = step * f32::from(self.quants[group][col / 2][2 * lane + col % 2]);
            }
        }
    }
}

impl Packed for Half {
    const COLS: usize = 1;
    const BYTES: usize = 2;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        rows.map(half)
    }

    fn unpack(&self, lane: usize, out: &mut [f32]) {
        out[0] = from_half(self[lane]);
    }
}

impl Packed for Single {
    const COLS: usize = 1;
    const BYTES: usize = 4;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        rows.map(|row| f32::from_le_bytes([row[0], row[1], row[2], row[3]]))
    }

    fn unpack(&self, lane: usize, out: &mut [f32]) {
        out[0] = self[lane];
    }
}
