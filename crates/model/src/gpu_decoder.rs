//! The decoder as launches of our WGSL kernels on burn's own wgpu client.
//!
//! Weights stay quantised on the GPU; activations and the KV cache are f32.
//! Launches only queue work: the CPU waits where logits or scores are read.

use std::borrow::Cow;

use conclave_kernels::{
    Activation as GpuActivation, AttentionShape, Buffer, Format as GpuFormat, Gpu, Matrix, Pairs,
    Plus, RopeShape, embed, gated, gather_rows, matmul, move_rows, rms_norm, rope_append,
    rope_table, score, verify_attention,
};
use conclave_weights::{Format, convert};

use crate::config::{Activation, Config};
use crate::error::ModelError;
use crate::load::{WeightSource, wrong};
use crate::pass::{Pass, TargetScore, rows_of};
use crate::rope::frequencies;

/// Bytes of logits held at once; more rows are taken in turns.
const LOGITS_BYTES: usize = 64 << 20;

/// A product's weight and, where the file has one, its bias.
#[derive(Debug)]
struct Linear {
    weight: Matrix,
    bias: Option<Buffer>,
}

#[derive(Debug)]
struct Block {
    attention_norm: Buffer,
    query: Linear,
    key: Linear,
    value: Linear,
    query_norm: Option<Buffer>,
    key_norm: Option<Buffer>,
    output: Linear,
    feed_forward_norm: Buffer,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// Keys and values of one block, each `[rows, kv_heads, head_dim]`.
#[derive(Debug)]
struct Cache {
    keys: Buffer,
    values: Buffer,
}

/// The final normed hidden states of a pass.
#[derive(Debug)]
struct Hidden {
    /// `[tokens, hidden]`.
    states: Buffer,
    tokens: usize,
}

/// A transformer with its KV cache on the GPU.
#[derive(Debug)]
pub struct GpuDecoder {
    gpu: Gpu,
    config: Config,
    context: usize,
    embedding: Matrix,
    blocks: Vec<Block>,
    norm: Buffer,
    /// `None` where the embedding is tied to it.
    head: Option<Linear>,
    rope: Buffer,
    /// Empty while released.
    caches: Vec<Cache>,
    hidden: Option<Hidden>,
}

impl GpuDecoder {
    /// Uploads every weight as it is stored.
    ///
    /// # Errors
    /// [`ModelError::Tensor`] for a missing tensor or one of another shape,
    /// [`ModelError::Gpu`] where the memory does not suffice.
    pub fn load(
        source: &WeightSource<'_>,
        config: &Config,
        context: usize,
        gpu: &Gpu,
    ) -> Result<Self, ModelError> {
        let loader = Loader {
            source,
            config,
            gpu,
        };
        let table = rope_table(
            context,
            &frequencies(config, source.rope_factors(config)?.as_deref()),
            1.0,
        );
        Ok(Self {
            embedding: loader.matrix("token_embd.weight", config.vocabulary, config.hidden)?,
            blocks: (0..config.layers)
                .map(|layer| loader.block(layer))
                .collect::<Result<_, _>>()?,
            norm: loader.norm("output_norm.weight", config.hidden)?,
            head: if source.has("output.weight") {
                Some(loader.linear("output", config.vocabulary, config.hidden)?)
            } else {
                None
            },
            rope: loader.buffer(&table)?,
            caches: Vec::new(),
            hidden: None,
            gpu: gpu.clone(),
            config: config.clone(),
            context,
        })
    }

