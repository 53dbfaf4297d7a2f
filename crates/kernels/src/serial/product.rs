//! Products by serial threads, each of which computes rows of W: two kernels serve any number of
//! rows of x.

use conclave_gpu::number_in;

use crate::block::per_format;
use crate::ops::product::{BLOCKS, Family, GATED, PLAIN, Params, ROWS, SHARED, VECTORS};

const VECTOR: &str = wgsl!("product_vector/serial.wgsl");
const BLOCK: &str = wgsl!("product_block/serial.wgsl");

/// Number of pairs of weight rows in a workgroup.
pub(crate) const VECTOR_PAIRS: u32 = number_in(VECTOR, "PAIRS: u32 = ");
pub(crate) const BLOCK_PAIRS: u32 = number_in(BLOCK, "PAIRS: u32 = ");

pub(crate) static VECTOR_ROWS: Family = per_format!(
    "product_vector_serial",
    [VECTOR, VECTORS, SHARED, PLAIN, ROWS],
    Params
);
pub(crate) static VECTOR_GATED: Family = per_format!(
    "product_vector_serial_gated",
    [VECTOR, VECTORS, SHARED, PLAIN, GATED],
    Params
);
pub(crate) static BLOCK_ROWS: Family = per_format!(
    "product_block_serial",
    [BLOCK, BLOCKS, SHARED, PLAIN, ROWS],
    Params
);
pub(crate) static BLOCK_GATED: Family = per_format!(
    "product_block_serial_gated",
    [BLOCK, BLOCKS, SHARED, PLAIN, GATED],
    Params
);
