//! A model's use of memory, from the sizes that the decoders allocate: known from its configuration
//! alone, before any download.

use conclave_cpu::{Cache, ConvolutionCache, Matrix as CpuMatrix};
use conclave_kernels::{Format as GpuFormat, Matrix};
use conclave_weights::Format;
use serde::Serialize;

use crate::config::{Attention, Config, Mixer};
use crate::cpu;
use crate::error::ModelError;
use crate::gpu::scratch;
use crate::pass::rows_of;
use crate::plan::{MatrixPart, Plan};
use crate::states::COUNTED;
use crate::weights::FeedForward;

/// Bytes of memory, a GPU's or the machine's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Memory {
    /// Matrices, norms, biases and rotary tables.
    pub weights: u64,
    /// Keys and values of the whole context, rows of convolutions, and recurrent states for a round
    /// of three candidates.
    pub kv: u64,
    /// Activations and logits of the largest pass.
    pub scratch: u64,
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.scratch
    }

    /// A planned model's use of the machine's memory where the CPU runs it.
    pub fn on_cpu(plan: &Plan, config: &Config, context: usize, quantise: Option<Format>) -> Self {
        let format = |part: &MatrixPart| part.kept_on_cpu(quantise);
        let matrices = plan
            .matrices()
            .map(|part| CpuMatrix::bytes_of(format(part), part.count(), part.cols));
        let exact = !plan
            .matrices()
            .any(|part| format(part).block_elements() > 1);
        let rows = rows_of(context);
        let caches = config.layers.iter().map(|layer| match &layer.mixer {
            Mixer::Attention(of) if of.shares.is_some() => 0,
            Mixer::Attention(of) => Cache::bytes_of(rows, of.kv_heads, of.head_dim, exact),
            Mixer::Convolution(_) => ConvolutionCache::bytes_of(rows, config.hidden, exact),
            Mixer::Recurrence(of) => (COUNTED * of.state() * size_of::<f32>()) as u64,
        });
        Self {
            weights: matrices.sum::<u64>() + of_vectors(plan, config, context),
            kv: caches.sum(),
            scratch: cpu::scratch_bytes(config),
        }
    }

    /// A planned model's use of a GPU's memory with a context of `context` tokens.
    pub fn on_gpu(plan: &Plan, config: &Config, context: usize, quantise: Option<Format>) -> Self {
        let matrix = |part: &MatrixPart| {
            let kept = part.kept_on_gpu(quantise);
            kept.map_or(0, |format| matrix_bytes(format, part.count(), part.cols))
        };
        let matrices: u64 = plan.matrices().map(matrix).sum();
        let apart = plan.blocks.iter().any(|block| {
            let FeedForward::Dense(mlp) = &block.feed_forward else {
                return false;
            };
            let parts = [&mlp.gate.weight, &mlp.up.weight];
            let format =
                |part: &MatrixPart| Some((part.kept_on_gpu(quantise)?, part.count() as usize));
            let of: Vec<_> = parts.into_iter().filter_map(format).collect();
            !Matrix::stacks(&of, config.hidden)
        });
        let mut kept = plan
            .matrices()
            .filter_map(|part| part.kept_on_gpu(quantise));
        let exact = kept.all(exact_with);
        let caches = config.layers.iter().map(|layer| match &layer.mixer {
            Mixer::Attention(of) if of.shares.is_some() => 0,
            Mixer::Attention(of) => 2 * scratch::heads(of, context, exact).cache_bytes(),
            Mixer::Convolution(_) => scratch::channels(config, context, exact).cache_bytes(),
            Mixer::Recurrence(of) => COUNTED * of.state() * size_of::<f32>(),
        });
        Self {
            weights: matrices + of_vectors(plan, config, context),
            kv: caches.map(|bytes| bytes as u64).sum(),
            scratch: scratch::bytes(config, context, apart),
        }
    }
}

/// Bytes of norms, biases and rotary tables.
fn of_vectors(plan: &Plan, config: &Config, context: usize) -> u64 {
    let numbers: u64 = plan.vectors().map(|part| part.numbers.len() as u64).sum();
    let ropes = config.ropes.iter().map(|rope| rope.rotary_dim as u64);
    let tables: u64 = ropes.map(|width| context as u64 * width).sum();
    size_of::<f32>() as u64 * (numbers + tables)
}

/// Whether keys and values stay exact beside matrices of this format: rounding them costs less
/// than rounded weights do, and more than plain ones.
pub fn exact_with(format: GpuFormat) -> bool {
    matches!(format, GpuFormat::F32 | GpuFormat::F16 | GpuFormat::BF16)
}

/// Bytes of a matrix on the GPU.
fn matrix_bytes(format: GpuFormat, rows: u64, cols: usize) -> u64 {
    format.bytes(rows, cols)
}

/// Whether the kernels read heads of an attention's width.
pub fn reads_heads(of: &Attention) -> bool {
    of.head_dim.is_multiple_of(4) && of.head_dim <= 512
}

/// Checks that the kernels read heads of the model's widths.
///
/// # Errors
/// [`ModelError::HeadWidth`].
pub fn check_heads(config: &Config) -> Result<(), ModelError> {
    match config.attentions().find(|of| !reads_heads(of)) {
        Some(of) => Err(ModelError::HeadWidth { width: of.head_dim }),
        None => Ok(()),
    }
}
