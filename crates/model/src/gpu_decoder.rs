//! The decoder as launches of our WGSL kernels on wgpu.
//!
//! Weights stay quantised on the GPU; activations and the KV cache are f32.
//! Launches only queue work: the CPU waits where logits or scores are read.

use conclave_kernels::{
    Activation as GpuActivation, AttentionShape, Buffer, Gpu, Matrix, MatrixUpload, Pairs, Plus,
    RopeShape, add, embed, gated, gather_rows, matmul, move_rows, rms_norm, rope_append, score,
    verify_attention,
};
use conclave_weights::Format;

use crate::config::{Activation, Config, Layer, QkNorm};
use crate::error::ModelError;
use crate::formats::{of_kernels, on_gpu};
use crate::pass::{Pass, TargetScore, rows_of};
use crate::reading::Keep;
use crate::weights::{Block, Linear, Weights};

/// Bytes of logits held at once; more rows are taken in turns.
pub(crate) const LOGITS_BYTES: usize = 64 << 20;

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

/// Activations of one pass.
struct Scratch {
    /// The residual stream, and its place after a sum.
    stream: [Buffer; 2],
    normed: Buffer,
    query: Buffer,
    key: Buffer,
    value: Buffer,
    attended: Buffer,
    gate: Buffer,
    up: Buffer,
    active: Buffer,
}

/// A transformer with its KV cache on the GPU.
#[derive(Debug)]
pub struct GpuDecoder {
    gpu: Gpu,
    config: Config,
    context: usize,
    weights: Weights<Matrix, Buffer>,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    ropes: Vec<Buffer>,
    /// Empty while released.
    caches: Vec<Cache>,
    hidden: Option<Hidden>,
}

impl GpuDecoder {
    /// A decoder with an empty KV cache.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] where the memory does not suffice.
    pub fn new(
        weights: Weights<Matrix, Buffer>,
        config: &Config,
        context: usize,
        gpu: &Gpu,
    ) -> Result<Self, ModelError> {
        let mut decoder = Self {
            gpu: gpu.clone(),
            config: config.clone(),
            context,
            weights,
            ropes: Vec::new(),
            caches: Vec::new(),
            hidden: None,
        };
        decoder.set_ropes(false)?;
        Ok(decoder)
    }

    /// Takes the short or the long frequencies, where a rotary embedding has both.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] where the memory does not suffice.
    pub fn set_ropes(&mut self, long: bool) -> Result<(), ModelError> {
        self.ropes.clear();
        for rope in &self.config.ropes {
            let table = rope.table(self.context, long);
            let table = bytemuck::cast_slice(&table).to_vec();
            self.ropes.push(self.gpu.keep(table)?);
        }
        Ok(())
    }

