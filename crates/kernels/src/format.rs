//! How a matrix's numbers are stored, in the file and on the GPU, and what they are.
//!
//! A block of the file is taken apart once, at load: what belongs together lies together
//! on the GPU, in *planes*, so that a thread reads its share of a row, a *unit*, in one
//! aligned load of 16 bytes. Nothing is requantised, and no byte is added.

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
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 4] = [Format::F32, Format::F16, Format::Q8_0, Format::Q4_0];

    /// Numbers in a block: a row must be a multiple of it.
    pub const fn block(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 => 8,
            Format::Q8_0 | Format::Q4_0 => 32,
        }
    }

    /// Bytes of a block, as in GGUF.
    pub const fn block_bytes(self) -> usize {
        match self {
            Format::F32 | Format::F16 => 16,
            Format::Q8_0 => 34,
            Format::Q4_0 => 18,
        }
    }

    /// Numbers in the 16 bytes of the first plane that a thread reads at once.
    pub(crate) const fn unit(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 => 8,
            Format::Q8_0 => 16,
            Format::Q4_0 => 32,
        }
    }

    /// Bytes of a block in each plane. All but the last are multiples of 16.
    pub(crate) const fn planes(self) -> &'static [usize] {
        match self {
            Format::F32 | Format::F16 => &[16],
            Format::Q8_0 => &[32, 2],
            Format::Q4_0 => &[16, 2],
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Take blocks apart: each plane's bytes are appended to its vector.
    pub(crate) fn pack(self, blocks: &[u8], planes: &mut [Vec<u8>]) {
        match self {
            Format::F32 | Format::F16 => planes[0].extend_from_slice(blocks),
            Format::Q8_0 | Format::Q4_0 => {
                for block in blocks.chunks_exact(self.block_bytes()) {
                    planes[0].extend_from_slice(&block[2..]);
                    planes[1].extend_from_slice(&block[..2]);
                }
            }
        }
    }
}

/// The numbers behind GGUF blocks: the CPU twin of `shaders/block/*.wgsl`. An incomplete
/// block at the end is ignored.
pub fn dequantise(format: Format, blocks: &[u8]) -> Vec<f32> {
    let f16_at = |b: &[u8]| half::f16::from_le_bytes([b[0], b[1]]).to_f32();
    match format {
        Format::F32 => blocks
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        Format::F16 => blocks.chunks_exact(2).map(f16_at).collect(),
        Format::Q8_0 => blocks
            .chunks_exact(34)
            .flat_map(|block| {
                let scale = f16_at(block);
                block[2..].iter().map(move |&q| f32::from(q as i8) * scale)
            })
            .collect(),
        Format::Q4_0 => blocks
            .chunks_exact(18)
            .flat_map(|block| {
                let scale = f16_at(block);
                let low = block[2..].iter().map(|&q| q & 15);
                let high = block[2..].iter().map(|&q| q >> 4);
                low.chain(high)
                    .map(move |q| (f32::from(q) - 8.0) * scale)
                    .collect::<Vec<_>>()
            })
            .collect(),
    }
}
