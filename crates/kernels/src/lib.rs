//! Conclave's GPU kernels: WGSL, launched on wgpu.
//!
//! | family | does |
//! |---|---|
//! | [`embed()`] | token ids → rows of the embedding |
//! | [`rms_norm()`] | normalisation, also per head |
//! | [`product()`] | products with weights in every [`Format`], with norm, bias, gate and residual |
//! | [`append()`] | norms of queries and keys, rotary embedding, append to the KV cache |
//! | [`attention()`] | masked attention over prefix and own candidate |
//! | [`gated()`] | act(gate) · up |
//! | [`score_head()`], [`target_logits()`] | raw logit and log-sum-exp of target ids, from hidden states |
//! | [`sample()`] | draws the next token |
//! | [`norm_add()`], [`pick_norm()`] | a norm behind a product; the rows whose logits are wanted |
//! | [`keep_rows()`] | keep the winner's cache rows |
//! | [`gather_rows()`], [`put_rows()`] | a few rows, rows to their place |
//! | [`add()`] | a sum: the least there is to launch, for trying a device |
//!
//! A family is three of one name: `shaders/NAME.wgsl`, `NAME.rs` here (parameters,
//! launcher), and `NAME_cpu`, the same in plain Rust, which the tests hold it to. Shaders
//! stay within what every WebGPU device has: 16 KB of workgroup memory, 256 threads, eight
//! storage buffers, neither f16 arithmetic nor subgroups.
//!
//! Where a CPU plays GPU, barriers cost more than the work between them: there the same kernels run
//! with a thread for each item, and products and attention have `NAME_alone.wgsl` ([`Choices`]).
//!
//! Launches return at once. What goes wrong later is an error of the next [`Gpu::read`]
//! or [`Gpu::sync`].

mod adapter;
mod add;
mod append;
mod attention;
mod batch;
mod bindings;
mod block;
mod buffer;
mod choices;
#[cfg(target_family = "wasm")]
mod compiling;
mod counters;
mod crew;
mod dispatch;
mod embed;
mod error;
mod exclusive;
mod format;
mod gated;
mod gather_rows;
mod gpu;
mod keep_rows;
mod launch;
mod matrix;
mod measured;
mod norm_add;
mod pack;
mod pick_norm;
mod pipelines;
mod place;
mod product;
mod put_rows;
mod queue;
mod reports;
mod rms_norm;
mod sample;
mod score_head;
mod self_test;
mod signal;
mod upload;
#[cfg(test)]
mod validation;

pub use adapter::{AdapterChoice, AdapterInfo};
pub use add::{add, add_cpu};
pub use append::{
    Heads, QkNorm, QkNormCpu, Rotary, append, append_cpu, append_dispatch, rope_table,
};
pub use attention::{
    Attention, Scores, attention, attention_chunks, attention_cpu, attention_dispatch,
    attention_is_long, attention_partials,
};
pub use buffer::Buffer;
pub use choices::Choices;
pub use counters::GpuCounters;
pub use dispatch::Dispatch;
pub use embed::{embed, embed_cpu, embed_dispatch};
pub use error::GpuError;
pub use format::Format;
pub use gated::{Activation, gated, gated_cpu};
pub use gather_rows::{gather_rows, gather_rows_cpu};
pub use gpu::{Gpu, Limits};
pub use keep_rows::{keep_rows, keep_rows_cpu};
pub use matrix::Matrix;
pub use norm_add::{norm_add, norm_add_cpu};
pub use pick_norm::{pick_norm, pick_norm_cpu};
pub use place::{Place, places_in_line, places_in_sequence, places_of_candidate};
pub use product::{
    Fused, Norm, ProductKernel, Rows, can_gate, product, product_by, product_cpu, product_dispatch,
};
pub use put_rows::{put_rows, put_rows_cpu};
pub use rms_norm::{rms_norm, rms_norm_cpu};
pub use sample::{DrawBuffers, Draws, NO_TOKEN, sample, sample_cpu};
pub use score_head::{Head, score_head, score_head_cpu, score_partials, target_logits};
pub use self_test::Kernels;
pub use upload::MatrixUpload;

/// Every shader variant: its name and complete WGSL.
pub fn shaders() -> Vec<(String, String)> {
    all()
        .map(|shader| (shader.name.to_owned(), shader.text()))
        .collect()
}

fn all() -> impl Iterator<Item = &'static launch::Shader> {
    let alone = [
        &attention::COMBINE_SHADER,
        &keep_rows::SHADER,
        &put_rows::SHADER,
        &score_head::COMBINE_SHADER,
        &gated::SHADER,
        &gather_rows::SHADER,
        &add::SHADER,
    ];
    embed::SHADERS
        .iter()
        .chain(product::FAMILIES.into_iter().flatten())
        .chain(append::SHADERS.as_flattened())
        .chain(attention::SHADERS.as_flattened())
        .chain(&rms_norm::SHADERS)
        .chain(&norm_add::SHADERS)
        .chain(&pick_norm::SHADERS)
        .chain(&sample::SHADERS)
        .chain(&score_head::HEAD_SHADERS)
        .chain(score_head::TARGET_SHADERS.as_flattened())
        .chain(alone)
}
