//! How a matrix's numbers are stored, in the file and on the GPU.
//!
//! On the GPU a block's fields lie in *planes*, each row by row, so that a thread reads
//! its share of a row, a *unit*, in an aligned load of 16 bytes. The planes are together
//! as large as the file's blocks; `block.rs` says which each format has.

use conclave_weights::Format as Stored;

use crate::block::{self, Layout};

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
    /// Blocks of 32: an f16 scale, an f16 minimum, 32 nibbles.
    Q4_1,
    /// Blocks of 256: two f16, a 6-bit scale and minimum for each 32, 256 nibbles.
    Q4K,
    /// Blocks of 256: an f16, an 8-bit scale for each 16, 256 times 6 bits, each minus 32.
    Q6K,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 7] = [
        Format::F32,
        Format::F16,
        Format::Q8_0,
        Format::Q4_0,
        Format::Q4_1,
        Format::Q4K,
        Format::Q6K,
    ];

    pub(crate) fn layout(self) -> &'static Layout {
        match self {
            Format::F32 => &block::F32,
            Format::F16 => &block::F16,
            Format::Q8_0 => &block::Q8_0,
            Format::Q4_0 => &block::Q4_0,
            Format::Q4_1 => &block::Q4_1,
            Format::Q4K => &block::Q4_K,
            Format::Q6K => &block::Q6_K,
        }
    }

    /// The format that files store so, if kernels read it.
    pub fn of(stored: Stored) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.stored() == stored)
    }

    /// What the reader of files calls it.
    pub fn stored(self) -> Stored {
        self.layout().stored
    }

    /// Numbers in a block: a row must be a multiple of it.
    pub fn block(self) -> usize {
        self.layout().block
    }

    /// Bytes of a block, as in GGUF.
    pub fn block_bytes(self) -> usize {
        self.planes().iter().sum()
    }

    /// Numbers in the 16 bytes of the first plane that a thread reads at once.
    pub(crate) fn unit(self) -> usize {
        self.layout().unit
    }

    /// Bytes of a block in each plane.
    pub(crate) fn planes(self) -> &'static [usize] {
        self.layout().planes
    }

    /// Where the second plane of so many rows of `cols` numbers begins, in words.
    pub(crate) fn behind(self, rows: usize, cols: usize) -> u32 {
        (rows * cols / self.unit() * 4) as u32
    }

    /// Whole rows in GGUF's layout as kernels read them: their planes one behind another, and zeros
    /// up to a multiple of 16 bytes.
    pub fn pack(self, blocks: &[u8]) -> Vec<u8> {
        let mut planes = vec![Vec::new(); self.planes().len()];
        (self.layout().pack)(blocks, &mut planes);
        let mut packed = planes.concat();
        packed.resize(packed.len().next_multiple_of(16), 0);
        packed
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_their_formats() {
        for format in Format::ALL {
            let (stored, planes) = (format.stored(), format.planes());
            assert_eq!(Format::of(stored), Some(format));
            // A block of plain numbers is one number to the reader of files.
            let bytes = stored.bytes_of(format.block());
            assert_eq!(bytes, Some(format.block_bytes()), "{format:?}");
            assert_eq!(planes[0] * format.unit(), 16 * format.block(), "{format:?}");
            let (_, aligned) = planes.split_last().unwrap();
            assert!(aligned.iter().all(|plane| plane.is_multiple_of(16)));
            // One name for the kernels of a format.
            let name = format!("embed_{}", stored.name().to_lowercase());
            assert_eq!(crate::ops::embed::SHADERS[format.index()].name, name);
        }
        assert_eq!(Format::of(Stored::BF16), None);
    }
}
