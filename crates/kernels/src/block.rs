//! What a weight format is to the kernels: the planes that its blocks are taken apart into, and
//! the WGSL that makes numbers of them again: `QUADS`, `Unit`, `unit_at` and `quad`, appended to
//! every kernel that reads weights. The weights they make are, bit for bit, those of
//! `conclave_weights::dequantise`, which the tests hold them to.
//!
//! A new format is a file in `shaders/block`, its [`pack`], and an entry in each of the two lists here.

use conclave_weights::Format as Stored;

use crate::pack;

pub(crate) const WORDS: &str = wgsl!("block/words.wgsl");

/// A weight format.
pub(crate) struct Layout {
    /// What the reader of files calls it.
    pub stored: Stored,
    /// Numbers in a block.
    pub block: usize,
    /// Numbers that a thread reads at once.
    pub unit: usize,
    /// Bytes of a block in each plane. All but the last are whole words.
    pub planes: &'static [usize],
    /// Takes blocks apart: appends their bytes of each plane to those it is given.
    pub pack: fn(&[u8], &mut [Vec<u8>]),
    /// Reads the planes.
    pub wgsl: &'static str,
}

/// The formats: each with numbers in a block and in a unit, bytes of a block in each plane, what takes
/// blocks apart, and the files that read them.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident: $stored:ident, $block:literal, $unit:literal, $planes:expr, $pack:expr, [$($file:literal),+];)+) => {
        /// How a matrix's numbers are stored, as in GGUF.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])* $name,)+
        }

        impl Format {
            /// Every format.
            pub const ALL: [Format; [$(Stored::$stored),+].len()] = [$(Format::$name),+];

            pub(crate) const fn layout(self) -> &'static Layout {
                match self {
                    $(Format::$name => &const { Layout {
                        stored: Stored::$stored,
                        block: $block,
                        unit: $unit,
                        planes: &$planes,
                        pack: $pack,
                        wgsl: concat!($(wgsl!("block/", $file, ".wgsl")),+),
                    } },)+
                }
            }
        }
    };
}