    /// Queues a pass: writes its KV rows and leaves its hidden states for
    /// [`logits`](Self::logits) and [`scores`](Self::scores).
    ///
    /// # Errors
    /// [`ModelError::Gpu`] if the device is lost or out of memory.
    pub fn run(&mut self, pass: &Pass) -> Result<(), ModelError> {
        self.hidden = None;
        self.reserve()?;
        let (gpu, c, tokens) = (&self.gpu, &self.config, pass.len());
        let ids = gpu.upload(&pass.tokens)?;
        let places = gpu.upload(&pass.places)?;
        let mut scratch = self.scratch(tokens)?;
        let factor = c.stream_scale();
        let embedding = &self.weights.embedding;
        embed(gpu, &ids, tokens, embedding, factor, &scratch.stream[0])?;
        let blocks = self.weights.blocks.iter().zip(&self.caches);
        for ((block, cache), layer) in blocks.zip(&c.layers) {
            self.attend(block, cache, layer, tokens, &places, &scratch)?;
            let (attended, norm) = (scratch.attended.clone(), &block.attention_post_norm);
            self.add_product(&attended, &block.output, norm, tokens, &mut scratch)?;
            self.gate(block, tokens, &scratch)?;
            let (active, norm) = (scratch.active.clone(), &block.feed_forward_post_norm);
            self.add_product(&active, &block.down, norm, tokens, &mut scratch)?;
        }
        let Scratch {
            stream: [x, _],
            normed,
            ..
        } = scratch;
        let size = [tokens, c.hidden];
        let epsilon = c.stream_epsilon();
        rms_norm(gpu, &x, &self.weights.norm, epsilon, size, &normed)?;
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
            let mut flat = read.into_iter().next().unwrap_or_default();
            if let Some(cap) = self.config.logit_softcap {
                flat.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
            }
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
                self.config.logit_softcap,
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

    /// Room for the activations of `tokens` tokens.
    fn scratch(&self, tokens: usize) -> Result<Scratch, ModelError> {
        let c = &self.config;
        let floats = |width: usize| self.gpu.empty(4 * tokens * width);
        Ok(Scratch {
            stream: [floats(c.hidden)?, floats(c.hidden)?],
            normed: floats(c.hidden)?,
            query: floats(c.query_width())?,
            key: floats(c.kv_width())?,
            value: floats(c.kv_width())?,
            attended: floats(c.query_width())?,
            gate: floats(c.feed_forward)?,
            up: floats(c.feed_forward)?,
            active: floats(c.feed_forward)?,
        })
    }

    /// Attention of one block up to its output product, into `scratch.attended`.
    fn attend(
        &self,
        block: &Block<Matrix, Buffer>,
        cache: &Cache,
        layer: &Layer,
        tokens: usize,
        places: &Buffer,
        scratch: &Scratch,
    ) -> Result<(), ModelError> {
        let (gpu, c) = (&self.gpu, &self.config);
        let x = self.before(&block.attention_norm, tokens, scratch)?;
        self.product(x, &block.query, tokens, None, &scratch.query)?;
        self.product(x, &block.key, tokens, None, &scratch.key)?;
        self.product(x, &block.value, tokens, None, &scratch.value)?;
        let query = self.qk_norm(&scratch.query, &block.query_norm, tokens, c.heads)?;
        let key = self.qk_norm(&scratch.key, &block.key_norm, tokens, c.kv_heads)?;
        let capacity = rows_of(self.context);
        // A layer that turns nothing reads no table; any will do.
        let rope = layer.rope.map_or(0, |rope| c.ropes[rope].rotary_dim);
        let table = &self.ropes[layer.rope.unwrap_or(0)];
        let shape = RopeShape {
            tokens,
            heads: c.heads,
            kv_heads: c.kv_heads,
            width: c.head_dim,
            rotary: rope,
            capacity,
            context: self.context,
            pairs: Pairs::Halves,
        };
        let Cache { keys, values } = cache;
        let value = &scratch.value;
        rope_append(gpu, &query, &key, value, keys, values, places, table, shape)?;
        let shape = AttentionShape {
            tokens,
            heads: c.heads,
            kv_heads: c.kv_heads,
            width: c.head_dim,
            capacity,
            scale: c.attention_scale,
            window: layer.window,
            softcap: c.attention_softcap,
        };
        let out = &scratch.attended;
        Ok(verify_attention(
            gpu, &query, keys, values, places, shape, out,
        )?)
    }

    /// The gated MLP of one block up to its last product, into `scratch.active`.
    fn gate(
        &self,
        block: &Block<Matrix, Buffer>,
        tokens: usize,
        scratch: &Scratch,
    ) -> Result<(), ModelError> {
        let c = &self.config;
        let x = self.before(&block.feed_forward_norm, tokens, scratch)?;
        let Scratch {
            gate, up, active, ..
        } = scratch;
        self.product(x, &block.gate, tokens, None, gate)?;
        self.product(x, &block.up, tokens, None, up)?;
        let activation = match c.activation {
            Activation::Silu => GpuActivation::Silu,
            Activation::Gelu => GpuActivation::Gelu,
        };
        let numbers = tokens * c.feed_forward;
        Ok(gated(&self.gpu, gate, up, activation, numbers, active)?)
    }

    /// The stream as a block reads it: behind its norm, where it has one.
    fn before<'a>(
        &self,
        norm: &Option<Buffer>,
        tokens: usize,
        scratch: &'a Scratch,
    ) -> Result<&'a Buffer, ModelError> {
        let [x, _] = &scratch.stream;
        let Some(weight) = norm else { return Ok(x) };
        let (size, out) = ([tokens, self.config.hidden], &scratch.normed);
        let epsilon = self.config.stream_epsilon();
        rms_norm(&self.gpu, x, weight, epsilon, size, out)?;
        Ok(out)
    }

    /// Queries or keys behind their norm, where they have one.
    fn qk_norm(
        &self,
        x: &Buffer,
        norm: &Option<Buffer>,
        tokens: usize,
        heads: usize,
    ) -> Result<Buffer, ModelError> {
        let c = &self.config;
        let Some(weight) = norm else {
            return Ok(x.clone());
        };
        let size = match c.qk_norm {
            QkNorm::Whole => [tokens, heads * c.head_dim],
            _ => [tokens * heads, c.head_dim],
        };
        let out = self.gpu.empty(4 * size[0] * size[1])?;
        rms_norm(&self.gpu, x, weight, c.norm_epsilon, size, &out)?;
        Ok(out)
    }

    /// `x · Wᵀ + bias (+ residual)`.
    fn product(
        &self,
        x: &Buffer,
        linear: &Linear<Matrix, Buffer>,
        tokens: usize,
        residual: Option<&Buffer>,
        out: &Buffer,
    ) -> Result<(), ModelError> {
        let bias = linear.bias.as_ref();
        let plus = Plus { bias, residual };
        Ok(matmul(&self.gpu, x, tokens, &linear.weight, plus, out)?)
    }

    /// Adds a block's product to the stream, behind its norm where it has one.
    fn add_product(
        &self,
        x: &Buffer,
        linear: &Linear<Matrix, Buffer>,
        norm: &Option<Buffer>,
        tokens: usize,
        scratch: &mut Scratch,
    ) -> Result<(), ModelError> {
        let (gpu, c) = (&self.gpu, &self.config);
        let Scratch { stream, normed, .. } = scratch;
        let Some(weight) = norm else {
            return self.product(x, linear, tokens, Some(&stream[0]), &stream[0]);
        };
        let size = [tokens, c.hidden];
        let [before, after] = stream;
        self.product(x, linear, tokens, None, after)?;
        rms_norm(gpu, after, weight, c.norm_epsilon, size, normed)?;
        add(gpu, before, normed, tokens * c.hidden, after)?;
        stream.swap(0, 1);
        Ok(())
    }

    /// Allocates the KV cache once, for the whole context.
    fn reserve(&mut self) -> Result<(), ModelError> {
        let bytes = 4 * rows_of(self.context) * self.config.kv_width();
        while self.caches.len() < self.config.layers.len() {
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
        let (weight, bias) = match &self.weights.head {
            Some(head) => (&head.weight, head.bias.as_ref()),
            None => (&self.weights.embedding, None),
        };
        let plus = Plus {
            bias,
            residual: None,
        };
        matmul(gpu, &states, rows.len(), weight, plus, &logits)?;
        Ok(logits)
    }
}

/// Keeps weights on a GPU.
#[derive(Debug)]
pub struct GpuWeights<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    /// What plain numbers are rounded to.
    pub quantise: Option<Format>,
}

impl Keep for GpuWeights<'_> {
    type Matrix = Matrix;
    type Vector = Buffer;
    type Upload = MatrixUpload;

    fn format(&self, stored: Format, cols: usize) -> Option<Format> {
        on_gpu(stored, cols, self.quantise).map(|(format, _)| format)
    }

    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<MatrixUpload, ModelError> {
        let format = of_kernels(format).ok_or(ModelError::Order("no kernel reads that format"))?;
        Ok(Matrix::begin(self.gpu, format, rows, cols)?)
    }

    fn push(&self, upload: &mut MatrixUpload, rows: &[u8]) -> Result<(), ModelError> {
        Ok(upload.push(rows)?)
    }

    fn finish(&self, upload: MatrixUpload) -> Result<Matrix, ModelError> {
        Ok(upload.finish()?)
    }

    fn vector(&self, values: Vec<f32>) -> Result<Buffer, ModelError> {
        Ok(self.gpu.keep(bytemuck::cast_slice(&values).to_vec())?)
    }
}
