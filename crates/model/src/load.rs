//! From a checkpoint to a model that runs, on one of three backends.

#[cfg(not(target_family = "wasm"))]
use burn::tensor::Device;
use conclave_kernels::{Draws, Format as GpuFormat, Gpu};
use conclave_weights::{Checkpoint, Description, Format, Source};
use serde::Serialize;

use crate::both::both;
#[cfg(not(target_family = "wasm"))]
use crate::burn_decoder::{BurnDecoder, BurnWeights};
use crate::config::Config;
use crate::cpu_decoder::{CpuDecoder, CpuWeights};
use crate::error::ModelError;
use crate::family::Family;
use crate::formats::on_gpu;
use crate::gpu_decoder::GpuDecoder;
use crate::gpu_weights::GpuWeights;
use crate::host::Host;
use crate::keys::Keys;
use crate::launched::launched;
use crate::memory::{Memory, check_heads};
use crate::pass::{Pass, TargetScore};
use crate::plan::{Plan, embedding, plan};
use crate::prefill::{CPU_CHUNK, gpu_chunk};
use crate::reading;
use crate::rope::Factors;
use crate::slots::{MOST_DRAFTED, PREFIX, check_slots};

/// Where a model runs.
#[derive(Debug, Clone)]
pub enum Backend {
    /// Our products on the CPU, natively and in wasm SIMD.
    Cpu,
    /// burn tensor operations on any burn device: plain, slow, and what the others are held to.
    #[cfg(not(target_family = "wasm"))]
    Burn(Device),
    /// Our WGSL kernels on wgpu.
    Gpu(Gpu),
}

impl Backend {
    /// The oracle: burn's `flex` backend, with weights and cache in f32 on the CPU.
    #[cfg(not(target_family = "wasm"))]
    pub fn oracle() -> Self {
        Self::Burn(Device::flex())
    }
}

/// How to load a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Tokens of context, or the model's own if that is shorter.
    pub context: usize,
    /// Rounds matrices of plain numbers (F32, F16, BF16) to Q8_0 or Q4_0 while they load.
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

/// What a model is, for people.
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
    /// What becomes of the matrices on a GPU, for each format they are stored in.
    pub formats: Vec<Kept>,
    /// Tokens of context the model is loaded with.
    pub context: usize,
    /// What it takes of a GPU's memory.
    pub memory: Memory,
    /// Why it can't run on a GPU, where it can't.
    pub not_on_gpu: Option<String>,
}

impl About {
    /// What most bytes of matrices are kept as on a GPU.
    pub fn most_on_gpu(&self) -> Option<GpuFormat> {
        let most = self.formats.iter().max_by_key(|kept| kept.bytes);
        most.and_then(|kept| kept.of_kernels)
    }
}

/// What becomes of the matrices of one format on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// As they are stored.
    pub stored: &'static str,
    /// As they are kept; `None` where no kernel reads their rows.
    pub kept: Option<&'static str>,
    /// The same, as the kernels say it.
    #[serde(skip)]
    pub of_kernels: Option<GpuFormat>,
    /// How many there are.
    pub matrices: usize,
    /// Bytes as stored.
    pub bytes: u64,
}

/// A model on its backend, with its KV cache.
#[derive(Debug)]
pub struct Model {
    about: About,
    decoder: Decoder,
    /// Logits of decoders that run on the host.
    host: Host,
    /// The long frequencies of a rotary embedding that has two sets are in use.
    long: bool,
}

#[derive(Debug)]
enum Decoder {
    Cpu(Box<CpuDecoder>),
    #[cfg(not(target_family = "wasm"))]
    Burn(Box<BurnDecoder>),
    Gpu(Box<GpuDecoder>),
}

