//! What each format is to the products: how eight rows of it are kept, and where a stored block has
//! its parts (conclave-weights tells what they mean). To add a format: give it its line in
//! [`rows_of`] and, where it has blocks, its declaration.

use conclave_weights::Format;

use crate::block::{Block, Levels, Quantised};
use crate::codes::{Bits, Bytes};
use crate::matrix::Rows;
use crate::packed::{Brain, Half, Single};
use crate::scales::{self, Halves, Nibbles, Steps, StepsAndMinima};

/// No rows yet of a format; `None` for 8-bit floats, whose scales are another tensor's.
pub(crate) fn rows_of(format: Format) -> Option<Box<dyn Rows>> {
    Some(match format {
        Format::F8E4M3 => return None,
        Format::F32 => Box::new(Vec::<Single>::new()),
        Format::F16 => Box::new(Vec::<Half>::new()),
        Format::BF16 => Box::new(Vec::<Brain>::new()),
        Format::Q8_0 => blocks_of_32::<Q8_0>(),
        Format::Q4_0 => blocks_of_32::<Q4_0>(),
        Format::Q4_1 => blocks_of_32::<Q4_1>(),
        Format::Q5_0 => blocks_of_32::<Q5_0>(),
        Format::Q5_1 => blocks_of_32::<Q5_1>(),
        Format::IQ4NL => blocks_of_32::<IQ4NL>(),
        Format::MXFP4 => blocks_of_32::<MXFP4>(),
        Format::Q2K => blocks_of_256::<Q2K>(),
        Format::Q3K => blocks_of_256::<Q3K>(),
        Format::Q4K => blocks_of_256::<Q4K>(),
        Format::Q5K => blocks_of_256::<Q5K>(),
        Format::Q6K => blocks_of_256::<Q6K>(),
        Format::IQ4XS => blocks_of_256::<IQ4XS>(),
        Format::IQ2XXS => blocks_of_256::<IQ2XXS>(),
        Format::IQ2XS => blocks_of_256::<IQ2XS>(),
        Format::IQ2S => blocks_of_256::<IQ2S>(),
        Format::IQ3XXS => blocks_of_256::<IQ3XXS>(),
        Format::IQ3S => blocks_of_256::<IQ3S>(),
    })
}

fn blocks_of_32<F: Quantised>() -> Box<dyn Rows> {
    Box::new(Vec::<Block<F, 1>>::new())
}

fn blocks_of_256<F: Quantised>() -> Box<dyn Rows> {
    Box::new(Vec::<Block<F, 8>>::new())
}

/// Nibble `col` of 32, which lie as in Q4_0.
fn nibble(bytes: &[u8], col: usize) -> u8 {
    bytes[col % 16] >> (4 * (col / 16)) & 15
}

/// Bit `col` of 32, lowest first.
fn bit(bytes: &[u8], col: usize) -> u8 {
    bytes[col / 8] >> (col % 8) & 1
}

/// `BITS` of column `col` of 256: runs of 32 columns lie above each other in the same 32 bytes, as
/// many as a byte holds.
fn run<const BITS: usize>(bytes: &[u8], col: usize) -> u8 {
    let (run, each) = (col / 32, 8 / BITS);
    bytes[32 * (run / each) + col % 32] >> (BITS * (run % each)) & ((1 << BITS) - 1)
}

/// Scale and minimum, six bits each, of a group of Q4_K and Q5_K: the first four groups' lie whole in
/// eight bytes, the others' in four bytes of nibbles and the upper two bits of those eight.
fn six_bits(packed: &[u8], group: usize) -> [i8; 2] {
    let both = if group < 4 {
        [packed[group] & 63, packed[group + 4] & 63]
    } else {
        let (low, high) = (packed[group + 4], |index: usize| packed[index] >> 6 << 4);
        [low & 15 | high(group - 4), low >> 4 | high(group)]
    };
    both.map(u8::cast_signed)
}

#[derive(Debug, Clone)]
struct Q8_0;

impl Quantised for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    type Codes = Bytes;
    type Scales = Halves<1>;

    fn code(block: &[u8], col: usize) -> u8 {
        block[2 + col]
    }
}

#[derive(Debug, Clone)]
struct Q4_0;

impl Quantised for Q4_0 {
    const FORMAT: Format = Format::Q4_0;
    const LEVELS: Levels = Levels::Less(8);
    type Codes = Bits<4, 0>;
    type Scales = Halves<1>;

    fn code(block: &[u8], col: usize) -> u8 {
        nibble(&block[2..], col)
    }
}

#[derive(Debug, Clone)]
struct Q4_1;

impl Quantised for Q4_1 {
    const FORMAT: Format = Format::Q4_1;
    type Codes = Bits<4, 0>;
    type Scales = Halves<2>;

    fn code(block: &[u8], col: usize) -> u8 {
        nibble(&block[4..], col)
    }
}

#[derive(Debug, Clone)]
struct Q5_0;

impl Quantised for Q5_0 {
    const FORMAT: Format = Format::Q5_0;
    const LEVELS: Levels = Levels::Less(16);
    type Codes = Bits<4, 1>;
    type Scales = Halves<1>;

