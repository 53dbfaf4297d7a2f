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
use crate::gpu_room::{Cache, Head, ROWS, Room, Scratch, TOKENS};
use crate::pass::{Pass, TargetScore, rows_of};
use crate::reading::Keep;
use crate::weights::{Block, Linear, Weights};

/// A transformer with its KV cache on the GPU.
#[derive(Debug)]
pub struct GpuDecoder {
    gpu: Gpu,
    config: Config,
    context: usize,
    weights: Weights<Matrix, Buffer>,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    ropes: Vec<Buffer>,
    /// Absent while released.
    room: Option<Room>,
    /// Tokens of the last pass, whose hidden states are there.
    tokens: Option<usize>,
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
            room: None,
            tokens: None,
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
    /// [`ModelError::InLine`] for more tokens than a pass may have, [`ModelError::Gpu`] if the
    /// device is lost or out of memory.
    pub fn run(&mut self, pass: &Pass) -> Result<(), ModelError> {
        self.tokens = None;
        if pass.len() > ROWS {
            return Err(ModelError::InLine {
                tokens: pass.len(),
                limit: ROWS,
            });
        }
        if self.room.is_none() {
            self.room = Some(Room::allocate(&self.gpu, &self.config, self.context)?);
        }
        let Some(room) = &self.room else {
            return Ok(());
        };
        let gpu = &self.gpu;
        gpu.write_front(&room.ids, &pass.tokens)?;
        gpu.write_front(&room.places, &pass.places)?;
        for begin in (0..pass.len()).step_by(TOKENS) {
            let tokens = (pass.len() - begin).min(TOKENS);
            self.run_turn(room, begin, tokens)?;
        }
        self.tokens = Some(pass.len());
        Ok(())
    }

    /// Queues `tokens` tokens of a pass from `begin` on.
    fn run_turn(&self, room: &Room, begin: usize, tokens: usize) -> Result<(), ModelError> {
        let (gpu, c, scratch) = (&self.gpu, &self.config, &room.scratch);
        let ids = room.ids.part(4 * begin, 4 * TOKENS)?;
        let places = room.places.part(16 * begin, 16 * TOKENS)?;
        let mut stream = [&scratch.stream[0], &scratch.stream[1]];
        let factor = c.stream_scale();
        embed(
            gpu,
            &ids,
            tokens,
            &self.weights.embedding,
            factor,
            stream[0],
        )?;
        let blocks = self.weights.blocks.iter().zip(&room.caches);
        for ((block, cache), layer) in blocks.zip(&c.layers) {
            self.attend(block, cache, layer, tokens, &places, stream[0], scratch)?;
            let norm = &block.attention_post_norm;
            let attended = &scratch.attended;
            self.add_product(attended, &block.output, norm, tokens, &mut stream, scratch)?;
            self.gate(block, tokens, stream[0], scratch)?;
            let norm = &block.feed_forward_post_norm;
            let active = &scratch.active;
            self.add_product(active, &block.down, norm, tokens, &mut stream, scratch)?;
        }
        let row = 4 * c.hidden;
        let states = room.states.part(begin * row, TOKENS * row)?;
        let (size, epsilon) = ([tokens, c.hidden], c.stream_epsilon());
        Ok(rms_norm(
            gpu,
            stream[0],
            &self.weights.norm,
            epsilon,
            size,
            &states,
        )?)
    }

    /// Logits `[rows][vocabulary]` after the given tokens of the last pass.
    ///
    /// # Errors
    /// [`ModelError::Order`] without a pass, [`ModelError::Gpu`] if anything since failed.
    pub async fn logits(&self, rows: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        let vocabulary = self.config.vocabulary;
        let (room, _) = self.ready()?;
        let mut all = Vec::with_capacity(rows.len());
        for rows in rows.chunks(room.head.at_once) {
            self.pick(room, rows)?;
            self.queue_logits(room, 0, rows.len())?;
            let logits = room.head.logits.part(0, 4 * rows.len() * vocabulary)?;
            let read = self.gpu.read_f32(&[&logits]).await?;
            let mut flat = read.into_iter().next().unwrap_or_default();
            if let Some(cap) = self.config.logit_softcap {
                flat.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
            }
            all.extend(flat.chunks(vocabulary).map(<[f32]>::to_vec));
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
        let (room, _) = self.ready()?;
        let Head { at_once, turns, .. } = room.head;
        let mut scores = Vec::with_capacity(rows.len());
        let some = at_once * turns;
        for (rows, targets) in rows.chunks(some).zip(targets.chunks(some)) {
            self.pick(room, rows)?;
            let targets = room.head.in_turns(targets);
            self.gpu.write_front(&room.head.targets, &targets)?;
            let mut outs = Vec::new();
            for (turn, rows) in rows.chunks(at_once).enumerate() {
                outs.push(self.queue_scores(room, turn, rows.len())?);
            }
            let read = self.gpu.read_f32(&outs.iter().collect::<Vec<_>>()).await?;
            let pairs = read.iter().flat_map(|out| out.chunks_exact(2));
            scores.extend(pairs.map(|pair| TargetScore {
                logit: pair[0],
                log_sum_exp: pair[1],
            }));
        }
        Ok(scores)
    }

    /// Moves KV rows `from .. from + count` to `to ..`, `to <= from`.
    ///
    /// # Errors
    /// [`ModelError::Gpu`].
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) -> Result<(), ModelError> {
        let caches = self.room.iter().flat_map(|room| &room.caches);
        for Cache { keys, values } in caches {
            let width = self.config.kv_width();
            move_rows(&self.gpu, keys, values, width, from..from + count, to)?;
        }
        Ok(())
    }

