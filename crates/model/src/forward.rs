//! The decoder, written once: embedding and blocks with every architecture's switches, as a
//! sequence of [`Operations`]. Settings of [`Config`] are read here and nowhere else on the way of
//! a token; implementations take what an operation needs from its arguments.

use conclave_kernels::Scores;

use crate::config::{self, Config};
use crate::error::ModelError;
use crate::fused::{FusedBlock, FusedFeedForward, FusedMixer, FusedWeights};
use crate::operations::{
    Attention, HeadNorms, LayerInputs, Norm, Operations, Projection, Residual, Rotary,
};

/// Runs the tokens of a pass through embedding and blocks.
///
/// # Errors
/// Those of the operations.
pub fn forward<O: Operations>(
    operations: &mut O,
    config: &Config,
    weights: &FusedWeights<O::Layout>,
) -> Result<(), ModelError> {
    operations.embed(&weights.embedding, config.stream_scale())?;
    if let (Some(per_layer), Some(width)) = (&weights.per_layer, config.per_layer) {
        let inputs = LayerInputs {
            layers: config.layers.len(),
            width,
            scale: Config::per_layer_scale(width),
            epsilon: config.per_layer_epsilon(),
        };
        operations.layer_inputs(per_layer, inputs)?;
    }
    for (layer, block) in weights.blocks.iter().enumerate() {
        operations.begin_block(layer)?;
        mix(operations, config, block, layer)?;
        feed_forward(operations, config, block)?;
        if let Some(input) = &block.per_layer {
            operations.gate_layer_input(&input.gate, layer, config.activation)?;
            let norm = Some(norm(&input.norm, config.norm_epsilon));
            let scale = block.scale.as_ref();
            operations.add(&input.projection, Residual { norm, scale })?;
        }
    }
    Ok(())
}

/// The half of a block that mixes tokens.
fn mix<O: Operations>(
    operations: &mut O,
    config: &Config,
    block: &FusedBlock<O::Layout>,
    layer: usize,
) -> Result<(), ModelError> {
    let input = Projection {
        norm: before(&block.mixer_norm, config),
        weights: &block.projection,
    };
    match &block.mixer {
        FusedMixer::Attention {
            of,
            query_norm,
            key_norm,
        } => {
            let norms = HeadNorms {
                kind: config.qk_norm,
                query: query_norm.as_ref(),
                key: key_norm.as_ref(),
                values: config.value_norm,
                epsilon: config.norm_epsilon,
            };
            let rotary = of.rope.map(|table| Rotary {
                table,
                dimensions: config.ropes[table].rotary_dim,
            });
            let attention = Attention {
                of: *of,
                cache: of.shares.unwrap_or(layer),
                norms,
                rotary,
                scores: scores(config, of),
            };
            operations.attend(input, attention)?;
        }
        FusedMixer::Convolution(convolution) => operations.convolve(input, convolution, layer)?,
        FusedMixer::Recurrence(recurrence) => {
            operations.recur(input, recurrence, layer, config.norm_epsilon)?;
        }
    }
    let norm = after(&block.mixer_post_norm, config);
    operations.add(&block.output, Residual { norm, scale: None })
}

/// The half of a block that changes each token separately.
fn feed_forward<O: Operations>(
    operations: &mut O,
    config: &Config,
    block: &FusedBlock<O::Layout>,
) -> Result<(), ModelError> {
    let (activation, norm) = (config.activation, before(&block.feed_forward_norm, config));
    let residual = Residual {
        norm: after(&block.feed_forward_post_norm, config),
        // The last sum of a block is scaled.
        scale: match block.per_layer {
            Some(_) => None,
            None => block.scale.as_ref(),
        },
    };
    match &block.feed_forward {
        FusedFeedForward::Dense { gate, down } => {
            let weights = gate;
            operations.gate(Projection { norm, weights }, activation)?;
            operations.add(down, residual)
        }
        FusedFeedForward::Experts(weights) => {
            operations.add_experts(Projection { norm, weights }, activation, residual)
        }
    }
}

/// Scale, window and softcap of an attention's scores.
pub fn scores(config: &Config, of: &config::Attention) -> Scores {
    Scores {
        scale: config.attention_scale,
        window: of.window,
        softcap: config.attention_softcap,
    }
}

fn norm<V>(weight: &V, epsilon: f32) -> Norm<'_, V> {
    Norm { weight, epsilon }
}

/// A norm of the stream before a half of a block; `None` if the family has none there.
fn before<'a, V>(weight: &'a Option<V>, config: &Config) -> Option<Norm<'a, V>> {
    let epsilon = config.stream_epsilon();
    weight.as_ref().map(|weight| norm(weight, epsilon))
}

/// A norm of a half's output, before it is added to the stream; `None` if the family has none
/// there.
fn after<'a, V>(weight: &'a Option<V>, config: &Config) -> Option<Norm<'a, V>> {
    let epsilon = config.norm_epsilon;
    weight.as_ref().map(|weight| norm(weight, epsilon))
}