    fn code(block: &[u8], col: usize) -> u8 {
        nibble(&block[6..], col) | bit(&block[2..], col) << 4
    }
}

#[derive(Debug, Clone)]
struct Q5_1;

impl Quantised for Q5_1 {
    const FORMAT: Format = Format::Q5_1;
    type Codes = Bits<4, 1>;
    type Scales = Halves<2>;

    fn code(block: &[u8], col: usize) -> u8 {
        nibble(&block[8..], col) | bit(&block[4..], col) << 4
    }
}

/// ggml's `kvalues_iq4nl`.
const IQ4: Levels = Levels::Table([
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
]);

#[derive(Debug, Clone)]
struct IQ4NL;

impl Quantised for IQ4NL {
    const FORMAT: Format = Format::IQ4NL;
    const LEVELS: Levels = IQ4;
    type Codes = Bits<4, 0>;
    type Scales = Halves<1>;

    fn code(block: &[u8], col: usize) -> u8 {
        nibble(&block[2..], col)
    }
}

#[derive(Debug, Clone)]
struct IQ4XS;

impl Quantised for IQ4XS {
    const FORMAT: Format = Format::IQ4XS;
    const LEVELS: Levels = IQ4;
    type Codes = Bits<4, 0>;
    type Scales = Steps<8>;

    fn code(block: &[u8], col: usize) -> u8 {
        nibble(&block[8 + col / 32 * 16..], col % 32)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        let low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
        let high = block[2 + group / 4] >> (2 * (group % 4)) & 3;
        [(low | high << 4).cast_signed() - 32, 0]
    }
}

#[derive(Debug, Clone)]
struct MXFP4;

impl Quantised for MXFP4 {
    const FORMAT: Format = Format::MXFP4;
    /// ggml's `kvalues_mxfp4`.
    const LEVELS: Levels = Levels::Table([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);
    type Codes = Bits<4, 0>;
    type Scales = scales::Brain;

    fn code(block: &[u8], col: usize) -> u8 {
        nibble(&block[1..], col)
    }

    /// 2^(e − 128), which is subnormal for e below 2.
    fn halves(block: &[u8]) -> [u16; 2] {
        let brain = match block[0] {
            0 => 1 << 5,
            1 => 1 << 6,
            exponent => u16::from(exponent - 1) << 7,
        };
        [brain, 0]
    }
}

#[derive(Debug, Clone)]
struct Q2K;

impl Quantised for Q2K {
    const FORMAT: Format = Format::Q2K;
    type Codes = Bits<2, 0>;
    type Scales = Nibbles;

    fn code(block: &[u8], col: usize) -> u8 {
        run::<2>(&block[16..], col)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [block[group] & 15, block[group] >> 4].map(u8::cast_signed)
    }
}

#[derive(Debug, Clone)]
struct Q3K;

impl Quantised for Q3K {
    const FORMAT: Format = Format::Q3K;
    const LEVELS: Levels = Levels::Less(4);
    type Codes = Bits<2, 1>;
    type Scales = Steps<16>;

    fn code(block: &[u8], col: usize) -> u8 {
        run::<2>(&block[32..], col) | run::<1>(block, col) << 2
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        let low = block[96 + group % 8] >> (4 * (group / 8)) & 15;
        let high = block[104 + group % 4] >> (2 * (group / 4)) & 3;
        [(low | high << 4).cast_signed() - 32, 0]
    }
}

#[derive(Debug, Clone)]
struct Q4K;

impl Quantised for Q4K {
    const FORMAT: Format = Format::Q4K;
    type Codes = Bits<4, 0>;
    type Scales = StepsAndMinima<8>;

    fn code(block: &[u8], col: usize) -> u8 {
        run::<4>(&block[16..], col)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        six_bits(&block[4..], group)
    }
}

#[derive(Debug, Clone)]
struct Q5K;

impl Quantised for Q5K {
    const FORMAT: Format = Format::Q5K;
    type Codes = Bits<4, 1>;
    type Scales = StepsAndMinima<8>;

    fn code(block: &[u8], col: usize) -> u8 {
        run::<4>(&block[48..], col) | run::<1>(&block[16..], col) << 4
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        six_bits(&block[4..], group)
    }
}

#[derive(Debug, Clone)]
struct Q6K;

impl Quantised for Q6K {
    const FORMAT: Format = Format::Q6K;
    /// A nibble and two bits, `Bits<4, 2>`, would save a quarter of this. Rows of one are as fast,
    /// but twenty take a third more in wasm, where two vectors do the work of one.
    type Codes = Bytes;
    type Scales = Steps<16>;

