//! The WGSL of the weight formats, appended to the kernels that read weights: `QUADS`,
//! `Unit`, `unit_at` and `quad`. The weights they make are, bit for bit, those of
//! `conclave_weights::dequantise`, which the tests hold them to.

pub(crate) const WORDS: &str = include_str!("../../../shaders/block/words.wgsl");
pub(crate) const F32: &str = include_str!("../../../shaders/block/f32.wgsl");
pub(crate) const F16: &str = include_str!("../../../shaders/block/f16.wgsl");
pub(crate) const Q8_0: &str = include_str!("../../../shaders/block/q8_0.wgsl");
pub(crate) const Q4_0: &str = include_str!("../../../shaders/block/q4_0.wgsl");
pub(crate) const Q4_K: &str = include_str!("../../../shaders/block/q4_k.wgsl");
pub(crate) const Q6_K: &str = include_str!("../../../shaders/block/q6_k.wgsl");

/// A kernel's shaders, one per [`crate::Format`] in the order of its index. The first piece
/// holds the entry point.
macro_rules! per_format {
    ($kernel:literal, [$($piece:expr),+], $params:ty) => {
        $crate::block::per_format!(
            @each $kernel, [$($piece),+], $params,
            ("_f32", F32), ("_f16", F16), ("_q8_0", Q8_0),
            ("_q4_0", Q4_0), ("_q4_k", Q4_K), ("_q6_k", Q6_K)
        )
    };
    (@each $kernel:literal, $pieces:tt, $params:ty, $(($suffix:literal, $block:ident)),+) => {
        [$($crate::block::per_format!(@one $kernel, $pieces, $params, $suffix, $block)),+]
    };
    (@one $kernel:literal, [$first:expr $(, $piece:expr)*], $params:ty, $suffix:literal, $block:ident) => {
        $crate::launch::Shader::of::<$params>(
            concat!($kernel, $suffix),
            &[$first, $($piece,)* $crate::block::WORDS, $crate::block::$block],
        )
    };
}
pub(crate) use per_format;
