//! Kernels for software adapters with *serial* threads: one computes an item (a row, a head of a
//! token, a few rows of W) alone, without barriers. Elsewhere threads are *cooperative*: a
//! workgroup computes an item. Most kernels are written once for both, as `make(at, across,
//! local)`, with one of two entry points; attention and products have a shader of each kind.
//!
//! Everything specific to these adapters is selected here, by [`crate::Choices::serial`].

pub(crate) mod attention;
pub(crate) mod product;

use conclave_gpu::{Shader, grid, number_in};

use crate::Launcher;

pub(crate) const COOPERATIVE: &str = wgsl!("shared/cooperative.wgsl");
pub(crate) const SERIAL: &str = wgsl!("shared/serial.wgsl");

/// Number of items in a workgroup.
const ITEMS: [usize; 2] = [
    number_in(COOPERATIVE, "ITEMS: u32 = ") as usize,
    number_in(SERIAL, "ITEMS: u32 = ") as usize,
];

/// Number of threads of an item.
pub(crate) const THREADS: [usize; 2] = [
    number_in(COOPERATIVE, "THREADS: u32 = ") as usize,
    number_in(SERIAL, "THREADS: u32 = ") as usize,
];

/// A kernel for cooperative threads, and for serial ones.
pub(crate) type ShaderPair = [Shader; 2];

/// The [`ShaderPair`] of a kernel.
macro_rules! shader_pair {
    ($kernel:literal, [$($piece:expr),+], $params:ty) => {
        [
            $crate::serial::shader_pair!(
                @one $kernel, $crate::serial::COOPERATIVE, [$($piece),+], $params
            ),
            $crate::serial::shader_pair!(
                @one concat!($kernel, "_serial"), $crate::serial::SERIAL, [$($piece),+], $params
            ),
        ]
    };
    (@one $name:expr, $entry:expr, [$($piece:expr),+], $params:ty) => {
        conclave_gpu::Shader::new::<$params>($name, &[$entry, $($piece),+])
    };
}
pub(crate) use shader_pair;

/// The kernel of a pair that this device launches.
pub(crate) fn select<T>(launcher: &Launcher, both: &'static [T; 2]) -> &'static T {
    &both[usize::from(launcher.choices().serial)]
}

/// Workgroups for `count` items in x and y.
pub(crate) fn items(launcher: &Launcher, count: usize) -> [u32; 3] {
    items_by(launcher.choices().serial, count)
}

/// The same by serial threads, or by cooperative ones.
pub(crate) fn items_by(serial: bool, count: usize) -> [u32; 3] {
    grid(count.div_ceil(ITEMS[usize::from(serial)]))
}
