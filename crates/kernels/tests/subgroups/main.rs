//! The products of `kernels` with subgroups, where the adapter has them.

#[path = "../kernels/experts.rs"]
mod experts;
#[path = "../kernels/fused.rs"]
mod fused;
#[path = "../kernels/products.rs"]
mod products;
#[path = "../kernels/support.rs"]
mod support;
