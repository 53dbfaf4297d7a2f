//! The tests of `kernels` with serial threads.

#[path = "../kernels/cache.rs"]
mod cache;
#[path = "../kernels/draws.rs"]
mod draws;
#[path = "../kernels/elementwise.rs"]
mod elementwise;
#[path = "../kernels/experts.rs"]
mod experts;
#[path = "../kernels/fused.rs"]
mod fused;
#[path = "../kernels/products.rs"]
mod products;
#[path = "../kernels/scores.rs"]
mod scores;
#[path = "../kernels/states.rs"]
mod states;
#[path = "../kernels/support.rs"]
mod support;
