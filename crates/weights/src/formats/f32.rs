//! F32: little-endian 32-bit floats, a block is one element.

use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "F32",
    ggml_type: 0,
    block_elements: 1,
    block_bytes: 4,
    dequantise,
    quantise,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    out[0] = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
}

fn quantise(values: &[f32], out: &mut [u8]) -> bool {
    out.copy_from_slice(&values[0].to_le_bytes());
    true
}