    /// Queues a pass: writes its KV rows and leaves its hidden states for
    /// [`logits`](Self::logits) and [`scores`](Self::scores).
    ///
    /// # Errors
    /// [`ModelError::Gpu`] if the device is lost or out of memory.
    pub fn run(&mut self, pass: &Pass) -> Result<(), ModelError> {
        self.hidden = None;
        self.reserve()?;
        let gpu = &self.gpu;
        let c = &self.config;
        let tokens = pass.len();
        let floats = |width: usize| gpu.empty(4 * tokens * width);

        let ids = gpu.upload(&pass.tokens)?;
        let places = gpu.upload(&pass.places)?;
        let (x, normed) = (floats(c.hidden)?, floats(c.hidden)?);
        let (query, attended) = (floats(c.query_width())?, floats(c.query_width())?);
        let (key, value) = (floats(c.kv_width())?, floats(c.kv_width())?);
        let (gate, up) = (floats(c.feed_forward)?, floats(c.feed_forward)?);
        let active = floats(c.feed_forward)?;
        let rope = RopeShape {
            tokens,
            heads: c.heads,
            kv_heads: c.kv_heads,
            width: c.head_dim,
            rotary: c.rotary_dim,
            capacity: rows_of(self.context),
            context: self.context,
            pairs: Pairs::Halves,
        };
        let attention = AttentionShape {
            tokens,
            heads: c.heads,
            kv_heads: c.kv_heads,
            width: c.head_dim,
            capacity: rows_of(self.context),
            scale: c.attention_scale,
            window: None,
            softcap: None,
        };
        let activation = match c.activation {
            Activation::Silu => GpuActivation::Silu,
            Activation::Gelu => GpuActivation::Gelu,
        };
        let norm = |x: &Buffer, weight: &Buffer, rows, width, out: &Buffer| {
            rms_norm(gpu, x, weight, c.norm_epsilon, [rows, width], out)
        };
        let product = |x: &Buffer, linear: &Linear, residual, out: &Buffer| {
            let bias = linear.bias.as_ref();
            matmul(gpu, x, tokens, &linear.weight, Plus { bias, residual }, out)
        };

        embed(gpu, &ids, tokens, &self.embedding, c.embedding_scale, &x)?;
        for (block, cache) in self.blocks.iter().zip(&self.caches) {
            norm(&x, &block.attention_norm, tokens, c.hidden, &normed)?;
            product(&normed, &block.query, None, &query)?;
            product(&normed, &block.key, None, &key)?;
            product(&normed, &block.value, None, &value)?;
            let query = match &block.query_norm {
                Some(weight) => {
                    let out = floats(c.query_width())?;
                    norm(&query, weight, tokens * c.heads, c.head_dim, &out)?;
                    out
                }
                None => query.clone(),
            };
            let key = match &block.key_norm {
                Some(weight) => {
                    let out = floats(c.kv_width())?;
                    norm(&key, weight, tokens * c.kv_heads, c.head_dim, &out)?;
                    out
                }
                None => key.clone(),
            };
            let Cache { keys, values } = cache;
            rope_append(
                gpu, &query, &key, &value, keys, values, &places, &self.rope, rope,
            )?;
            verify_attention(gpu, &query, keys, values, &places, attention, &attended)?;
            product(&attended, &block.output, Some(&x), &x)?;

            norm(&x, &block.feed_forward_norm, tokens, c.hidden, &normed)?;
            product(&normed, &block.gate, None, &gate)?;
            product(&normed, &block.up, None, &up)?;
            gated(
                gpu,
                &gate,
                &up,
                activation,
                tokens * c.feed_forward,
                &active,
            )?;
            product(&active, &block.down, Some(&x), &x)?;
        }
        norm(&x, &self.norm, tokens, c.hidden, &normed)?;
        self.hidden = Some(Hidden {
            states: normed,
            tokens,
        });
        Ok(())
    }

    /// Logits `[rows][vocabulary]` after the given tokens of the last pass.
    ///
    /// # Errors
    /// [`ModelError::Order`] without a pass, [`ModelError::Gpu`] if anything since failed.
    pub async fn logits(&self, rows: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut all = Vec::with_capacity(rows.len());
        for rows in rows.chunks(self.rows_at_once()) {
            let logits = self.queue_logits(rows)?;
            let read = self.gpu.read_f32(&[&logits]).await?;
            let flat = read.into_iter().next().unwrap_or_default();
            all.extend(flat.chunks(self.config.vocabulary).map(<[f32]>::to_vec));
        }
        Ok(all)
    }

    /// Scores of `targets[i]` under the logits after token `rows[i]` of the
    /// last pass. The logits themselves stay on the GPU.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub async fn scores(
        &self,
        rows: &[usize],
        targets: &[u32],
    ) -> Result<Vec<TargetScore>, ModelError> {
        let at_once = self.rows_at_once();
        let mut outs = Vec::new();
        for (rows, targets) in rows.chunks(at_once).zip(targets.chunks(at_once)) {
            let logits = self.queue_logits(rows)?;
            let out = self.gpu.empty(8 * rows.len())?;
            let targets = self.gpu.upload(targets)?;
            score(
                &self.gpu,
                &logits,
                &targets,
                [rows.len(), self.config.vocabulary],
                None,
                &out,
            )?;
            outs.push(out);
        }
        let read = self.gpu.read_f32(&outs.iter().collect::<Vec<_>>()).await?;
        Ok(read
            .iter()
            .flat_map(|out| out.chunks_exact(2))
            .map(|pair| TargetScore {
                logit: pair[0],
                log_sum_exp: pair[1],
            })
            .collect())
    }

