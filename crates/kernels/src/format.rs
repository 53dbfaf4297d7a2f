//! Storage of a matrix's numbers, in the file and on the GPU.
//!
//! On the GPU a block's fields lie in *planes*, each row by row, so that a thread reads its share
//! of a row, a *unit*, in an aligned load of 16 bytes, or half of one. All planes together are as
//! large as the file's blocks; conclave-weights defines them.

use conclave_weights::Format as Stored;

pub use crate::block::Format;
use crate::pack::pack;

impl Format {
    /// The format in conclave-weights.
    pub fn stored(self) -> Stored {
        self.layout().stored
    }

    /// Numbers in a block: a row is a multiple of it.
    pub fn block(self) -> usize {
        self.layout().block
    }

    /// Bytes of a block, as in GGUF.
    pub fn block_bytes(self) -> usize {
        self.planes().iter().sum()
    }

    /// Numbers that a thread reads at once.
    pub(crate) fn unit(self) -> usize {
        self.layout().unit()
    }

    /// Bytes of a block in each plane.
    pub(crate) fn planes(self) -> &'static [usize] {
        self.layout().planes
    }

    /// Its code book, which follows the planes of every buffer: two entries a word.
    pub(crate) fn book(self) -> &'static [u8] {
        bytemuck::cast_slice(self.stored().grid())
    }

    /// Bytes of `rows` rows of `cols` numbers on the GPU: their planes, padded to a multiple of 16
    /// bytes, and the code book.
    pub fn bytes(self, rows: u64, cols: usize) -> u64 {
        // In 64 bits, for models too large for this machine.
        let planes = rows * (cols / self.block() * self.block_bytes()) as u64;
        planes.next_multiple_of(16) + self.book().len() as u64
    }

    /// Word offset of the second plane of `rows` rows of `cols` numbers.
    pub(crate) fn plane1_offset(self, rows: usize, cols: usize) -> u32 {
        (rows * cols / self.block() * self.planes()[0] / 4) as u32
    }

    /// Repacks whole rows from GGUF's layout for kernels: the planes in sequence, zeros up to a
    /// multiple of 16 bytes, and the code book.
    pub fn pack(self, blocks: &[u8]) -> Vec<u8> {
        let mut planes = vec![Vec::new(); self.planes().len()];
        pack(self.stored(), blocks, &mut planes);
        let mut packed = planes.concat();
        packed.resize(packed.len().next_multiple_of(16), 0);
        packed.extend_from_slice(self.book());
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
            assert_eq!(Format::from_stored(stored), Some(format));
            // In conclave-weights, a block of plain numbers is one number.
            let bytes = stored.bytes_of(format.block());
            assert_eq!(bytes, Some(format.block_bytes()), "{format:?}");
            let unit = planes[0] * format.unit() / format.block();
            assert!(unit == 16 || unit == 8, "{format:?}");
            let (_, aligned) = planes.split_last().unwrap();
            assert!(aligned.iter().all(|plane| plane.is_multiple_of(4)));
            // One name for all kernels of a format.
            let name = format!("embed_{}", stored.name().to_lowercase());
            assert_eq!(crate::ops::embed::SHADERS[format.index()].name, name);
        }
        let unread = Stored::ALL
            .into_iter()
            .find(|stored| Format::from_stored(*stored).is_none());
        assert_eq!(unread, None);
    }
}
