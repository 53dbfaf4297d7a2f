//! From a GGUF file to a model that runs: which tensors, in which order of rows.

use std::borrow::Cow;

use burn::tensor::Device;
use conclave_kernels::Gpu;
use conclave_weights::{Format, Gguf, dequantise};
use serde::Serialize;

use crate::burn_decoder::BurnDecoder;
use crate::config::Config;
use crate::error::ModelError;
use crate::family::Family;
use crate::gpu_decoder::GpuDecoder;
use crate::pass::{Pass, TargetScore};

/// Where a model runs.
#[derive(Debug, Clone)]
pub enum Backend {
    /// burn tensor operations on any burn device.
    Burn(Device),
    /// Our WGSL kernels on burn's wgpu client.
    Gpu(Gpu),
}

impl Backend {
    /// burn's `flex` backend: the CPU, everywhere.
    pub fn cpu() -> Self {
        Self::Burn(Device::flex())
    }
}

/// What a model is, for people.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    /// The configuration.
    pub config: Config,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of all tensors in the file.
    pub bytes: u64,
    /// The format most bytes are in, such as `Q8_0`.
    pub quantisation: String,
    /// Tokens of context the model was loaded with.
    pub context: usize,
}

/// A model on its backend, with its KV cache.
#[derive(Debug)]
pub struct Model {
    about: About,
    decoder: Decoder,
}

#[derive(Debug)]
enum Decoder {
    Burn(Box<BurnDecoder>),
    Gpu(Box<GpuDecoder>),
}

impl Model {
    /// Loads the model whose header is `gguf` and whose whole file is `file`.
    /// The context is `context` tokens, or the model's own if that is shorter.
    ///
    /// # Errors
    /// [`ModelError`] for an unknown architecture, a damaged file, or a GPU
    /// without the memory.
    pub fn load(
        gguf: &Gguf,
        file: &[u8],
        backend: &Backend,
        context: usize,
    ) -> Result<Self, ModelError> {
        let about = about(gguf, context)?;
        gguf.check_length(file.len() as u64)?;
        let source = WeightSource::new(gguf, file, &about.config)?;
        let decoder = match backend {
            Backend::Burn(device) => Decoder::Burn(Box::new(BurnDecoder::load(
                &source,
                &about.config,
                about.context,
                device,
            )?)),
            Backend::Gpu(gpu) => Decoder::Gpu(Box::new(GpuDecoder::load(
                &source,
                &about.config,
                about.context,
                gpu,
            )?)),
        };
        Ok(Self { about, decoder })
    }

    /// What the model is.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Runs a pass: its KV rows are written, its logits can be read.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], [`ModelError::InLine`], [`ModelError::Token`], or the GPU's.
    pub fn run(&mut self, pass: &Pass) -> Result<(), ModelError> {
        pass.check(self.about.config.vocabulary, self.about.context)?;
        match &mut self.decoder {
            Decoder::Burn(decoder) => {
                decoder.run(pass);
                Ok(())
            }
            Decoder::Gpu(decoder) => decoder.run(pass),
        }
    }

    /// Logits `[rows][vocabulary]` after the given tokens of the last pass.
    ///
    /// # Errors
    /// [`ModelError::Order`] without a pass, or the backend's.
    pub async fn logits(&mut self, rows: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        match &mut self.decoder {
            Decoder::Burn(decoder) => decoder.logits(rows).await,
            Decoder::Gpu(decoder) => decoder.logits(rows).await,
        }
    }

    /// Scores of `targets[i]` under the logits after token `rows[i]` of the last pass.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub async fn scores(
        &mut self,
        rows: &[usize],
        targets: &[u32],
    ) -> Result<Vec<TargetScore>, ModelError> {
        match &mut self.decoder {
            Decoder::Burn(decoder) => decoder.scores(rows, targets).await,
            Decoder::Gpu(decoder) => decoder.scores(rows, targets).await,
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
            Decoder::Burn(decoder) => {
                decoder.move_rows(from, to, count);
                Ok(())
            }
            Decoder::Gpu(decoder) => decoder.move_rows(from, to, count),
        }
    }

    /// Frees the KV cache.
    pub fn release(&mut self) {
        match &mut self.decoder {
            Decoder::Burn(decoder) => decoder.release(),
            Decoder::Gpu(decoder) => decoder.release(),
        }
    }
}

/// Reads what a model is from its header alone.
///
/// # Errors
/// [`ModelError`] for an unknown architecture or an unsound header.
pub fn about(gguf: &Gguf, context: usize) -> Result<About, ModelError> {
    let family = Family::named(gguf.metadata().str("general.architecture")?)?;
    let embedding = gguf.tensor("token_embd.weight")?;
    let vocabulary = usize::try_from(embedding.rows())
        .ok()
        .filter(|&rows| rows <= 1 << 20);
    let vocabulary = vocabulary.ok_or_else(|| wrong(&embedding.name, "has too many rows"))?;
    let config = Config::from_gguf(gguf.metadata(), family, vocabulary)?;
    let bytes_in = |format| -> u64 {
        let tensors = gguf.tensors().iter().filter(|t| t.format == format);
        tensors.map(|t| t.bytes).sum()
    };
    let most = Format::ALL
        .into_iter()
        .max_by_key(|&format| bytes_in(format));
    Ok(About {
        context: context.clamp(1, config.context),
        parameters: gguf.tensors().iter().map(|t| t.elements()).sum(),
        bytes: gguf.tensors().iter().map(|t| t.bytes).sum(),
        quantisation: most
            .map(|format| format.name().to_owned())
            .unwrap_or_default(),
        config,
    })
}

