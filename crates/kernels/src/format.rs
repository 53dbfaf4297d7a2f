//! How a matrix's numbers are stored, in the file and on the GPU.
//!
//! On the GPU a block's fields lie in *planes*, each row by row, so that a thread reads
//! its share of a row, a *unit*, in an aligned load of 16 bytes. The planes are together
//! as large as the file's blocks.

/// How a matrix's numbers are stored, as in GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// Blocks of 32: an f16 scale, 32 signed bytes.
    Q8_0,
    /// Blocks of 32: an f16 scale, 32 nibbles, each minus 8.
    Q4_0,
    /// Blocks of 256: two f16, a 6-bit scale and minimum for each 32, 256 nibbles.
    Q4K,
    /// Blocks of 256: an f16, an 8-bit scale for each 16, 256 times 6 bits, each minus 32.
    Q6K,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 6] = [
        Format::F32,
        Format::F16,
        Format::Q8_0,
        Format::Q4_0,
        Format::Q4K,
        Format::Q6K,
    ];

    /// Numbers in a block: a row must be a multiple of it.
    pub const fn block(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 => 8,
            Format::Q8_0 | Format::Q4_0 => 32,
            Format::Q4K | Format::Q6K => 256,
        }
    }

    /// Bytes of a block, as in GGUF.
    pub const fn block_bytes(self) -> usize {
        match self {
            Format::F32 | Format::F16 => 16,
            Format::Q8_0 => 34,
            Format::Q4_0 => 18,
            Format::Q4K => 144,
            Format::Q6K => 210,
        }
    }

    /// Numbers in the 16 bytes of the first plane that a thread reads at once.
    pub(crate) const fn unit(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 => 8,
            Format::Q8_0 => 16,
            Format::Q4_0 | Format::Q4K | Format::Q6K => 32,
        }
    }

    /// Bytes of a block in each plane. All but the last are multiples of 16.
    pub(crate) const fn planes(self) -> &'static [usize] {
        match self {
            Format::F32 | Format::F16 => &[16],
            Format::Q8_0 => &[32, 2],
            Format::Q4_0 => &[16, 2],
            Format::Q4K => &[128, 16],
            Format::Q6K => &[128, 64, 16, 2],
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}
