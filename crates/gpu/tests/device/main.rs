//! What every kernel rests on, on a real adapter: memory, writes, copies, reads and their order.
//!
//! Any Vulkan, Metal or D3D12 adapter will do, lavapipe included; `VK_ICD_FILENAMES` picks
//! another driver. Without one these tests fail.

mod copies;
mod order;
mod support;
