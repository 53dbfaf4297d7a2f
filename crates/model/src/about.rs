//! A model's description, read from its header alone, and the tensors of its weights.

use conclave_kernels::Format as GpuFormat;
use conclave_weights::{Checkpoint, Description, Format};
use serde::Serialize;

use crate::config::{Config, Recurrence, Rule};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};
use crate::memory::{Memory, check_heads};
use crate::plan::{Plan, VectorPart, embedding, plan};
use crate::pooling::Pooling;
use crate::slots::SLOTS;

/// Options of loading a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Tokens of context, or the model's own if that is shorter.
    pub context: usize,
    /// Rounds matrices of plain numbers (F32, F16, BF16, FP8) to Q8_0 or Q4_0 while they load.
    pub quantise: Option<Format>,
}

impl LoadOptions {
    /// A context of `context` tokens, weights as they are.
    pub fn with_context(context: usize) -> Self {
        Self {
            context,
            quantise: None,
        }
    }
}

/// A model's description, for people.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    /// The configuration.
    pub config: Config,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes that are read of the files.
    pub bytes: u64,
    /// The format most bytes are in, such as `Q8_0`.
    pub quantisation: String,
    /// Conversion of the matrices on a GPU, for each format they are stored in.
    pub formats: Vec<FormatInMemory>,
    /// Tokens of context the model is loaded with.
    pub context: usize,
    /// Pooling of a text's hidden states to an embedding.
    pub pooling: Pooling,
    /// Use of a GPU's memory.
    pub memory: Memory,
    /// Use of the machine's memory where the CPU runs it.
    pub memory_on_cpu: Memory,
    /// Reason why it cannot run on a GPU, if it cannot.
    pub not_on_gpu: Option<String>,
}

impl About {
    /// Error for a text of `needed` tokens, more than the context holds.
    pub fn context_full(&self, needed: usize) -> ModelError {
        ModelError::ContextFull {
            needed,
            context: self.context,
            largest: self.config.context,
        }
    }

    /// Format in which most bytes of the matrices are kept on a GPU.
    pub fn most_on_gpu(&self) -> Option<GpuFormat> {
        let most = self.formats.iter().max_by_key(|kept| kept.bytes);
        most.and_then(|kept| kept.of_kernels)
    }
}

/// Conversion of the matrices of one format on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormatInMemory {
    /// Name of the format in the file.
    pub stored: &'static str,
    /// Name of the format in memory; `None` where no kernel reads rows of this format and width.
    pub kept: Option<&'static str>,
    /// The format in memory, as the kernels name it.
    #[serde(skip)]
    pub of_kernels: Option<GpuFormat>,
    /// Number of matrices.
    pub matrices: usize,
    /// Bytes as stored.
    pub bytes: u64,
}

/// Reads a model's description from its header alone.
///
/// # Errors
/// [`ModelError`] for an unknown architecture or an unsound header.
pub fn about(checkpoint: &Checkpoint, options: LoadOptions) -> Result<About, ModelError> {
    describe(checkpoint, options).map(|(about, _)| about)
}

/// Describes a model, and finds the tensors of its weights.
pub(crate) fn describe(
    checkpoint: &Checkpoint,
    options: LoadOptions,
) -> Result<(About, Plan), ModelError> {
    let quantise = options.quantise;
    if let Some(format) = quantise.filter(|to| !matches!(to, Format::Q8_0 | Format::Q4_0)) {
        let format = format.name();
        return Err(ModelError::Quantise { format });
    }
    checkpoint.refuse_vocabulary()?;
    let family = Family::detect(checkpoint)?;
    let gguf = matches!(checkpoint.description(), Description::Gguf(_));
    let keys = Keys::new(checkpoint, family.gguf, family.defaults)?;
    if let Description::HuggingFace(folder) = checkpoint.description()
        && let Some(method) = folder.quantised_by()
    {
        return Err(ModelError::Quantised { method });
    }
    let (_, vocabulary) = embedding(checkpoint, gguf)?;
    let config = Config::read(&keys, family, vocabulary)?;
    let plan = plan(checkpoint, family, &config, gguf)?;

    let context = options.context.clamp(1, config.context);
    let formats = kept(&plan, quantise);
    let vectors = plan.vectors().map(|part| part.numbers.len() as u64);
    let matrices = plan.matrices().map(|part| part.count() * part.cols as u64);
    let read = plan.vectors().map(VectorPart::bytes);
    let most = formats.iter().max_by_key(|kept| kept.bytes);
    let bytes = read.chain(formats.iter().map(|kept| kept.bytes)).sum();
    check_proportion(&keys, &config, bytes)?;
    let about = About {
        parameters: vectors.chain(matrices).sum(),
        bytes,
        quantisation: most.map(|kept| kept.stored.to_owned()).unwrap_or_default(),
        memory: Memory::on_gpu(&plan, &config, context, quantise),
        memory_on_cpu: Memory::on_cpu(&plan, &config, context, quantise),
        not_on_gpu: check_heads(&config).err().map(|error| error.to_string()),
        formats,
        context,
        pooling: Pooling::read(&keys)?,
        config,
    };
    Ok((about, plan))
}

