//! The families, one file each; [`crate::family::Family`] lists the fields.

mod ernie4_5;
mod exaone4;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma4;
mod glm4;
mod granite;
mod granite_hybrid;
mod hunyuan;
mod lfm2;
mod lfm2_moe;
mod llama;
mod ministral3;
mod mistral;
mod olmo2;
mod olmoe;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_5;
mod smollm3;

use crate::family::Family;

/// All families, in the order in which messages list them.
pub const ALL: &[&Family] = &[
    &llama::FAMILY,
    &mistral::FAMILY,
    &qwen2::FAMILY,
    &qwen3::FAMILY,
    &gemma::FAMILY,
    &gemma2::FAMILY,
    &gemma3::FAMILY,
    &gemma4::FAMILY,
    &phi3::FAMILY,
    &smollm3::FAMILY,
    &olmo2::FAMILY,
    &glm4::FAMILY,
    &granite::FAMILY,
    &granite_hybrid::FAMILY,
    &ernie4_5::FAMILY,
    &exaone4::FAMILY,
    &ministral3::FAMILY,
    &lfm2::FAMILY,
    &hunyuan::FAMILY,
    &qwen3_5::FAMILY,
    &lfm2_moe::FAMILY,
    &olmoe::FAMILY,
];
