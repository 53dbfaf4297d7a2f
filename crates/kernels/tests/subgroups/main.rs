//! The products of `kernels` with subgroups, where the adapter has them.

#[path = "../kernels/fused.rs"]
mod fused;
#[path = "../kernels/products.rs"]
mod products;
#[path = "../kernels/support.rs"]
mod support;
