//! F16: little-endian 16-bit floats, a block is one element.

use super::{read_half, write_half};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "F16",
    ggml_type: 1,
    block_elements: 1,
    block_bytes: 2,
    dequantise,
    quantise,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    out[0] = read_half(bytes);
}

fn quantise(values: &[f32], out: &mut [u8]) -> bool {
    write_half(values[0], out)
}
