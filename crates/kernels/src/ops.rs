//! The kernels: each file holds a launcher and its CPU twin, so that their inputs and outputs can
//! be compared.

pub(crate) mod append;
pub(crate) mod attention;
pub(crate) mod convolve;
pub(crate) mod embed;
pub(crate) mod experts;
pub(crate) mod gate_heads;
pub(crate) mod gated;
pub(crate) mod gather_rows;
pub(crate) mod group_choices;
pub(crate) mod join_experts;
pub(crate) mod keep_rows;
pub(crate) mod norm_add;
pub(crate) mod pick_norm;
pub(crate) mod product;
pub(crate) mod put_rows;
pub(crate) mod recurrence;
pub(crate) mod rms_norm;
pub(crate) mod route;
pub(crate) mod sample;
pub(crate) mod score_head;

use conclave_gpu::Shader;

use crate::{serial, subgroups};

/// Every shader variant.
pub(crate) fn shaders() -> impl Iterator<Item = &'static Shader> {
    let others = [
        &attention::COMBINE_SHADER,
        &put_rows::SHADER,
        &score_head::COMBINE_SHADER,
        &gated::SHADER,
        &gather_rows::SHADER,
        &group_choices::SHADER,
        &join_experts::SHADER,
        &route::SHADER,
    ];
    embed::SHADERS
        .iter()
        .chain(product::FAMILIES.into_iter().flatten())
        .chain(subgroups::families().into_iter().flatten())
        .chain(experts::FAMILIES.into_iter().flatten().flatten())
        .chain(append::SHADERS.as_flattened())
        .chain(convolve::SHADERS.as_flattened())
        .chain(recurrence::SHADERS.as_flattened())
        .chain(&gate_heads::SHADERS)
        .chain(&keep_rows::SHADERS)
        .chain(attention::SHADERS.as_flattened())
        .chain(&serial::attention::SHADERS)
        .chain(&rms_norm::SHADERS)
        .chain(&norm_add::SHADERS)
        .chain(&pick_norm::SHADERS)
        .chain(&sample::SHADERS)
        .chain(&score_head::HEAD_SHADERS)
        .chain(score_head::TARGET_SHADERS.as_flattened())
        .chain(others)
}