    /// Frees the KV cache and all that passes need; the next one makes it anew.
    pub fn release(&mut self) {
        self.room = None;
        self.tokens = None;
    }

    /// Attention of one block up to its output product, into `scratch.attended`.
    #[expect(clippy::too_many_arguments, reason = "what a block reads and writes")]
    fn attend(
        &self,
        block: &Block<Matrix, Buffer>,
        cache: &Cache<Buffer>,
        layer: &Layer,
        tokens: usize,
        places: &Buffer,
        stream: &Buffer,
        scratch: &Scratch<Buffer>,
    ) -> Result<(), ModelError> {
        let (gpu, c) = (&self.gpu, &self.config);
        let x = self.before(&block.attention_norm, tokens, stream, scratch)?;
        self.product(x, &block.query, tokens, None, &scratch.query)?;
        self.product(x, &block.key, tokens, None, &scratch.key)?;
        self.product(x, &block.value, tokens, None, &scratch.value)?;
        let [query_out, key_out] = match &scratch.qk_normed {
            Some([query, key]) => [query, key],
            None => [&scratch.query, &scratch.key],
        };
        let query = self.qk_norm(
            &scratch.query,
            &block.query_norm,
            tokens,
            c.heads,
            query_out,
        )?;
        let key = self.qk_norm(&scratch.key, &block.key_norm, tokens, c.kv_heads, key_out)?;
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
        rope_append(gpu, query, key, value, keys, values, places, table, shape)?;
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
            gpu, query, keys, values, places, shape, out,
        )?)
    }

    /// The gated MLP of one block up to its last product, into `scratch.active`.
    fn gate(
        &self,
        block: &Block<Matrix, Buffer>,
        tokens: usize,
        stream: &Buffer,
        scratch: &Scratch<Buffer>,
    ) -> Result<(), ModelError> {
        let c = &self.config;
        let x = self.before(&block.feed_forward_norm, tokens, stream, scratch)?;
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
        x: &'a Buffer,
        scratch: &'a Scratch<Buffer>,
    ) -> Result<&'a Buffer, ModelError> {
        let Some(weight) = norm else { return Ok(x) };
        let (size, out) = ([tokens, self.config.hidden], &scratch.normed);
        let epsilon = self.config.stream_epsilon();
        rms_norm(&self.gpu, x, weight, epsilon, size, out)?;
        Ok(out)
    }

    /// Queries or keys behind their norm, in `out`, where they have one.
    fn qk_norm<'a>(
        &self,
        x: &'a Buffer,
        norm: &Option<Buffer>,
        tokens: usize,
        heads: usize,
        out: &'a Buffer,
    ) -> Result<&'a Buffer, ModelError> {
        let c = &self.config;
        let Some(weight) = norm else { return Ok(x) };
        let size = match c.qk_norm {
            QkNorm::Whole => [tokens, heads * c.head_dim],
            _ => [tokens * heads, c.head_dim],
        };
        rms_norm(&self.gpu, x, weight, c.norm_epsilon, size, out)?;
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
        stream: &mut [&Buffer; 2],
        scratch: &Scratch<Buffer>,
    ) -> Result<(), ModelError> {
        let (gpu, c) = (&self.gpu, &self.config);
        let [before, after] = *stream;
        let Some(weight) = norm else {
            return self.product(x, linear, tokens, Some(before), before);
        };
        let size = [tokens, c.hidden];
        self.product(x, linear, tokens, None, after)?;
        let normed = &scratch.normed;
        rms_norm(gpu, after, weight, c.norm_epsilon, size, normed)?;
        add(gpu, before, normed, tokens * c.hidden, after)?;
        stream.swap(0, 1);
        Ok(())
    }

    /// The room, and the tokens of the last pass in it.
    fn ready(&self) -> Result<(&Room, usize), ModelError> {
        let ready = self.room.as_ref().zip(self.tokens);
        ready.ok_or(ModelError::Order(
            "no pass has run whose logits could be read",
        ))
    }

    /// Says which rows of the last pass are wanted, for all turns.
    fn pick(&self, room: &Room, rows: &[usize]) -> Result<(), ModelError> {
        let rows: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        let picked = room.head.in_turns(&rows);
        Ok(self.gpu.write_front(&room.head.picked, &picked)?)
    }

    /// Queues the scores of a turn: `[rows, 2]`.
    fn queue_scores(&self, room: &Room, turn: usize, rows: usize) -> Result<Buffer, ModelError> {
        self.queue_logits(room, turn, rows)?;
        let head = &room.head;
        let targets = head.turn(&head.targets, turn, 4)?;
        let out = head.turn(&head.out, turn, 8)?;
        let size = [rows, self.config.vocabulary];
        let softcap = self.config.logit_softcap;
        score(&self.gpu, &head.logits, &targets, size, softcap, &out)?;
        Ok(out.part(0, 8 * rows)?)
    }

    /// Queues the output product for the picked rows of a turn.
    fn queue_logits(&self, room: &Room, turn: usize, rows: usize) -> Result<(), ModelError> {
        let (_, tokens) = self.ready()?;
        let (gpu, head, width) = (&self.gpu, &room.head, self.config.hidden);
        let picked = head.turn(&head.picked, turn, 4)?;
        let size = [tokens, width];
        gather_rows(gpu, &room.states, size, &picked, rows, &head.states)?;
        let (weight, bias) = match &self.weights.head {
            Some(linear) => (&linear.weight, linear.bias.as_ref()),
            None => (&self.weights.embedding, None),
        };
        let plus = Plus {
            bias,
            residual: None,
        };
        let (states, logits) = (&head.states, &head.logits);
        Ok(matmul(gpu, states, rows, weight, plus, logits)?)
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