/// Refuses a model that needs more memory to run than the size of its file justifies: a header
/// could otherwise ask for gigabytes of states and keys beside a few megabytes of weights.
fn check_proportion(keys: &Keys<'_>, config: &Config, bytes: u64) -> Result<(), ModelError> {
    const NUMBER: u64 = size_of::<f32>() as u64;
    let widths = config
        .attentions()
        .flat_map(|of| [of.query_width(), of.kv_width()]);
    let widths = widths.chain(config.recurrences().map(Recurrence::channels));
    let parts = config.layers.len() * config.per_layer.unwrap_or_default();
    // Rows of logits of a router, and of each chosen expert before their sum.
    let of_experts = config
        .experts()
        .flat_map(|of| [of.count, of.used * config.hidden]);
    let widths = widths.chain(of_experts);
    let widths = widths.chain([config.hidden, config.feed_forward(), parts]);
    let widest = widths.max().unwrap_or_default() as u64;
    if NUMBER * SLOTS as u64 * widest > MOST_STATES.saturating_add(bytes) {
        let problem = "makes a model that is wide out of proportion to its weights";
        return Err(keys.wrong(Key("embedding_length", "hidden_size"), problem));
    }
    let a_token: u64 = config
        .attentions()
        .filter(|of| of.shares.is_none())
        .map(|of| NUMBER * of.kv_width() as u64)
        .sum();
    if a_token > MOST_OF_A_TOKEN + bytes / 64 {
        let problem = "makes keys and values out of proportion to the weights";
        return Err(keys.wrong(
            Key("attention.head_count_kv", "num_key_value_heads"),
            problem,
        ));
    }
    let recurrences = config.recurrences();
    let state: u64 = recurrences.map(|of| NUMBER * of.state() as u64).sum();
    match config.recurrences().next() {
        Some(of) if state > MOST_STATES + bytes / 16 => {
            let key = match of.rule {
                Rule::Delta => Key("ssm.state_size", "linear_key_head_dim"),
                Rule::StateSpace => Key("ssm.state_size", "mamba_d_state"),
            };
            let problem = "makes a recurrent state out of proportion to the weights";
            Err(keys.wrong(key, problem))
        }
        _ => Ok(()),
    }
}

/// Bytes of hidden states that any model may have, whatever the size of its weights: enough for a
/// residual stream of 29,000 numbers.
const MOST_STATES: u64 = 64 << 20;

/// Bytes of keys and values of a token that any model may have, whatever the size of its weights.
const MOST_OF_A_TOKEN: u64 = 64 << 10;

/// Conversion of a plan's matrices on a GPU.
fn kept(plan: &Plan, quantise: Option<Format>) -> Vec<FormatInMemory> {
    let mut all: Vec<FormatInMemory> = Vec::new();
    for part in plan.matrices() {
        let stored = part.tensor.format;
        let on_gpu = part.kept_on_gpu(quantise);
        let kept = on_gpu.map(|format| format.stored().name());
        let bytes = part.bytes();
        let same = |k: &&mut FormatInMemory| k.stored == stored.name() && k.kept == kept;
        match all.iter_mut().find(same) {
            Some(k) => {
                k.matrices += 1;
                k.bytes += bytes;
            }
            None => all.push(FormatInMemory {
                stored: stored.name(),
                kept,
                of_kernels: on_gpu,
                matrices: 1,
                bytes,
            }),
        }
    }
    all
}
