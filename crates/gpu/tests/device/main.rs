//! Memory, writes, copies, reads and their order, on a real adapter.
//!
//! Any Vulkan, Metal or D3D12 adapter will do, lavapipe included; `VK_ICD_FILENAMES` picks another
//! driver. Without one these tests fail.

mod copies;
mod order;
mod support;