formats! {
    /// 32-bit floats.
    F32: F32, 4, 4, [16], pack::plain, ["f32"];
    /// 16-bit floats.
    F16: F16, 8, 8, [16], pack::plain, ["f16"];
    /// The upper halves of 32-bit floats.
    BF16: BF16, 8, 8, [16], pack::plain, ["bf16"];
    /// Blocks of 32: an f16 scale, 32 signed bytes.
    Q8_0: Q8_0, 32, 16, [32, 2], pack::header_last::<2, 34>, ["q8_0"];
    /// Blocks of 32: an f16 scale, 32 nibbles, each minus 8.
    Q4_0: Q4_0, 32, 32, [16, 2], pack::header_last::<2, 18>, ["q4_0"];
    /// Blocks of 32: an f16 scale, an f16 minimum, 32 nibbles.
    Q4_1: Q4_1, 32, 32, [16, 4], pack::header_last::<4, 20>, ["q4_1"];
    /// Blocks of 32: an f16 scale, 32 times 5 bits, each minus 16.
    Q5_0: Q5_0, 32, 32, [16, 4, 2], pack::q5_0, ["q5_0"];
    /// Blocks of 32: an f16 scale, an f16 minimum, 32 times 5 bits.
    Q5_1: Q5_1, 32, 32, [16, 8], pack::q5_1, ["q5_1"];
    /// Blocks of 256: two f16, a 4-bit scale and minimum for each 16, 256 times 2 bits.
    Q2K: Q2K, 256, 32, [64, 16, 4], pack::q2_k, ["q2_k"];
    /// Blocks of 256: an f16, a 6-bit scale for each 16, 256 times 3 bits, each minus 4.
    Q3K: Q3K, 256, 32, [64, 32, 12, 2], pack::q3_k, ["q3_k"];
    /// Blocks of 256: two f16, a 6-bit scale and minimum for each 32, 256 nibbles.
    Q4K: Q4K, 256, 32, [128, 16], pack::q4_k, ["q4_k", "six_bits"];
    /// Blocks of 256: two f16, a 6-bit scale and minimum for each 32, 256 times 5 bits.
    Q5K: Q5K, 256, 32, [128, 32, 16], pack::q5_k, ["q5_k", "six_bits"];
    /// Blocks of 256: an f16, an 8-bit scale for each 16, 256 times 6 bits, each minus 32.
    Q6K: Q6K, 256, 32, [128, 64, 16, 2], pack::q6_k, ["q6_k"];
    /// Blocks of 256: an f16, a 4-bit scale for each 32, 256 times 2 bits of a code book and signs.
    IQ2XXS: IQ2XXS, 256, 32, [64, 2], pack::header_last::<2, 66>, ["iq2_xxs", "iq2", "book"];
    /// Blocks of 256: an f16, a 4-bit scale for each 16, 256 times 2 bits of a code book and signs.
    IQ2XS: IQ2XS, 256, 32, [64, 8, 2], pack::iq2_xs, ["iq2_xs", "iq2", "book"];
    /// The same with a larger book and all signs.
    IQ2S: IQ2S, 256, 32, [64, 16, 2], pack::iq2_s, ["iq2_s", "iq2", "book"];
    /// Blocks of 256: an f16, a 4-bit scale for each 32, 256 times 3 bits of a code book and signs.
    IQ3XXS: IQ3XXS, 256, 32, [64, 32, 2], pack::iq3_xxs, ["iq3_xxs", "iq3", "book"];
    /// The same with a larger book and all signs.
    IQ3S: IQ3S, 256, 32, [64, 32, 12, 2], pack::iq3_s, ["iq3_s", "iq3", "book"];
    /// Blocks of 32: an f16 scale, 32 nibbles that choose from a table.
    IQ4NL: IQ4NL, 32, 32, [16, 2], pack::header_last::<2, 18>, ["iq4_nl", "iq4_levels", "levels"];
    /// Blocks of 256: an f16, a 6-bit scale for each 32, 256 nibbles that choose from the same table.
    IQ4XS: IQ4XS, 256, 32, [128, 8], pack::header_last::<8, 136>, ["iq4_xs", "iq4_levels", "levels"];
    /// Blocks of 32: a power of two, 32 floats of four bits.
    MXFP4: MXFP4, 32, 32, [16, 1], pack::header_last::<1, 17>, ["mxfp4", "levels"];
}

/// A kernel's shaders, one per [`Format`] in the order of its index. The first piece
/// holds the entry point.
macro_rules! per_format {
    ($kernel:literal, [$($piece:expr),+], $params:ty) => {
        $crate::block::per_format!(
            @each $kernel, [$($piece),+], $params,
            ("_f32", F32), ("_f16", F16), ("_bf16", BF16), ("_q8_0", Q8_0), ("_q4_0", Q4_0),
            ("_q4_1", Q4_1), ("_q5_0", Q5_0), ("_q5_1", Q5_1), ("_q2_k", Q2K), ("_q3_k", Q3K),
            ("_q4_k", Q4K), ("_q5_k", Q5K), ("_q6_k", Q6K), ("_iq2_xxs", IQ2XXS),
            ("_iq2_xs", IQ2XS), ("_iq2_s", IQ2S), ("_iq3_xxs", IQ3XXS), ("_iq3_s", IQ3S), ("_iq4_nl", IQ4NL),
            ("_iq4_xs", IQ4XS), ("_mxfp4", MXFP4)
        )
    };
    (@each $kernel:literal, $pieces:tt, $params:ty, $(($suffix:literal, $format:ident)),+) => {
        [$($crate::block::per_format!(@one $kernel, $pieces, $params, $suffix, $format)),+]
    };
    (@one $kernel:literal, [$first:expr $(, $piece:expr)*], $params:ty, $suffix:literal, $format:ident) => {
        conclave_gpu::Shader::of::<$params>(
            concat!($kernel, $suffix),
            const { &[$first, $($piece,)* $crate::block::WORDS, $crate::Format::$format.layout().wgsl] },
        )
    };
}
pub(crate) use per_format;