    fn code(block: &[u8], col: usize) -> u8 {
        // Of each half of a block, runs 0 and 1 are the low nibbles of 64 bytes and 2 and 3 the high.
        let (half, run_of_half) = (col / 128, col % 128 / 32);
        let low = block[64 * half + col % 64] >> (4 * (run_of_half / 2)) & 15;
        (low | run::<2>(&block[128..], col) << 4).wrapping_sub(32)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [block[192 + group].cast_signed(), 0]
    }
}

/// Eight signs of seven bits, which lie one group above another: the eighth makes the number of set
/// bits even.
fn even_signs(sevens: u32, eight: usize) -> u8 {
    let seven = (sevens >> (7 * eight) & 127) as u8;
    seven | ((seven.count_ones() & 1) as u8) << 7
}

/// Whether column `col` is negative, of eight signs.
fn sign(signs: u8, col: usize) -> u8 {
    signs >> (col % 8) & 1
}

/// What an entry of an IQ2 book says of a column, below its sign.
fn of_eight(entry: u16, signs: u8, col: usize) -> u8 {
    (entry >> (2 * (col % 8))) as u8 & 3 | sign(signs, col) << 2
}

/// What those two bits and the sign stand for.
const IQ2: Levels = Levels::Table([8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/// What an entry of an IQ3 book says of a column, below its sign.
fn of_four(entry: u16, signs: u8, col: usize) -> u8 {
    (entry >> (3 * (col % 4))) as u8 & 7 | sign(signs, col) << 3
}

/// Four little-endian bytes.
fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Nibble `index`, low ones first: `s` of a step `d · (2 s + 1)`.
fn odd_step(nibbles: &[u8], index: usize) -> [i8; 2] {
    let nibble = nibbles[index / 2] >> (4 * (index % 2)) & 15;
    [(2 * nibble + 1).cast_signed(), 0]
}

#[derive(Debug, Clone)]
struct IQ2XXS;

impl Quantised for IQ2XXS {
    const FORMAT: Format = Format::IQ2XXS;
    const LEVELS: Levels = IQ2;
    type Codes = Bits<2, 1>;
    /// d · (s + ½) / 4.
    type Scales = Steps<8, 3>;

    fn code(block: &[u8], col: usize) -> u8 {
        let (group, eight) = (&block[2 + 8 * (col / 32)..], col % 32 / 8);
        let entry = Self::FORMAT.grid()[usize::from(group[eight])];
        let signs = even_signs(word(&group[4..]), eight);
        of_eight(entry, signs, col)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [(block[2 + 8 * group + 7] >> 4 << 1 | 1).cast_signed(), 0]
    }
}

#[derive(Debug, Clone)]
struct IQ2XS;

impl Quantised for IQ2XS {
    const FORMAT: Format = Format::IQ2XS;
    const LEVELS: Levels = IQ2;
    type Codes = Bits<2, 1>;
    type Scales = Steps<16, 3>;

    fn code(block: &[u8], col: usize) -> u8 {
        let at = 2 + 2 * (col / 8);
        let word = u16::from_le_bytes([block[at], block[at + 1]]);
        let entry = Self::FORMAT.grid()[usize::from(word & 511)];
        let signs = even_signs(u32::from(word >> 9), 0);
        of_eight(entry, signs, col)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        odd_step(&block[66..], group)
    }
}

#[derive(Debug, Clone)]
struct IQ2S;

impl Quantised for IQ2S {
    const FORMAT: Format = Format::IQ2S;
    const LEVELS: Levels = IQ2;
    type Codes = Bits<2, 1>;
    type Scales = Steps<16, 3>;

    fn code(block: &[u8], col: usize) -> u8 {
        let eight = col / 8;
        let high = usize::from(block[66 + eight / 4] >> (2 * (eight % 4)) & 3);
        let entry = Self::FORMAT.grid()[usize::from(block[2 + eight]) | high << 8];
        of_eight(entry, block[34 + eight], col)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        odd_step(&block[74..], group)
    }
}

#[derive(Debug, Clone)]
struct IQ3XXS;

impl Quantised for IQ3XXS {
    const FORMAT: Format = Format::IQ3XXS;
    const LEVELS: Levels = Levels::Table([
        4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62,
    ]);
    type Codes = Bits<4, 0>;
    /// d · (s + ½) / 2.
    type Scales = Steps<8, 2>;

    fn code(block: &[u8], col: usize) -> u8 {
        let entry = Self::FORMAT.grid()[usize::from(block[2 + col / 4])];
        let signs = even_signs(word(&block[66 + 4 * (col / 32)..]), col % 32 / 8);
        of_four(entry, signs, col)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [(block[66 + 4 * group + 3] >> 4 << 1 | 1).cast_signed(), 0]
    }
}

#[derive(Debug, Clone)]
struct IQ3S;

impl Quantised for IQ3S {
    const FORMAT: Format = Format::IQ3S;
    const LEVELS: Levels =
        Levels::Table([1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15]);
    type Codes = Bits<4, 0>;
    type Scales = Steps<8>;

    fn code(block: &[u8], col: usize) -> u8 {
        let four = col / 4;
        let ninth = usize::from(block[66 + four / 8] >> (four % 8) & 1);
        let entry = Self::FORMAT.grid()[usize::from(block[2 + four]) | ninth << 8];
        of_four(entry, block[74 + col / 8], col)
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        odd_step(&block[106..], group)
    }
}