impl Model {
    /// Loads the model of a checkpoint, tensor by tensor, from the source that the checkpoint was
    /// opened from. `progress` hears how many of [`About::bytes`] have been read.
    ///
    /// # Errors
    /// [`ModelError`] for an unknown architecture, damaged files, or a GPU without the memory.
    pub async fn load(
        checkpoint: &Checkpoint,
        source: &dyn Source,
        backend: &Backend,
        options: LoadOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, ModelError> {
        let (mut about, plan) = describe(checkpoint, options)?;
        for rope in &mut about.config.ropes {
            let pairs = rope.rotary_dim / 2;
            for factors in rope.factors_mut() {
                if let Factors::Tensor(name) = factors {
                    let read = reading::divisors(checkpoint, source, name, pairs).await?;
                    *factors = Factors::Listed(read);
                }
            }
        }
        let (config, context, quantise) = (&about.config, about.context, options.quantise);
        let decoder = match backend {
            Backend::Cpu => {
                let keep = CpuWeights { quantise };
                let weights = reading::read(&plan, checkpoint, source, &keep, progress).await?;
                Decoder::Cpu(Box::new(CpuDecoder::new(weights, config, context)))
            }
            #[cfg(not(target_family = "wasm"))]
            Backend::Burn(device) => {
                let keep = BurnWeights { device, quantise };
                let weights = reading::read(&plan, checkpoint, source, &keep, progress).await?;
                Decoder::Burn(Box::new(BurnDecoder::new(weights, config, context, device)))
            }
            Backend::Gpu(gpu) => {
                check_heads(config)?;
                let keep = GpuWeights { gpu, quantise };
                let weights = reading::read(&plan, checkpoint, source, &keep, progress);
                let tried = try_kernels(gpu, &plan, config, context, quantise);
                let ((), weights) = both(tried, weights).await?;
                Decoder::Gpu(Box::new(GpuDecoder::new(weights, config, context, gpu)?))
            }
        };
        Ok(Self {
            about,
            decoder,
            host: Host::default(),
            long: false,
        })
    }

    /// What the model is.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Whether a text of `length` tokens needs other rotary frequencies than those in use: KV rows
    /// there are would have to be computed anew.
    pub fn turns_otherwise(&self, length: usize) -> bool {
        let switch = self.about.config.rope_switches_at();
        switch.is_some_and(|last| (length > last) != self.long)
    }

    /// Whether a text that grows to `length` tokens needs the long frequencies, and the short ones
    /// are in use.
    pub fn stretches(&self, length: usize) -> bool {
        !self.long && self.turns_otherwise(length)
    }

    /// Takes the rotary frequencies for texts of `length` tokens; KV rows there are hold others.
    ///
    /// # Errors
    /// The GPU's.
    pub fn turn_for(&mut self, length: usize) -> Result<(), ModelError> {
        if self.turns_otherwise(length) {
            let long = !self.long;
            match &mut self.decoder {
                Decoder::Cpu(decoder) => decoder.set_ropes(long),
                #[cfg(not(target_family = "wasm"))]
                Decoder::Burn(decoder) => decoder.set_ropes(long),
                Decoder::Gpu(decoder) => decoder.set_ropes(long)?,
            }
            self.long = long;
        }
        Ok(())
    }

    /// Runs a pass: its KV rows are written, and the states of its tokens lie in the slots from
    /// `slot` on.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], [`ModelError::InLine`], [`ModelError::Token`], or the GPU's.
    pub fn run(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError> {
        pass.check(self.about.config.vocabulary, self.about.context)?;
        check_slots(slot, pass.len())?;
        self.host.ran(slot, pass.len());
        match &mut self.decoder {
            Decoder::Cpu(decoder) => decoder.run(pass),
            #[cfg(not(target_family = "wasm"))]
            Decoder::Burn(decoder) => {
                decoder.run(pass);
                Ok(())
            }
            Decoder::Gpu(decoder) => decoder.run(pass, slot),
        }
    }

    /// Draws `steps` tokens behind the prefix without a word from the CPU, where the backend can:
    /// at most [`MOST_DRAFTED`] with the numbers `random`. The states of all but the last lie in
    /// the slots from [`DRAFT`] on.
    ///
    /// # Errors
    /// [`ModelError::NotFinite`], or the GPU's.
    pub async fn draft(
        &mut self,
        prefix: usize,
        steps: usize,
        draws: Draws,
        random: &[u32],
    ) -> Result<Option<Vec<u32>>, ModelError> {
        match &mut self.decoder {
            Decoder::Gpu(decoder) if steps <= MOST_DRAFTED => {
                decoder.draft(prefix, steps, draws, random).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Makes the state in `slot` that of the prefix's last token.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub async fn keep_state(&mut self, slot: usize) -> Result<(), ModelError> {
        if let Decoder::Gpu(decoder) = &mut self.decoder {
            return decoder.keep_state(slot);
        }
        let logits = self.logits(&[slot]).await?.pop().unwrap_or_default();
        self.host.keep(PREFIX, logits);
        Ok(())
    }

    /// Logits `[slots][vocabulary]` after the tokens in these slots.
    ///
    /// # Errors
    /// [`ModelError::Order`] for a slot without a state, or the backend's.
    pub async fn logits(&mut self, slots: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        slots.iter().try_for_each(|&slot| check_slots(slot, 1))?;
        if let Decoder::Gpu(decoder) = &self.decoder {
            return decoder.logits(slots).await;
        }
        let rows = self.host.rows(slots)?;
        let computed = match &mut self.decoder {
            _ if rows.is_empty() => Vec::new(),
            Decoder::Cpu(decoder) => decoder.logits(&rows)?,
            #[cfg(not(target_family = "wasm"))]
            Decoder::Burn(decoder) => decoder.logits(&rows).await?,
            Decoder::Gpu(_) => Vec::new(),
        };
        self.host.join(slots, computed)
    }

    /// Scores of `targets[i]` under the logits after the token in `slots[i]`; the whole output matrix
    /// is run for `logprobs` only.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub async fn scores(
        &mut self,
        slots: &[usize],
        targets: &[u32],
        logprobs: bool,
    ) -> Result<Vec<TargetScore>, ModelError> {
        slots.iter().try_for_each(|&slot| check_slots(slot, 1))?;
        if let Decoder::Gpu(decoder) = &self.decoder {
            return decoder.scores(slots, targets, logprobs).await;
        }
        let rows = self.host.rows(slots)?;
        let wanted = self.host.targets(slots, targets);
        let computed = match &mut self.decoder {
            _ if rows.is_empty() => Vec::new(),
            Decoder::Cpu(decoder) => decoder.scores(&rows, &wanted, logprobs)?,
            #[cfg(not(target_family = "wasm"))]
            Decoder::Burn(decoder) => decoder.scores(&rows, &wanted, logprobs).await?,
            Decoder::Gpu(_) => Vec::new(),
        };
        self.host.judge(slots, targets, computed, logprobs)
    }

    /// Tokens of a prompt to run in one step.
    pub fn prefill_chunk(&self) -> usize {
        match &self.decoder {
            Decoder::Gpu(_) => gpu_chunk(self.about.parameters, self.about.config.layers.len()),
            _ => CPU_CHUNK,
        }
    }

    /// Waits until everything has run; what went wrong since the last wait is its error.
    ///
    /// # Errors
    /// The GPU's.
    pub async fn settle(&self) -> Result<(), ModelError> {
        match &self.decoder {
            Decoder::Gpu(decoder) => decoder.settle().await,
            _ => Ok(()),
        }
    }

    /// Moves KV rows `from .. from + count` to `to ..`, `to <= from`.
    ///
    /// # Errors
    /// The GPU's.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) -> Result<(), ModelError> {
        if from == to {
            return Ok(());
        }
        match &mut self.decoder {
            Decoder::Cpu(decoder) => {
                decoder.move_rows(from, to, count);
                Ok(())
            }
            #[cfg(not(target_family = "wasm"))]
            Decoder::Burn(decoder) => {
                decoder.move_rows(from, to, count);
                Ok(())
            }
            Decoder::Gpu(decoder) => decoder.move_rows(from, to, count),
        }
    }

    /// Frees the KV cache.
    pub fn release(&mut self) {
        self.host = Host::default();
        match &mut self.decoder {
            Decoder::Cpu(decoder) => decoder.release(),
            #[cfg(not(target_family = "wasm"))]
            Decoder::Burn(decoder) => decoder.release(),
            Decoder::Gpu(decoder) => decoder.release(),
        }
    }
}

/// Builds the kernels that a model launches and tries them against their twins.
async fn try_kernels(
    gpu: &Gpu,
    plan: &Plan,
    config: &Config,
    context: usize,
    quantise: Option<Format>,
) -> Result<(), ModelError> {
    match launched(plan, config, context, quantise) {
        Some(kernels) => {
            gpu.self_test(&kernels).await?;
            // What the default rule judges by: the first answer waits for no kernel.
            Ok(gpu.self_test_scores(kernels.head).await?)
        }
        // The read ends in an error that says which matrix it is.
        None => Ok(()),
    }
}

/// Reads what a model is from its header alone.
///
/// # Errors
/// [`ModelError`] for an unknown architecture or an unsound header.
pub fn about(checkpoint: &Checkpoint, options: LoadOptions) -> Result<About, ModelError> {
    describe(checkpoint, options).map(|(about, _)| about)
}

/// What a model is, and which tensors make its weights.
fn describe(checkpoint: &Checkpoint, options: LoadOptions) -> Result<(About, Plan), ModelError> {
    let quantise = options.quantise;
    if let Some(format) = quantise.filter(|to| !matches!(to, Format::Q8_0 | Format::Q4_0)) {
        let format = format.name();
        return Err(ModelError::Quantise { format });
    }
    let family = Family::of(checkpoint)?;
    let gguf = matches!(checkpoint.description(), Description::Gguf(_));
    let keys = Keys::of(checkpoint, family.gguf, family.defaults)?;
    if let Description::HuggingFace(folder) = checkpoint.description()
        && let Some(quantised) = folder.config.get("quantization_config")
        && !quantised.is_null()
    {
        let method = quantised.get("quant_method").and_then(|name| name.as_str());
        let method = method.unwrap_or("an unnamed method");
        return Err(ModelError::Quantised {
            method: method.chars().take(64).collect(),
        });
    }
    let (_, vocabulary) = embedding(checkpoint, gguf)?;
    let config = Config::read(&keys, family, vocabulary)?;
    let plan = plan(checkpoint, family, &config, gguf)?;

    let context = options.context.clamp(1, config.context);
    let formats = kept(&plan, quantise);
    let vectors = plan.vectors().map(|part| part.numbers.len() as u64);
    let matrices = plan.matrices().map(|part| {
        let rows = part.rows.end - part.rows.start;
        rows * part.cols as u64
    });
    let read = plan.vectors().map(|part| {
        let whole = part.numbers.len() as u64;
        whole.saturating_mul(part.tensor.bytes) / part.tensor.cols().max(1)
    });
    let most = formats.iter().max_by_key(|kept| kept.bytes);
    let about = About {
        parameters: vectors.chain(matrices).sum(),
        bytes: read.chain(formats.iter().map(|kept| kept.bytes)).sum(),
        quantisation: most.map(|kept| kept.stored.to_owned()).unwrap_or_default(),
        memory: Memory::of_plan(&plan, &config, context, quantise),
        not_on_gpu: check_heads(&config).err().map(|error| error.to_string()),
        formats,
        context,
        config,
    };
    Ok((about, plan))
}

/// What becomes of a plan's matrices on a GPU.
fn kept(plan: &Plan, quantise: Option<Format>) -> Vec<Kept> {
    let mut all: Vec<Kept> = Vec::new();
    for part in plan.matrices() {
        let stored = part.tensor.format;
        let on_gpu = on_gpu(stored, part.cols, quantise);
        let kept = on_gpu.map(|(format, _)| format.name());
        let rows = part.rows.end - part.rows.start;
        let bytes = part.tensor.bytes / part.tensor.rows().max(1) * rows;
        let same = |k: &&mut Kept| k.stored == stored.name() && k.kept == kept;
        match all.iter_mut().find(same) {
            Some(k) => {
                k.matrices += 1;
                k.bytes += bytes;
            }
            None => all.push(Kept {
                stored: stored.name(),
                kept,
                of_kernels: on_gpu.map(|(_, format)| format),
                matrices: 1,
                bytes,
            }),
        }
    }
    all
}
