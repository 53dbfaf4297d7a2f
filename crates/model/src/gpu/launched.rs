//! Kernels that a model launches, derived from its plan, so that they are compiled and tested while
//! its weights are still being read.

use conclave_kernels::{Kernels, Matrix};
use conclave_weights::Format;

use crate::config::{Config, QkNorm};
use crate::gpu::scratch::heads;
use crate::memory::exact_with;
use crate::plan::{MatrixPart, Plan};
use crate::weights::FeedForward;

fn add<T: PartialEq>(to: &mut Vec<T>, one: T) {
    if !to.contains(&one) {
        to.push(one);
    }
}

/// Kernels that a model launches if it is loaded by this plan, with a context of `context` tokens.
/// `None` if no kernel reads the rows of one of its matrices.
pub fn launched(
    plan: &Plan,
    config: &Config,
    context: usize,
    quantise: Option<Format>,
) -> Option<Kernels> {
    let kept = |part: &MatrixPart| part.kept_on_gpu(quantise);
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
        post_norms: plan.per_layer.is_some(),
        norms_rotated: config.qk_norm == QkNorm::Rotated,
        heads: of_heads,
        convolves: config.convolves().then_some(exact),
        recurrences: config.is_recurrent(),
        experts: Vec::new(),
        gated_heads: config.is_recurrent() || config.attentions().any(|of| of.gate),
    };
    for block in &plan.blocks {
        let per_layer = block.per_layer.iter();
        let per_layer = per_layer.flat_map(|of| [&of.gate, &of.projection]);
        let linears = block.mixer.linears().into_iter();
        for linear in linears.chain(per_layer) {
            add(&mut kernels.products, kept(&linear.weight)?);
        }
        match &block.feed_forward {
            FeedForward::Dense(mlp) => {
                add(&mut kernels.products, kept(&mlp.down.weight)?);
                let [gate, up] = [kept(&mlp.gate.weight)?, kept(&mlp.up.weight)?];
                let rows = mlp.gate.weight.count() as usize;
                let of = [gate, up].map(|format| (format, rows));
                match Matrix::stacks(&of, config.hidden) {
                    true => add(&mut kernels.gates, gate),
                    false => {
                        kernels.apart = true;
                        add(&mut kernels.products, gate);
                        add(&mut kernels.products, up);
                    }
                }
            }
            FeedForward::Experts(of) => {
                add(&mut kernels.products, kept(&of.router)?);
                for matrix in [&of.gate, &of.up, &of.down] {
                    add(&mut kernels.experts, kept(matrix)?);
                }
            }
        }
        let norms = [&block.mixer_post_norm, &block.feed_forward_post_norm];
        kernels.post_norms |= norms.into_iter().any(Option::is_some);
    }
    Some(kernels)
}
