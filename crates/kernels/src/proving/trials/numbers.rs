//! Inputs of trials: the same pseudorandom numbers everywhere.

use conclave_weights::{BlockError, dequantise};

use crate::{Buffer, Format, Gpu, GpuError, Matrix};

/// A stream of numbers from a seed (SplitMix64).
pub(super) struct Numbers(pub u64);

impl Numbers {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in −1..1.
    fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Numbers in −1..1.
    pub fn many(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.signed()).collect()
    }

    /// A matrix on the GPU, and its numbers decoded by conclave-weights. A product of a row with a
    /// few hundred numbers in −1..1 is about 1.
    pub fn matrix(
        &mut self,
        gpu: &Gpu,
        format: Format,
        [rows, cols]: [usize; 2],
    ) -> Result<(Matrix, Vec<f32>), GpuError> {
        // The size of numbers whose scales are about 1.
        let (_, numbers) = self.blocks(format, 1024, 1.0)?;
        let squares: f32 = numbers.iter().map(|number| number * number).sum();
        let size = (squares / numbers.len() as f32).sqrt();
        let (blocks, numbers) = self.blocks(format, rows * cols, 0.1 / size)?;
        Ok((Matrix::upload(gpu, format, rows, cols, &blocks)?, numbers))
    }

    /// Blocks of random bits, and their numbers. The scales of the blocks have either sign, and a
    /// magnitude between `scale / 2` and `scale`.
    fn blocks(
        &mut self,
        format: Format,
        count: usize,
        scale: f32,
    ) -> Result<(Vec<u8>, Vec<f32>), GpuError> {
        let stored = format.stored();
        let unsound = |error: BlockError| GpuError::shape("self-test", error.to_string());
        let bytes = count / stored.block_elements() * stored.block_bytes();
        let mut blocks: Vec<u8> = (0..bytes).map(|_| self.bits() as u8).collect();
        let mut next = || {
            let signed = self.signed();
            // Large enough for f16 and the like not to be subnormal.
            scale * (signed + signed.signum()) / 2.0
        };
        for block in blocks.chunks_exact_mut(stored.block_bytes()) {
            stored.set_scales(block, &mut next).map_err(unsound)?;
        }
        let mut numbers = vec![0.0; count];
        dequantise(stored, &blocks, &mut numbers).map_err(unsound)?;
        Ok((blocks, numbers))
    }
}

/// A buffer filled with a number that no kernel makes, to show omitted writes.
pub(super) fn unwritten(gpu: &Gpu, numbers: usize) -> Result<Buffer, GpuError> {
    gpu.upload(&vec![12345.0_f32; numbers])
}
