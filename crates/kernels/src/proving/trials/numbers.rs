//! What kernels are tried on: the same numbers everywhere, without a pattern.

use half::{bf16, f16};

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

    /// Numbers in −1..1.
    pub fn many(&mut self, count: usize) -> Vec<f32> {
        let signed = |bits: u64| (bits >> 40) as f32 / (1 << 23) as f32 - 1.0;
        (0..count).map(|_| signed(self.bits())).collect()
    }

    /// A matrix on the GPU, and its numbers as the reader of files has them. A product of its rows
    /// with a few hundred numbers in −1..1 is about 1.
    pub fn matrix(
        &mut self,
        gpu: &Gpu,
        format: Format,
        [rows, cols]: [usize; 2],
    ) -> Result<(Matrix, Vec<f32>), GpuError> {
        let unit: f32 = match format {
            Format::F32 | Format::F16 | Format::BF16 => 0.1,
            Format::Q4_0 | Format::Q4_1 => 1.0 / 64.0,
            Format::Q5_0 | Format::Q5_1 | Format::MXFP4 => 1.0 / 128.0,
            Format::Q2K => 1.0 / 256.0,
            Format::Q8_0 | Format::Q3K | Format::IQ4NL => 1.0 / 1024.0,
            Format::Q4K | Format::IQ2XXS | Format::IQ2XS | Format::IQ2S => 1.0 / 4096.0,
            Format::IQ3XXS | Format::IQ3S => 1.0 / 8192.0,
            Format::Q5K => 1.0 / 8192.0,
            Format::Q6K | Format::IQ4XS => 1.0 / 16_384.0,
        };
        let plain = |values: Vec<f32>| values.into_iter().map(move |v| v * unit);
        let blocks: Vec<u8> = match format {
            Format::F32 => plain(self.many(rows * cols))
                .flat_map(f32::to_le_bytes)
                .collect(),
            Format::F16 => plain(self.many(rows * cols))
                .flat_map(|v| f16::from_f32(v).to_le_bytes())
                .collect(),
            Format::BF16 => plain(self.many(rows * cols))
                .flat_map(|v| bf16::from_f32(v).to_le_bytes())
                .collect(),
            // Any bits are quants and scales; only the f16 must be no large numbers.
            _ => (0..rows * cols / format.block())
                .flat_map(|_| {
                    let mut block: Vec<u8> = (0..format.block_bytes())
                        .map(|_| self.bits() as u8)
                        .collect();
                    for &at in format.stored().halves() {
                        let scale = unit * (1.0 + (self.bits() % 8) as f32 / 8.0);
                        block[at..at + 2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
                    }
                    if format == Format::MXFP4 {
                        // 2^(e − 128), as large as the unit or half of it.
                        block[0] = (unit.to_bits() >> 23) as u8 + (self.bits() % 2) as u8;
                    }
                    block
                })
                .collect(),
        };
        let mut numbers = vec![0.0; rows * cols];
        conclave_weights::dequantise(format.stored(), &blocks, &mut numbers)
            .map_err(|error| GpuError::shape("self-test", error.to_string()))?;
        Ok((Matrix::upload(gpu, format, rows, cols, &blocks)?, numbers))
    }
}

/// A buffer of so many numbers that no kernel makes: what is not written shows.
pub(super) fn unwritten(gpu: &Gpu, numbers: usize) -> Result<Buffer, GpuError> {
    gpu.upload(&vec![12345.0_f32; numbers])
}
