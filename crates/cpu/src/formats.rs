//! What each format is to the products: how eight rows of it are kept, and where a stored block has
//! its parts (conclave-weights tells what they mean). To add a format: give it its line in
//! [`rows_of`] and, where it has blocks, its declaration.

use conclave_weights::Format;

use crate::block::{Block, Levels, Quantised};
use crate::codes::{Bits, Bytes};
use crate::matrix::Rows;
use crate::packed::{Brain, Half, Single};
use crate::scales::{self, Halves, Nibbles, Steps, StepsAndMinima};

/// No rows yet of a format.
pub(crate) fn rows_of(format: Format) -> Box<dyn Rows> {
    match format {
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
    }
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
    const LEVELS: Levels = Levels::Less(32);
    type Codes = Bits<4, 2>;
    type Scales = Steps<16>;

    fn code(block: &[u8], col: usize) -> u8 {
        // Of each half of a block, runs 0 and 1 are the low nibbles of 64 bytes and 2 and 3 the high.
        let (half, run_of_half) = (col / 128, col % 128 / 32);
        let low = block[64 * half + col % 64] >> (4 * (run_of_half / 2)) & 15;
        low | run::<2>(&block[128..], col) << 4
    }

    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [block[192 + group].cast_signed(), 0]
    }
}
