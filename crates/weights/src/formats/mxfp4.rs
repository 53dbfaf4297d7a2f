//! MXFP4 (OCP Microscaling): blocks of 32 elements, a byte `e` and 16 bytes of nibbles, laid out as
//! in Q4_0, each an E2M1 float. With the floats doubled to integers, as in ggml:
//! `x = 2^(e − 128) · LEVELS[q]`.

use super::nibbles;
use crate::quantised::{Bits, Levels, Plane, Power, Quantised, RUN};

/// The block format MXFP4.
#[derive(Debug, Clone, Copy)]
pub struct MXFP4;

impl Quantised for MXFP4 {
    const NAME: &'static str = "MXFP4";
    const GGML_TYPE: u32 = 39;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 17;
    const HALVES: &'static [usize] = &[];
    /// ggml's `kvalues_mxfp4`.
    const LEVELS: Levels = Levels::Table([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);
    const PLANES: &'static [Plane] = &[Plane::Stored(&[(1, 16)]), Plane::Stored(&[(0, 1)])];
    type Codes = Bits<4>;
    type Scaling = Power;

    #[inline(always)]
    fn codes(block: &[u8], _run: usize) -> [u8; RUN] {
        nibbles(&block[1..])
    }

    /// 2^(e − 128), subnormal for e below 2.
    #[inline(always)]
    fn halves(block: &[u8]) -> [u16; 2] {
        let brain = match block[0] {
            0 => 1 << 5,
            1 => 1 << 6,
            exponent => u16::from(exponent - 1) << 7,
        };
        [brain, 0]
    }

    fn set_scales(block: &mut [u8], next: &mut dyn FnMut() -> f32) {
        // An f32's exponent e means 2^(e − 127).
        let exponent = (next().to_bits() >> 23) as u8;
        block[0] = exponent.saturating_add(1);
    }
}
