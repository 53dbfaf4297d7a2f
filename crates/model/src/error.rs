//! Errors of loading or running a model, with the next step to take.

use conclave_cpu::CpuError;
use conclave_kernels::GpuError;
use conclave_weights::{CheckpointError, GgufError};

/// Errors of loading and running one model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The files cannot be read.
    #[error("the model cannot be read: {0}")]
    File(#[from] CheckpointError),
    /// A value of GGUF metadata is missing or of the wrong type.
    #[error("the model file cannot be read: {0}")]
    Metadata(#[from] GgufError),
    /// The architecture is not among the families the decoder knows.
    #[error(
        "the architecture `{name}` is not supported; supported are {known}. Choose a model of one \
        of these families"
    )]
    Architecture {
        /// `general.architecture` of the file.
        name: String,
        /// The families known, comma separated.
        known: String,
    },
    /// The file asks for a scaling of the rotary frequencies that the decoder lacks.
    #[error(
        "the model stretches its context by `{kind}` scaling of the rotary frequencies, which is \
        not supported; choose a version of it without"
    )]
    RopeScaling {
        /// Its name in the file.
        kind: String,
    },
    /// A key that the decoder needs is missing or out of range.
    #[error(
        "the model file's `{key}` {problem}; the file is damaged or of a kind that is not \
        supported, download or convert it again, or choose another model"
    )]
    Key {
        /// The metadata key.
        key: String,
        /// The problem.
        problem: String,
    },
    /// A tensor is missing or has another shape than the configuration asks for.
    #[error(
        "tensor `{name}` {problem}; the file is incomplete or damaged, download or convert it again"
    )]
    Tensor {
        /// The tensor's name.
        name: String,
        /// The problem.
        problem: String,
    },
    /// The folder's weights are quantised by a method of transformers that is not supported.
    #[error(
        "the folder's weights are quantised by `{method}`, which cannot be read; choose the model \
        in F32, F16 or BF16, or as a .gguf file"
    )]
    Quantised {
        /// `quant_method` of `config.json`.
        method: String,
    },
    /// A format that weights cannot be converted to at load.
    #[error("weights cannot be loaded as {format}; choose Q8_0 or Q4_0, or load them as they are")]
    Quantise {
        /// The format asked for.
        format: &'static str,
    },
    /// A head width that no GPU kernel supports.
    #[error(
        "the model's heads are {width} numbers wide; the GPU's kernels take multiples of 4 up to \
        512, use the CPU"
    )]
    HeadWidth {
        /// Numbers in a head.
        width: usize,
    },
    /// More tokens than the context holds.
    #[error(
        "{needed} tokens do not fit the context of {context} tokens{}",
        beyond(*context, *largest)
    )]
    ContextFull {
        /// Tokens asked for.
        needed: usize,
        /// Tokens that fit.
        context: usize,
        /// Largest context of the model.
        largest: usize,
    },
    /// More candidate tokens in line than the KV cache has rows for.
    #[error(
        "{tokens} candidate tokens do not fit the {limit} rows kept for them; ask for shorter \
        segments or fewer members"
    )]
    InLine {
        /// Tokens of all candidates.
        tokens: usize,
        /// Rows for candidates.
        limit: usize,
    },
    /// A token id outside the vocabulary.
    #[error("token {id} is outside the vocabulary of {vocabulary} tokens")]
    Token {
        /// The id.
        id: u32,
        /// The vocabulary's size.
        vocabulary: usize,
    },
    /// A text without a token has no state.
    #[error("the text has no token; write a word at least")]
    NoToken,
    /// The logits hold no finite number: the weights or the device are broken.
    #[error(
        "the model's logits are not finite numbers; the weights are damaged or the device \
        computes wrongly, leave the model out, load it again or take another device"
    )]
    NotFinite,
    /// A saved prefix is of another model, another build or another device, or damaged.
    #[error("the saved prefix {0}; leave it out, and the text is read anew")]
    Saved(&'static str),
    /// A call out of order, say `keep` without `verify`.
    #[error("{0}")]
    Order(&'static str),
    /// The GPU refused, failed or was lost.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The CPU's products refused a matrix.
    #[error("the CPU backend failed: {0}; load the model again")]
    Cpu(#[from] CpuError),
    /// burn failed to run an operation or to read a tensor back.
    #[error("burn failed: {0}; load the model again")]
    Burn(String),
}

/// Advice for more than `context` tokens, of at most `largest`.
fn beyond(context: usize, largest: usize) -> String {
    match context < largest {
        true => format!(
            "; shorten the text, start a new conversation, or load the model with a larger context \
             (`--context N`, up to {largest})"
        ),
        false => ", the most that the model was made for; shorten the text or start a new \
                  conversation"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_context_is_advised_where_there_is_one() {
        let full = |context| {
            let needed = 5000;
            ModelError::ContextFull {
                needed,
                context,
                largest: 2048,
            }
            .to_string()
        };
        let small = full(64);
        assert!(small.contains("`--context N`, up to 2048"), "{small}");
        let most = full(2048);
        assert!(
            most.contains("the most that the model was made for"),
            "{most}"
        );
        assert!(!most.contains("--context"), "{most}");
    }
}
