//! What a weight format is to the kernels: the planes that its blocks are taken apart into, and
//! the WGSL that makes numbers of them again: `QUADS`, `Unit`, `unit_at` and `quad`, appended to
//! every kernel that reads weights. The weights they make are, bit for bit, those of
//! `conclave_weights::dequantise`, which the tests hold them to.

use conclave_weights::Format as Stored;

use crate::pack;

pub(crate) const WORDS: &str = include_str!("../../../shaders/block/words.wgsl");

/// A weight format.
pub(crate) struct Layout {
    /// What the reader of files calls it.
    pub stored: Stored,
    /// Numbers in a block.
    pub block: usize,
    /// Numbers in the 16 bytes of the first plane that a thread reads at once.
    pub unit: usize,
    /// Bytes of a block in each plane. All but the last are multiples of 16.
    pub planes: &'static [usize],
    /// Takes blocks apart: appends their bytes of each plane to those it is given.
    pub pack: fn(&[u8], &mut [Vec<u8>]),
    /// Reads the planes.
    pub wgsl: &'static str,
}

pub(crate) const F32: Layout = Layout {
    stored: Stored::F32,
    block: 4,
    unit: 4,
    planes: &[16],
    pack: pack::plain,
    wgsl: include_str!("../../../shaders/block/f32.wgsl"),
};
pub(crate) const F16: Layout = Layout {
    stored: Stored::F16,
    block: 8,
    unit: 8,
    planes: &[16],
    pack: pack::plain,
    wgsl: include_str!("../../../shaders/block/f16.wgsl"),
};
/// Bytes; scales.
pub(crate) const Q8_0: Layout = Layout {
    stored: Stored::Q8_0,
    block: 32,
    unit: 16,
    planes: &[32, 2],
    pack: pack::header_last::<2, 34>,
    wgsl: include_str!("../../../shaders/block/q8_0.wgsl"),
};
/// Nibbles; scales.
pub(crate) const Q4_0: Layout = Layout {
    stored: Stored::Q4_0,
    block: 32,
    unit: 32,
    planes: &[16, 2],
    pack: pack::header_last::<2, 18>,
    wgsl: include_str!("../../../shaders/block/q4_0.wgsl"),
};
/// Nibbles; scale and minimum side by side.
pub(crate) const Q4_1: Layout = Layout {
    stored: Stored::Q4_1,
    block: 32,
    unit: 32,
    planes: &[16, 4],
    pack: pack::header_last::<4, 20>,
    wgsl: include_str!("../../../shaders/block/q4_1.wgsl"),
};
/// Nibbles; the block's scale, its minimum's and those of six bits.
pub(crate) const Q4_K: Layout = Layout {
    stored: Stored::Q4K,
    block: 256,
    unit: 32,
    planes: &[128, 16],
    pack: pack::q4_k,
    wgsl: include_str!("../../../shaders/block/q4_k.wgsl"),
};
/// Low four bits; high two; scales; the block's own scale.
pub(crate) const Q6_K: Layout = Layout {
    stored: Stored::Q6K,
    block: 256,
    unit: 32,
    planes: &[128, 64, 16, 2],
    pack: pack::q6_k,
    wgsl: include_str!("../../../shaders/block/q6_k.wgsl"),
};

/// A kernel's shaders, one per [`crate::Format`] in the order of its index. The first piece
/// holds the entry point.
macro_rules! per_format {
    ($kernel:literal, [$($piece:expr),+], $params:ty) => {
        $crate::block::per_format!(
            @each $kernel, [$($piece),+], $params,
            ("_f32", F32), ("_f16", F16), ("_q8_0", Q8_0), ("_q4_0", Q4_0),
            ("_q4_1", Q4_1), ("_q4_k", Q4_K), ("_q6_k", Q6_K)
        )
    };
    (@each $kernel:literal, $pieces:tt, $params:ty, $(($suffix:literal, $block:ident)),+) => {
        [$($crate::block::per_format!(@one $kernel, $pieces, $params, $suffix, $block)),+]
    };
    (@one $kernel:literal, [$first:expr $(, $piece:expr)*], $params:ty, $suffix:literal, $block:ident) => {
        conclave_gpu::Shader::of::<$params>(
            concat!($kernel, $suffix),
            &[$first, $($piece,)* $crate::block::WORDS, $crate::block::$block.wgsl],
        )
    };
}
pub(crate) use per_format;
