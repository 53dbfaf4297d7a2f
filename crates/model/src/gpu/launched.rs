//! Which of the GPU's kernels a model launches, told from its plan: they are built and tried while
//! its weights are still on their way.

use conclave_kernels::{Kernels, Matrix};
use conclave_weights::Format;

use crate::config::{Config, QkNorm};
use crate::formats::on_gpu;
use crate::gpu::scratch::heads;
use crate::memory::exact_with;
use crate::plan::{MatrixPart, Plan};

fn add<T: PartialEq>(to: &mut Vec<T>, one: T) {
    if !to.contains(&one) {
        to.push(one);
    }
}

/// The kernels of a model that is loaded by this plan with a context of `context` tokens; `None`
/// where one reads no matrix of it.
pub fn launched(
    plan: &Plan,
    config: &Config,
    context: usize,
    quantise: Option<Format>,
) -> Option<Kernels> {
    let kept = |part: &MatrixPart| {
        on_gpu(part.tensor.format, part.cols, quantise).map(|(_, format)| format)
    };
    let embedding = kept(&plan.embedding)?;
    let mut embeddings = vec![embedding];
    let mut products = Vec::new();
    if let Some(per_layer) = &plan.per_layer {
        add(&mut embeddings, kept(&per_layer.embedding)?);
        add(&mut products, kept(&per_layer.projection)?);
    }
    let head = plan.head.as_ref().map(|head| kept(&head.weight));
    let all = plan.matrices().map(kept).collect::<Option<Vec<_>>>()?;
    let exact = all.into_iter().all(exact_with);
    let mut of_heads = Vec::new();
    for of in config.attentions() {
        add(&mut of_heads, heads(of, context, exact));
    }
    let mut kernels = Kernels {
        embeddings,
        head: head.unwrap_or(Some(embedding))?,
        products,
        gates: Vec::new(),
        apart: plan.per_layer.is_some(),
        norms_behind: plan.per_layer.is_some(),
        norms_rotated: config.qk_norm == QkNorm::Rotated,
        heads: of_heads,
        convolves: config.convolves().then_some(exact),
        delta_nets: config.is_recurrent(),
        experts: Vec::new(),
        gated_heads: config.is_recurrent() || config.attentions().any(|of| of.gate),
    };
    for (block, layer) in plan.blocks.iter().zip(&config.layers) {
        let per_layer = block.per_layer.iter();
        let per_layer = per_layer.flat_map(|of| [&of.gate, &of.projection]);
        let linears = block.mixer.linears().into_iter().chain([&block.down]);
        for linear in linears.chain(per_layer) {
            add(&mut kernels.products, kept(&linear.weight)?);
        }
        let [gate, up] = [kept(&block.gate.weight)?, kept(&block.up.weight)?];
        let of = [gate, up].map(|format| (format, layer.feed_forward));
        match Matrix::stacks(&of, config.hidden) {
            true => add(&mut kernels.gates, gate),
            false => {
                kernels.apart = true;
                add(&mut kernels.products, gate);
                add(&mut kernels.products, up);
            }
        }
        let norms = [&block.mixer_post_norm, &block.feed_forward_post_norm];
        kernels.norms_behind |= norms.into_iter().any(Option::is_some);
    }
    Some(kernels)
}
