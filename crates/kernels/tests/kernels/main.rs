//! Every kernel against its CPU twin on a real adapter, over ragged shapes.
//!
//! Any Vulkan, Metal or D3D12 adapter will do, lavapipe included; `VK_ICD_FILENAMES` picks
//! another driver. Without one these tests fail.

mod cache;
mod draws;
mod elementwise;
mod experts;
mod fused;
mod products;
mod scores;
mod states;
mod support;
mod uploads;
