//! A transformer's arithmetic on the CPU, natively and in wasm SIMD: products with matrices that
//! stay quantised, attention over a 16-bit cache, and the operations between.
//!
//! | to do this | use |
//! |---|---|
//! | store a matrix | [`kept`] names its format, [`Upload`] takes its rows, [`Matrix`] is the result |
//! | multiply | [`Input::set`], then [`Matrix::times`] for all rows or a share of them, [`products`] with several matrices |
//! | look up an embedding | [`Matrix::row`] |
//! | attend | [`Cache::write`], then [`Attention::run`] |
//! | convolve | [`ConvolutionCache::write`], then [`ConvolutionCache::convolve`] |
//! | run a recurrence | [`recurrent_gates`], then [`Recurrence::run`] from a [`RecurrentState`] |
//! | choose a token's experts | [`Routing::choose`] |
//! | score tokens without storing a row of logits | [`judge`] |
//! | save and restore rows and states | [`Carry`], [`Cache::carry`] |
//! | norms, activations, rotary embeddings | [`rows`] |
//! | share the work between threads | [`Threads::run`], natively also [`Threads::concurrently`] |
//!
//! Matrices are packed eight rows together and input is rounded to 16 bits in blocks of 32, so that
//! the inner loop is one instruction for eight products and one for their sum: `i32x4.dot_i16x8_s`
//! in wasm, `vpmaddwd` on AVX2, `vpdpwssd` for both with VNNI, for two groups of rows at once with
//! AVX-512. Codes of at most seven bits are multiplied by the input's two bytes, four at once, with
//! the same sums: `vpdpbusd` with AVX-512 VNNI, `i32x4.relaxed_dot_i8x16_i7x16_add_s` in wasm. There
//! one row of input multiplies two groups of rows at once, too, and several rows multiply codes that
//! are unpacked once for all of them.
//! Everything runs on the calling thread, or is shared by [`Threads`].
//!
//! ```
//! # fn main() -> Result<(), conclave_cpu::CpuError> {
//! use conclave_cpu::{Input, Upload};
//! use conclave_weights::Format;
//! // [[1, 2], [3, 4]] times [10, 1].
//! let mut upload = Upload::begin(Format::F32, 2, 2)?;
//! for number in [1.0f32, 2.0, 3.0, 4.0] {
//!     upload.push(&number.to_le_bytes())?;
//! }
//! let matrix = upload.finish()?;
//! let (mut input, mut out) = (Input::new(), [0.0; 2]);
//! input.set(&[10.0, 1.0], 2);
//! matrix.times(&input, 0..2, &mut out)?;
//! assert_eq!(out, [12.0, 34.0]);
//! # Ok(()) }
//! ```

mod attention;
mod block;
mod cache;
mod carry;
mod codes;
mod convolution;
mod error;
mod exp;
mod formats;
mod group;
#[cfg(any(test, not(all(target_arch = "wasm32", target_feature = "simd128"))))]
mod half;
#[cfg(target_os = "linux")]
mod huge_pages;
mod input;
mod lanes;
mod matrix;
mod packed;
mod recurrence;
mod routing;
pub mod rows;
mod run;
mod scales;
mod score;
mod threads;
mod tile;
mod times;
mod upload;

pub use attention::{Attention, Seen};
pub use cache::Cache;
pub use carry::Carry;
pub use convolution::ConvolutionCache;
pub use error::CpuError;
pub use exp::softcap;
pub use input::Input;
pub use matrix::{Matrix, kept, products};
pub use recurrence::{
    Recurrence, RecurrentInputs, RecurrentState, RecurrentWeights, Rule, recurrent_gates,
};
pub use routing::Routing;
pub use score::{Judged, judge, log_sum_exp, target_logits};
pub use threads::Threads;
pub use upload::Upload;
