//! Conclave's GPU kernels: WGSL, launched on wgpu.
//!
//! | family | does |
//! |---|---|
//! | [`embed()`] | token ids → rows of the embedding |
//! | [`rms_norm()`] | normalisation, also of each head |
//! | [`product()`] | products with weights in every [`Format`], with norm, bias, gate and residual |
//! | [`append()`] | norms of queries and keys, rotary embedding, append to the KV cache |
//! | [`attention()`] | masked attention over prefix and own candidate |
//! | [`convolve()`] | gated short convolution over prefix and own candidate, append to its cache |
//! | [`recurrence_mix()`], [`recurrence_rule()`] | linear recurrence: its convolution, and the update of its states |
//! | [`gate_heads()`] | gated heads, with a norm before or after the gate |
//! | [`gated()`] | act(gate) · up |
//! | [`route()`], [`group_choices()`], [`experts()`], [`join_experts()`] | mixture of experts: the choice, its grouping, products with the chosen, their sum |
//! | [`score_head()`], [`target_logits()`] | raw logit and log-sum-exp of target ids, from hidden states |
//! | [`sample()`] | draws the next token |
//! | [`norm_add()`], [`pick_norm()`] | a norm after a product; the rows whose logits are wanted |
//! | [`keep_rows()`] | keep the winner's cache rows |
//! | [`gather_rows()`], [`put_rows()`] | a few rows, rows to their place |
//!
//! A kernel `NAME` is `shaders/NAME.wgsl`, `ops/NAME.rs` here (parameters, launcher), and
//! `NAME_cpu`, the same in plain Rust: the reference for the tests and for the self-test on the
//! adapter in use. Shaders stay within WebGPU's minimum: 16 KB of workgroup memory, 256 threads,
//! eight storage buffers, without f16 arithmetic and, except for some native twins, without
//! subgroups.
//!
//! A [`Launcher`] is a [`Gpu`] with its kernel choices and self-test results: kernels with
//! alternatives are launched on it, others on any [`Gpu`]. On a CPU emulating a GPU barriers cost
//! more than the work between them: there the same kernels run with a thread for each item, and
//! products and attention have `shaders/NAME/serial.wgsl` beside `cooperative.wgsl` ([`Choices`]).
//! Natively the products of one row also have `subgroups.wgsl`, launched where it was measured
//! faster.
//!
//! [`embed_dispatch`], [`product_dispatch`], [`append_dispatch`] and [`attention_dispatch`] make a
//! [`Dispatch`], for other crates' devices, and document the buffers bound.
//!
//! Launches return at once; later failures are errors of the next [`Gpu::read`] or [`Gpu::sync`].
//!
//! ```
//! use conclave_kernels::{AdapterChoice, Format, Fused, GpuError, Launcher, Matrix, Rows, product};
//! # #[allow(dead_code)]
//! /// One row times a matrix of F32: `x` `[cols]`, `weights` `[rows, cols]`.
//! async fn times(x: &[f32], weights: &[f32]) -> Result<Vec<f32>, GpuError> {
//!     let gpu = Launcher::init(AdapterChoice::Best).await?;
//!     let (cols, rows) = (x.len(), weights.len() / x.len());
//!     let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
//!     let matrix = Matrix::upload(&gpu, Format::F32, rows, cols, &bytes)?;
//!     let (x, counts, out) = (gpu.upload(x)?, gpu.upload(&[1_u32])?, gpu.allocate(4 * rows)?);
//!     let one = Rows { count: 1, counts: &counts };
//!     product(&gpu, &x, one, &[&matrix], Fused::default(), &out)?;
//!     Ok(gpu.read_f32(&[&out]).await?.remove(0))
//! }
//! ```

/// The text of a shader by its path below `shaders/`, without comments and indentation: see
/// `build.rs`.
macro_rules! wgsl {
    ($($path:expr),+) => {
        const {
            // A static exists once; a constant, once in each codegen unit that names it.
            static TEXT: [u8; include_bytes!(concat!(env!("OUT_DIR"), "/", $($path),+)).len()] =
                *include_bytes!(concat!(env!("OUT_DIR"), "/", $($path),+));
            match str::from_utf8(&TEXT) {
                Ok(text) => text,
                Err(_) => panic!("not UTF-8"),
            }
        }
    };
}

mod block;
mod format;
mod launcher;
mod matrix;
mod ops;
mod pack;
mod place;
mod proving;
mod serial;
// No browser launches these, so a page does not download them.
#[cfg_attr(target_family = "wasm", path = "subgroups/none.rs")]
mod subgroups;
mod upload;
#[cfg(test)]
mod validation;

pub use conclave_gpu::{
    AdapterChoice, AdapterInfo, Buffer, Dispatch, Gpu, GpuCounters, GpuError, Heard, Reports,
};

pub use format::Format;
pub use launcher::Launcher;
pub use matrix::Matrix;
pub use ops::append::{
    Append, HeadNorm, Heads, NormOf, Projected, QkNorm, Rotary, append, append_cpu,
    append_dispatch, rope_table,
};
pub use ops::attention::{
    Attention, Scores, attention, attention_cpu, attention_dispatch, attention_partials,
    attention_room,
};
pub use ops::convolve::{Channels, Taps, convolve, convolve_cpu};
pub use ops::embed::{embed, embed_cpu, embed_dispatch};
pub use ops::experts::{Chosen, ExpertParams, experts, experts_cpu, experts_dispatch};
pub use ops::gate_heads::{GatedHeads, GatedNorm, gate_heads, gate_heads_cpu};
pub use ops::gated::{Activation, Columns, gated, gated_cpu};
pub use ops::gather_rows::{gather_rows, gather_rows_cpu};
pub use ops::group_choices::{choice_groups, group_choices, group_choices_cpu};
pub use ops::join_experts::{Joined, join_experts, join_experts_cpu};
pub use ops::keep_rows::{Caches, keep_rows, keep_rows_cpu};
pub use ops::norm_add::{PostNorm, norm_add, norm_add_cpu};
pub use ops::pick_norm::{pick_norm, pick_norm_cpu};
pub use ops::product::{
    Fused, Norm, ProductKernel, Rows, can_gate, product, product_by, product_cpu, product_dispatch,
};
pub use ops::put_rows::{put_rows, put_rows_cpu};
pub use ops::recurrence::{
    NO_SLOT, Recurrence, RecurrentHeads, RecurrentPass, RecurrentRule, RecurrentTaps,
    recurrence_mix, recurrence_mix_cpu, recurrence_rule, recurrence_rule_cpu,
};
pub use ops::rms_norm::{rms_norm, rms_norm_cpu};
pub use ops::route::{ExpertCounts, route, route_cpu};
pub use ops::sample::{DrawBuffers, Draws, NO_TOKEN, sample, sample_cpu};
pub use ops::score_head::{Head, score_head, score_head_cpu, score_partials, target_logits};
pub use place::{Place, places_in_line, places_in_sequence, places_of_candidate};
pub use proving::Kernels;
pub use proving::choices::Choices;
pub use proving::close;
pub use upload::MatrixUpload;

/// Every shader variant: its name and complete WGSL.
pub fn shaders() -> Vec<(String, String)> {
    ops::shaders()
        .map(|shader| (shader.name.to_owned(), shader.text()))
        .collect()
}
