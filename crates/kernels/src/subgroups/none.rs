//! A page has no kernels with subgroups: wgpu 30 cannot request them from a browser.

use crate::ops::product::Family;
use crate::{Choices, GpuError, Launcher};

pub(crate) fn families() -> [&'static Family; 0] {
    []
}

/// No twin of `product_vector`.
pub(crate) fn product_vector(_normed: bool, _gated: bool) -> Option<(&'static Family, u32)> {
    None
}

/// No twin of `experts_vector`.
pub(crate) fn experts_vector() -> Option<(&'static Family, u32)> {
    None
}

impl Launcher {
    /// The choices unchanged.
    pub(crate) async fn try_subgroups(&self) -> Result<Choices, GpuError> {
        Ok(self.choices())
    }
}
