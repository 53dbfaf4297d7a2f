//! The WGSL of the weight formats: `QUADS`, `quad` and `scale`, appended to the kernels
//! that read weights. Their CPU twin is [`crate::dequantise`].

pub(crate) const F32: &str = include_str!("../../../shaders/block/f32.wgsl");
pub(crate) const F16: &str = include_str!("../../../shaders/block/f16.wgsl");
pub(crate) const Q8_0: &str = include_str!("../../../shaders/block/q8_0.wgsl");
pub(crate) const Q4_0: &str = include_str!("../../../shaders/block/q4_0.wgsl");