/// The tensors of a file, with rows in the decoder's order.
#[derive(Debug)]
pub struct WeightSource<'a> {
    gguf: &'a Gguf,
    file: &'a [u8],
    /// `(head_dim, rotary_dim)` where query and key rows are stored for
    /// rotation of neighbouring pairs.
    interleaved: Option<(usize, usize)>,
}

impl<'a> WeightSource<'a> {
    fn new(gguf: &'a Gguf, file: &'a [u8], config: &Config) -> Result<Self, ModelError> {
        let family = Family::named(&config.architecture)?;
        Ok(Self {
            gguf,
            file,
            interleaved: family
                .interleaved_rope
                .then_some((config.head_dim, config.rotary_dim)),
        })
    }

    /// Whether the file has the tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.gguf.find(name).is_some()
    }

    /// The tensor `name` as it is stored, checked to be `[rows, columns]`.
    ///
    /// # Errors
    /// [`ModelError::File`] where it is missing, [`ModelError::Tensor`] where
    /// it has another shape.
    pub fn blocks(
        &self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> Result<(Format, Cow<'a, [u8]>), ModelError> {
        let tensor = self.gguf.tensor(name)?;
        if tensor.rows() != rows as u64 || tensor.cols() != columns as u64 {
            return Err(wrong(
                name,
                &format!(
                    "has {} rows of {} numbers where {rows} of {columns} belong",
                    tensor.rows(),
                    tensor.cols()
                ),
            ));
        }
        let bytes = self.gguf.data_of(tensor, self.file)?;
        let rotates = name.contains(".attn_q.") || name.contains(".attn_k.");
        Ok(match self.interleaved {
            Some((head_dim, rotary_dim)) if rotates => {
                // A bias is one row in the file, but one number for each of its outputs.
                let units = if rows == 1 { columns } else { rows };
                let halves = rotate_halves(bytes, bytes.len() / units, head_dim, rotary_dim);
                (tensor.format, Cow::Owned(halves))
            }
            _ => (tensor.format, Cow::Borrowed(bytes)),
        })
    }

    /// The tensor `name` dequantised, `[rows, columns]`.
    ///
    /// # Errors
    /// As [`blocks`](Self::blocks).
    pub fn values(&self, name: &str, rows: usize, columns: usize) -> Result<Vec<f32>, ModelError> {
        let (format, bytes) = self.blocks(name, rows, columns)?;
        let mut values = vec![0.0; rows * columns];
        dequantise(format, &bytes, &mut values).map_err(|error| wrong(name, &error.to_string()))?;
        Ok(values)
    }

    /// The factors of llama3-style rope scaling, `[rotary_dim / 2]`, where the file has them.
    ///
    /// # Errors
    /// [`ModelError::Tensor`] for another shape.
    pub fn rope_factors(&self, config: &Config) -> Result<Option<Vec<f32>>, ModelError> {
        let name = "rope_freqs.weight";
        if self.has(name) {
            self.values(name, 1, config.rotary_dim / 2).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Reorders the rotating rows of each head from pairs (2i, 2i + 1) to halves
/// (i, i + rotary_dim / 2): the inverse of the permutation llama.cpp's
/// converter applies to the llama family.
fn rotate_halves(bytes: &[u8], unit: usize, head_dim: usize, rotary_dim: usize) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let heads = bytes
        .chunks_exact(head_dim * unit)
        .zip(out.chunks_exact_mut(head_dim * unit));
    for (stored, head) in heads {
        for (row, place) in head.chunks_exact_mut(unit).take(rotary_dim).enumerate() {
            let half = rotary_dim / 2;
            let from = 2 * (row % half) + row / half;
            place.copy_from_slice(&stored[from * unit..][..unit]);
        }
    }
    out
}

pub(crate) fn wrong(name: &str, problem: &str) -> ModelError {
    ModelError::Tensor {
        name: name.to_owned(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::rotate_halves;

    #[test]
    fn pairs_become_halves_within_each_head() {
        // Two heads of four rows, one byte a row: stored (a0 b0 a1 b1).
        let stored = [0, 10, 1, 11, 100, 110, 101, 111];
        assert_eq!(
            rotate_halves(&stored, 1, 4, 4),
            [0, 1, 10, 11, 100, 101, 110, 111]
        );
        // Only the first two rows of each head rotate: they are in order already.
        assert_eq!(rotate_halves(&stored, 1, 4, 2), stored);
    }
}
