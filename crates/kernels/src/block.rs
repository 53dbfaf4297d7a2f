//! Weight formats as seen by the kernels: the planes of a block, and the WGSL that decodes them:
//! `QUADS`, `Unit`, `unit_at` and `quad`, appended to every kernel that reads weights. Decoded
//! weights equal those of `conclave_weights::dequantise` bit for bit, as the tests check.
//!
//! Blocks and planes are defined in conclave-weights; the WGSL is the file of the format's module
//! name in `shaders/block`.

use conclave_weights::quantised::{Plane, Quantised, RUN};
use conclave_weights::{Format as Stored, each_format, formats};

pub(crate) const WORDS: &str = wgsl!("block/words.wgsl");

/// A weight format.
pub(crate) struct Layout {
    /// The format in conclave-weights.
    pub stored: Stored,
    /// Numbers in a block; for plain numbers, the numbers that a thread reads at once.
    pub block: usize,
    /// Bytes of a block in each plane. All but the last are whole words.
    pub planes: &'static [usize],
    /// WGSL that decodes the planes.
    pub wgsl: &'static str,
}

impl Layout {
    /// Numbers that a thread reads at once: as many as 16 bytes of the first plane hold, but no
    /// more than a run.
    pub const fn unit(&self) -> usize {
        let unit = 16 * self.block / self.planes[0];
        if unit < RUN { unit } else { RUN }
    }
}

/// Bytes of a block in each plane.
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
        /// Storage of a matrix's numbers, as in GGUF.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])* $name,)+
        }

        impl Format {
            /// Every format.
            pub const ALL: [Format; Stored::ALL.len()] = [$(Format::$name),+];

            /// The kernels' format for a stored one, if they read it.
            pub fn from_stored(stored: Stored) -> Option<Self> {
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

/// A kernel's shaders, one for each [`Format`] in the order of its index. The first piece holds the
/// entry point.
macro_rules! per_format {
    ($kernel:literal, $pieces:tt, $params:ty) => {
        conclave_weights::each_format!(per_format @ $kernel, $pieces, $params)
    };
    (
        [$($(#[$doc:meta])* $name:ident $module:ident $kind:ident,)+]
        @ $kernel:literal, $pieces:tt, $params:ty
    ) => {
        [$($crate::block::per_format!(@one $kernel, $pieces, $params, $name $module)),+]
    };
    (
        @one $kernel:literal, [$first:expr $(, $piece:expr)*], $params:ty,
        $name:ident $module:ident
    ) => {
        conclave_gpu::Shader::new::<$params>(
            concat!($kernel, "_", stringify!($module)),
            const {
                &[
                    $first, $($piece,)*
                    $crate::block::WORDS, $crate::Format::$name.layout().wgsl,
                ]
            },
        )
    };
}
pub(crate) use per_format;