    /// Moves KV rows `from .. from + count` to `to ..`, `to <= from`.
    ///
    /// # Errors
    /// [`ModelError::Gpu`].
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) -> Result<(), ModelError> {
        for Cache { keys, values } in &self.caches {
            let width = self.config.kv_width();
            move_rows(&self.gpu, keys, values, width, from..from + count, to)?;
        }
        Ok(())
    }

    /// Frees the KV cache; the next pass makes it anew.
    pub fn release(&mut self) {
        self.caches.clear();
        self.hidden = None;
    }

    /// Allocates the KV cache once, for the whole context.
    fn reserve(&mut self) -> Result<(), ModelError> {
        let bytes = 4 * rows_of(self.context) * self.config.kv_width();
        while self.caches.len() < self.config.layers {
            let keys = self.gpu.allocate(bytes)?;
            let values = self.gpu.allocate(bytes)?;
            self.caches.push(Cache { keys, values });
        }
        Ok(())
    }

    fn rows_at_once(&self) -> usize {
        (LOGITS_BYTES / (4 * self.config.vocabulary)).max(1)
    }

    /// Queues the output product for some rows of the last pass: `[rows, vocabulary]`.
    fn queue_logits(&self, rows: &[usize]) -> Result<Buffer, ModelError> {
        let hidden = self.hidden.as_ref().ok_or(ModelError::Order(
            "no pass has run whose logits could be read",
        ))?;
        let gpu = &self.gpu;
        let width = self.config.hidden;
        let picked: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        let picked = gpu.upload(&picked)?;
        let states = gpu.empty(4 * rows.len() * width)?;
        gather_rows(
            gpu,
            &hidden.states,
            [hidden.tokens, width],
            &picked,
            rows.len(),
            &states,
        )?;
        let logits = gpu.empty(4 * rows.len() * self.config.vocabulary)?;
        let (weight, bias) = match &self.head {
            Some(head) => (&head.weight, head.bias.as_ref()),
            None => (&self.embedding, None),
        };
        let plus = Plus {
            bias,
            residual: None,
        };
        matmul(gpu, &states, rows.len(), weight, plus, &logits)?;
        Ok(logits)
    }
}

/// Uploads a file's tensors.
struct Loader<'a> {
    source: &'a WeightSource<'a>,
    config: &'a Config,
    gpu: &'a Gpu,
}

impl Loader<'_> {
    fn buffer(&self, values: &[f32]) -> Result<Buffer, ModelError> {
        Ok(self.gpu.keep(bytemuck::cast_slice(values).to_vec())?)
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        let (stored, blocks) = self.source.blocks(name, rows, columns)?;
        let (format, on_gpu) = match stored.on_gpu() {
            Format::F32 => (Format::F32, GpuFormat::F32),
            Format::F16 => (Format::F16, GpuFormat::F16),
            Format::Q4_0 => (Format::Q4_0, GpuFormat::Q4_0),
            _ => (Format::Q8_0, GpuFormat::Q8_0),
        };
        let blocks = if stored == format {
            blocks
        } else {
            let mut converted = Vec::new();
            convert(stored, &blocks, format, &mut converted)
                .map_err(|error| wrong(name, &error.to_string()))?;
            Cow::Owned(converted)
        };
        Ok(Matrix::upload(self.gpu, on_gpu, rows, columns, &blocks)?)
    }

    /// `name.weight` `[outputs, inputs]`, and `name.bias` where the file has one.
    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear, ModelError> {
        let bias = format!("{name}.bias");
        Ok(Linear {
            weight: self.matrix(&format!("{name}.weight"), outputs, inputs)?,
            bias: if self.source.has(&bias) {
                Some(self.buffer(&self.source.values(&bias, 1, outputs)?)?)
            } else {
                None
            },
        })
    }

    fn norm(&self, name: &str, width: usize) -> Result<Buffer, ModelError> {
        let mut weight = self.source.values(name, 1, width)?;
        weight
            .iter_mut()
            .for_each(|w| *w += self.config.norm_offset);
        self.buffer(&weight)
    }

    fn optional_norm(&self, name: &str, width: usize) -> Result<Option<Buffer>, ModelError> {
        if self.source.has(name) {
            self.norm(name, width).map(Some)
        } else {
            Ok(None)
        }
    }

    fn block(&self, layer: usize) -> Result<Block, ModelError> {
        let c = self.config;
        let name = |part: &str| format!("blk.{layer}.{part}");
        Ok(Block {
            attention_norm: self.norm(&name("attn_norm.weight"), c.hidden)?,
            query: self.linear(&name("attn_q"), c.query_width(), c.hidden)?,
            key: self.linear(&name("attn_k"), c.kv_width(), c.hidden)?,
            value: self.linear(&name("attn_v"), c.kv_width(), c.hidden)?,
            query_norm: self.optional_norm(&name("attn_q_norm.weight"), c.head_dim)?,
            key_norm: self.optional_norm(&name("attn_k_norm.weight"), c.head_dim)?,
            output: self.linear(&name("attn_output"), c.hidden, c.query_width())?,
            feed_forward_norm: self.norm(&name("ffn_norm.weight"), c.hidden)?,
            gate: self.linear(&name("ffn_gate"), c.feed_forward, c.hidden)?,
            up: self.linear(&name("ffn_up"), c.feed_forward, c.hidden)?,
            down: self.linear(&name("ffn_down"), c.hidden, c.feed_forward)?,
        })
    }
}
