//! What a weight format is to the kernels: the planes that its blocks are taken apart into, and
//! the WGSL that makes numbers of them again: `QUADS`, `Unit`, `unit_at` and `quad`, appended to
//! every kernel that reads weights. The weights they make are, bit for bit, those of
//! `conclave_weights::dequantise`, which the tests hold them to.
//!
//! What blocks and planes are, conclave-weights says; WGSL is the file of the format's module name
//! in `shaders/block`.

use conclave_weights::quantised::{Plane, Quantised, RUN};
use conclave_weights::{Format as Stored, each_format, formats};

pub(crate) const WORDS: &str = wgsl!("block/words.wgsl");

/// A weight format.
pub(crate) struct Layout {
    /// What the reader of files calls it.
    pub stored: Stored,
    /// Numbers in a block; of plain numbers as many as a thread reads at once.
    pub block: usize,
    /// Bytes of a block in each plane. All but the last are whole words.
    pub planes: &'static [usize],
    /// Reads the planes.
    pub wgsl: &'static str,
}

impl Layout {
    /// Numbers that a thread reads at once: 16 bytes of the first plane, but no more than a run.
    pub const fn unit(&self) -> usize {
        let unit = 16 * self.block / self.planes[0];
        if unit < RUN { unit } else { RUN }
    }
}

/// Bytes of a block in each plane of a format of blocks.
const fn planes<F: Quantised, const PLANES: usize>() -> [usize; PLANES] {
    let (mut bytes, mut i) = ([0; PLANES], 0);
    while i < PLANES {
        bytes[i] = Plane::bytes(F::PLANES[i], F::ELEMENTS / RUN);
        i += 1;
    }
    bytes
}

macro_rules! kernel_formats {
    ([$($(#[$doc:meta])* $name:ident $module:ident $kind:ident,)+]) => {
        /// How a matrix's numbers are stored, as in GGUF.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])* $name,)+
        }

        impl Format {
            /// Every format.
            pub const ALL: [Format; Stored::ALL.len()] = [$(Format::$name),+];

            /// The format that files store so, if kernels read it.
            pub fn of(stored: Stored) -> Option<Self> {
                match stored {
                    $(Stored::$name => Some(Self::$name),)+
                    Stored::F8E4M3 => None,
                }
            }

            pub(crate) const fn layout(self) -> &'static Layout {
                match self {
                    $(Format::$name => &const {
                        Layout {
                            stored: Stored::$name,
                            block: kernel_formats!(@block $kind $module $name),
                            planes: kernel_formats!(@planes $kind $module $name),
                            wgsl: wgsl!("block/", stringify!($module), ".wgsl"),
                        }
                    },)+
                }
            }
        }
    };
    (@block numbers f32 $name:ident) => { 4 };
    (@block numbers $module:ident $name:ident) => { 8 };
    (@block $kind:ident $module:ident $name:ident) => { formats::$module::$name::ELEMENTS };
    (@planes numbers $module:ident $name:ident) => { &[16] };
    (@planes $kind:ident $module:ident $name:ident) => {
        &planes::<formats::$module::$name, { formats::$module::$name::PLANES.len() }>()
    };
}

each_format!(kernel_formats);

/// A kernel's shaders, one per [`Format`] in the order of its index. The first piece
/// holds the entry point.
macro_rules! per_format {
    ($kernel:literal, $pieces:tt, $params:ty) => {
        conclave_weights::each_format!(per_format @ $kernel, $pieces, $params)
    };
    ([$($(#[$doc:meta])* $name:ident $module:ident $kind:ident,)+] @ $kernel:literal, $pieces:tt, $params:ty) => {
        [$($crate::block::per_format!(@one $kernel, $pieces, $params, $name $module)),+]
    };
    (@one $kernel:literal, [$first:expr $(, $piece:expr)*], $params:ty, $name:ident $module:ident) => {
        conclave_gpu::Shader::new::<$params>(
            concat!($kernel, "_", stringify!($module)),
            const { &[$first, $($piece,)* $crate::block::WORDS, $crate::Format::$name.layout().wgsl] },
        )
    };
}
pub(crate) use per_format;
