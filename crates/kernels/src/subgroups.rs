//! Kernels that sum across the lanes of *subgroups*, twins of those that sum through workgroup
//! memory and barriers: for devices that [have them](crate::Gpu::has_subgroups), natively. They
//! pass the trials of the kernels they replace, and are launched where
//! [`crate::Choices::subgroups`] is set: where autotune found them faster.
//!
//! WGSL's `enable subgroups;` is left out: naga 30 neither knows nor needs it.

use conclave_gpu::number_in;

use crate::block::per_format;
use crate::ops::experts::{self, ExpertParams};
use crate::ops::product::{Family, GATED, NORM, PLAIN, Params, ROWS, SHARED, VECTORS};
use crate::proving::RestoreOnDrop;
use crate::{Choices, GpuError, Launcher};

const VECTOR: &str = wgsl!("product_vector/subgroups.wgsl");
const EXPERTS_VECTOR: &str = wgsl!("experts_vector/subgroups.wgsl");

/// Number of pairs of weight rows in a workgroup.
const VECTOR_PAIRS: u32 = number_in(VECTOR, "PAIRS: u32 = ");
const EXPERTS_VECTOR_PAIRS: u32 = number_in(EXPERTS_VECTOR, "PAIRS: u32 = ");

static VECTOR_ROWS: Family = per_format!(
    "product_vector_subgroups",
    [VECTOR, VECTORS, SHARED, PLAIN, ROWS],
    Params
);
static VECTOR_GATED: Family = per_format!(
    "product_vector_subgroups_gated",
    [VECTOR, VECTORS, SHARED, PLAIN, GATED],
    Params
);
static NORM_VECTOR_ROWS: Family = per_format!(
    "product_vector_subgroups_norm",
    [VECTOR, VECTORS, SHARED, NORM, ROWS],
    Params
);
static NORM_VECTOR_GATED: Family = per_format!(
    "product_vector_subgroups_norm_gated",
    [VECTOR, VECTORS, SHARED, NORM, GATED],
    Params
);
static EXPERTS: Family = per_format!(
    "experts_vector_subgroups",
    [EXPERTS_VECTOR, VECTORS, experts::SHARED, PLAIN],
    ExpertParams
);

/// Shaders of every kernel with subgroups.
pub(crate) fn families() -> [&'static Family; 5] {
    [
        &VECTOR_ROWS,
        &VECTOR_GATED,
        &NORM_VECTOR_ROWS,
        &NORM_VECTOR_GATED,
        &EXPERTS,
    ]
}

/// The twins of `product_vector` with the norm fused, gated; pairs of weight rows of a workgroup.
pub(crate) fn product_vector(normed: bool, gated: bool) -> Option<(&'static Family, u32)> {
    let family = match (normed, gated) {
        (false, false) => &VECTOR_ROWS,
        (false, true) => &VECTOR_GATED,
        (true, false) => &NORM_VECTOR_ROWS,
        (true, true) => &NORM_VECTOR_GATED,
    };
    Some((family, VECTOR_PAIRS))
}

/// The twin of `experts_vector`; pairs of weight rows of a workgroup.
pub(crate) fn experts_vector() -> Option<(&'static Family, u32)> {
    Some((&EXPERTS, EXPERTS_VECTOR_PAIRS))
}

impl Launcher {
    /// The choices with these twins, if they are correct here. Builds and tries them for all uses
    /// of the device, without launching them yet.
    pub(crate) async fn try_subgroups(&self) -> Result<Choices, GpuError> {
        let choices = self.choices();
        let failed = self.proofs().without_subgroups;
        if choices.serial || failed || !self.has_subgroups() {
            return Ok(choices);
        }
        let _before = RestoreOnDrop {
            launcher: self,
            choices: Some(choices),
        };
        self.choose(Choices {
            subgroups: true,
            ..choices
        });
        self.test().await?;
        Ok(self.choices())
    }
}
