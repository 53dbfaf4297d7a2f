//! Which of the GPU's kernels a model launches, told from its plan: they are built and tried while
//! its weights are still on their way.

use conclave_kernels::{Format as GpuFormat, Kernels, Matrix};
use conclave_weights::Format;

use crate::config::Config;
use crate::formats::on_gpu;
use crate::gpu::scratch::heads;
use crate::memory::exact_with;
use crate::plan::{MatrixPart, Plan};

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
    let head = plan.head.as_ref().map(|head| kept(&head.weight));
    let all = plan.matrices().map(kept).collect::<Option<Vec<_>>>()?;
    let exact = all.into_iter().all(exact_with);
    let mut kernels = Kernels {
        embedding,
        head: head.unwrap_or(Some(embedding))?,
        products: Vec::new(),
        gates: Vec::new(),
        apart: false,
        norms_behind: false,
        heads: heads(config, context, exact),
    };
    let add = |to: &mut Vec<GpuFormat>, format| {
        if !to.contains(&format) {
            to.push(format);
        }
    };
    for block in &plan.blocks {
        for linear in [
            &block.query,
            &block.key,
            &block.value,
            &block.output,
            &block.down,
        ] {
            add(&mut kernels.products, kept(&linear.weight)?);
        }
        let [gate, up] = [kept(&block.gate.weight)?, kept(&block.up.weight)?];
        let of = [gate, up].map(|format| (format, config.feed_forward));
        match Matrix::stacks(&of, config.hidden) {
            true => add(&mut kernels.gates, gate),
            false => {
                kernels.apart = true;
                add(&mut kernels.products, gate);
                add(&mut kernels.products, up);
            }
        }
        let norms = [&block.attention_post_norm, &block.feed_forward_post_norm];
        kernels.norms_behind |= norms.into_iter().any(Option::is_some);
    }
    Some(kernels)
}
