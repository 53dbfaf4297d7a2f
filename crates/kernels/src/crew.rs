//! How many threads make an item (a row, a head of a token): a workgroup together, or one alone,
//! which needs no barriers. Kernels are written once for both, as `make(at, across, local)`.

use crate::Gpu;
use crate::launch::{Shader, grid, number_in};

pub(crate) const TOGETHER: &str = include_str!("../../../shaders/crew/together.wgsl");
pub(crate) const ALONE: &str = include_str!("../../../shaders/crew/alone.wgsl");

/// Items of a workgroup.
const ITEMS: [usize; 2] = [
    number_in(TOGETHER, "ITEMS: u32 = ") as usize,
    number_in(ALONE, "ITEMS: u32 = ") as usize,
];

/// A kernel for a workgroup together, and for a thread alone.
pub(crate) type Crews = [Shader; 2];

/// A kernel's [`Crews`].
macro_rules! crews {
    ($kernel:literal, [$($piece:expr),+], $params:ty) => {
        [
            $crate::crew::crews!(@one $kernel, $crate::crew::TOGETHER, [$($piece),+], $params),
            $crate::crew::crews!(
                @one concat!($kernel, "_alone"), $crate::crew::ALONE, [$($piece),+], $params
            ),
        ]
    };
    (@one $name:expr, $crew:expr, [$($piece:expr),+], $params:ty) => {
        $crate::launch::Shader::of::<$params>($name, &[$crew, $($piece),+])
    };
}
pub(crate) use crews;

/// The one of both that the device launches.
pub(crate) fn pick<T>(gpu: &Gpu, crews: &'static [T; 2]) -> &'static T {
    &crews[usize::from(gpu.choices().alone)]
}

/// Workgroups for so many items in x and y.
pub(crate) fn items(gpu: &Gpu, count: usize) -> [u32; 3] {
    items_by(gpu.choices().alone, count)
}

/// The same by threads alone or together.
pub(crate) fn items_by(alone: bool, count: usize) -> [u32; 3] {
    grid(count.div_ceil(ITEMS[usize::from(alone)]))
}
