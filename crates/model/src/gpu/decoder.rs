//! The decoder as launches of our WGSL kernels.
//!
//! Weights stay quantised on the GPU, keys and values have 16 bits a number (32 where no weight is
//! quantised), activations f32. A step of one token takes six launches a block (one more over a
//! long prefix, one more for each norm behind a product, three more where a block is given a part
//! of each token besides the stream, six more for experts in place of an MLP; on software adapters
//! eight, since they keep two norms apart). Launches only queue work: the CPU waits where ids,
//! logits or scores are read, once for a whole draft and once for a whole verify pass.

use conclave_kernels::{
    Activation as GpuActivation, Attention, Buffer, Caches, Chosen, Columns, DrawBuffers, Draws,
    Fused, GatedHeads, GatedNorm, Head, HeadNorm, Joined, Launcher, Matrix, NO_SLOT, NO_TOKEN,
    Norm, PostNorm, NormOf, Place, Projected, QkNorm as GpuQkNorm, Rotary, Rows, Scores, Taps,
    append, attention, convolve, embed, experts, gate_heads, gated, gather_rows, group_choices,
    join_experts, keep_rows, norm_add, pick_norm, product, put_rows, recurrence_mix,
    recurrence_rule, rms_norm, route, sample, score_head, target_logits,
};

use super::scratch::{SCORED, Scratch, TOKENS, channels, counts_of, heads, recurrence};
use super::weights::{Gate, GpuBlock, GpuFeedForward, GpuMixer, GpuModel, GpuRecurrence, Product};
use crate::config::{self, Activation, Config, Gating, Layer, Mixer, QkNorm, Rule};
use crate::decoder::{Decoder, Footprint, Part, Wait};
use crate::error::ModelError;
use crate::memory::exact_with;
use crate::pass::{Pass, Run, TargetScore};
use crate::prefill::{blocks_a_submit, gpu_chunk};
use crate::slots::{DRAFT, MOST_DRAFTED, PREFIX, SLOTS};
use crate::states::{COUNTED, NO_STATE};
use crate::weights::{Experts, FeedForward, Weights};

/// Bytes of logits held at once; more rows are taken in portions.
const LOGITS_BYTES: usize = 64 << 20;

/// Bytes of a prefix that are read back at once.
const READ_BYTES: usize = 16 << 20;

/// What the tokens of a text leave in one block.
#[derive(Debug)]
enum Cache {
    /// Keys and values.
    Attention([Buffer; 2]),
    Convolution(Buffer),
    /// States, in so many slots.
    Recurrence(Buffer, usize),
    /// Nothing: another block's serves.
    Shared,
}

/// A transformer with its KV cache on the GPU.
#[derive(Debug)]
pub struct GpuDecoder {
    gpu: Launcher,
    config: Config,
    context: usize,
    weights: GpuModel,
    /// Numbers in the matrices that it multiplies a token with.
    parameters: u64,
    /// Keys and values are f32.
    exact: bool,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    ropes: Vec<Buffer>,
    scratch: Scratch<Buffer>,
    /// Empty while released.
    caches: Vec<Cache>,
}

/// What a run of launches works on: the rows of a pass, or a step of a draft.
#[derive(Clone, Copy)]
struct Step<'a> {
    rows: Rows<'a>,
    chunks: usize,
    ids: &'a Buffer,
    places: &'a Buffer,
    states: Option<RunStates<'a>>,
}

/// Between which recurrent states it runs.
#[derive(Clone, Copy)]
struct RunStates<'a> {
    steps: &'a Buffer,
    runs: &'a Buffer,
    /// Runs there are.
    count: usize,
}

/// What the kernels are told of a run of tokens that begins with this one of a pass.
fn words_of(first: usize, run: &Run) -> [u32; 4] {
    let from = run.from.map_or(NO_SLOT, |from| from as u32);
    [first as u32, run.tokens as u32, from, run.to as u32]
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
        gpu: &Launcher,
    ) -> Result<Self, ModelError> {
        let exact = weights.matrices().all(|matrix| exact_with(matrix.format()));
        let numbers = |matrix: &Matrix| matrix.rows() as u64 * matrix.cols() as u64;
        let all: u64 = weights.matrices().map(numbers).sum();
        let looked_up = weights.per_layer.as_ref();
        // Of experts a token takes some.
        let idle = weights
            .blocks
            .iter()
            .map(|block| match &block.feed_forward {
                FeedForward::Experts(of) => {
                    let all = [&of.gate, &of.up, &of.down]
                        .map(numbers)
                        .iter()
                        .sum::<u64>();
                    let idle = of.of.count - of.of.used;
                    all / of.of.count as u64 * idle as u64
                }
                FeedForward::Dense(_) => 0,
            });
        let idle: u64 = idle.sum();
        let parameters = all - idle - looked_up.map_or(0, |of| numbers(&of.embedding));
        let weights = GpuModel::new(gpu, weights)?;
        let apart = |block: &GpuBlock| {
            let gate = &block.feed_forward;
            matches!(gate, GpuFeedForward::Dense { gate, .. } if matches!(gate, Gate::Apart(_)))
        };
        let apart = weights.blocks.iter().any(apart);
        let mut decoder = Self {
            gpu: gpu.clone(),
            config: config.clone(),
            context,
            weights,
            parameters,
            exact,
            ropes: Vec::new(),
            scratch: Scratch::new(gpu, config, context, apart)?,
            caches: Vec::new(),
        };
        decoder.set_ropes(false)?;
        Ok(decoder)
    }

    /// Embedding and blocks: the residual stream behind the last one, in `scratch.stream`.
    fn blocks(&self, run: Step<'_>) -> Result<(), ModelError> {
        let (gpu, c, s) = (&self.gpu, &self.config, &self.scratch);
        let (count, factor) = (run.rows.count, c.stream_scale());
        embed(
            gpu,
            run.ids,
            count,
            &self.weights.embedding,
            factor,
            &s.stream,
        )?;
        self.per_layer(run)?;
        let early = blocks_a_submit(self.parameters, c.layers.len(), count);
        for (done, block) in self.weights.blocks.iter().enumerate() {
            if early.is_some_and(|blocks| done > 0 && done.is_multiple_of(blocks)) {
                gpu.flush()?;
            }
            let shares = match &block.mixer {
                GpuMixer::Attention { of, .. } => of.shares,
                _ => None,
            };
            let mixed = self.mix(block, &self.caches[shares.unwrap_or(done)], run)?;
            let norm = &block.mixer_post_norm;
            self.add(mixed, &block.output, norm, None, run.rows)?;
            let scale = block.scale.as_ref();
            let Some(part) = &block.per_layer else {
                self.feed_forward(block, scale, run.rows)?;
                continue;
            };
            self.feed_forward(block, None, run.rows)?;
            self.gate_part(&part.gate, done, run.rows)?;
            let projection = &part.projection;
            self.add(&s.active, projection, &part.norm, scale, run.rows)?;
        }
        Ok(())
    }

    /// What each layer is given of each token, where there is such; the stream is still the
    /// embedding.
    fn per_layer(&self, run: Step<'_>) -> Result<(), ModelError> {
        let (gpu, c, s) = (&self.gpu, &self.config, &self.scratch);
        let (Some(weights), Some(room)) = (&self.weights.per_layer, &s.per_layer) else {
            return Ok(());
        };
        let (count, each) = (run.rows.count, c.layers.len());
        let width = weights.embedding.cols() / each;
        let (embedding, factor) = (&weights.embedding, Config::per_layer_scale(width));
        embed(gpu, run.ids, count, embedding, factor, &room.parts)?;
        let (product_of, fused) = ([&weights.projection], Fused::default());
        product(gpu, &s.stream, run.rows, &product_of, fused, &room.product)?;
        let norm = PostNorm {
            weight: &weights.norm,
            epsilon: c.per_layer_epsilon(),
            width,
            each,
            scale: None,
        };
        Ok(norm_add(gpu, &room.product, run.rows, norm, &room.parts)?)
    }

    /// The part that a block is given of each token, gated by the stream, into `scratch.active`.
    fn gate_part(&self, gate: &Product, index: usize, rows: Rows<'_>) -> Result<(), ModelError> {
        let (gpu, s) = (&self.gpu, &self.scratch);
        let Some(room) = &s.per_layer else {
            return Err(ModelError::Order("there is no room for parts of layers"));
        };
        self.multiply(&s.stream, rows, gate, None, &room.gate)?;
        let width = gate.width();
        let part = Columns {
            of: &room.parts,
            across: self.config.layers.len() * width,
            first: index * width,
        };
        let shape = [rows.count, width];
        let activation = self.activation();
        Ok(gated(gpu, &room.gate, part, activation, shape, &s.active)?)
    }

    /// What mixes tokens in one block, up to its output product: where that finds it.
    fn mix(&self, block: &GpuBlock, cache: &Cache, run: Step<'_>) -> Result<&Buffer, ModelError> {
        let s = &self.scratch;
        let norm = self.norm(&block.mixer_norm, run.rows);
        self.multiply(&s.stream, run.rows, &block.projection, norm, &s.projected)?;
        match (&block.mixer, cache) {
            (GpuMixer::Attention { of, qk_norm }, Cache::Attention(caches)) => {
                self.attend(of, qk_norm.as_ref(), caches, run)
            }
            (GpuMixer::Convolution { of, taps, bias }, Cache::Convolution(cache)) => {
                let taps = Taps {
                    weight: taps,
                    count: of.taps,
                    bias: bias.as_ref(),
                };
                let channels = channels(&self.config, self.context, self.exact);
                let (gpu, count) = (&self.gpu, run.rows.count);
                convolve(
                    gpu,
                    &s.projected,
                    count,
                    taps,
                    run.places,
                    channels,
                    cache,
                    &s.mixed,
                )?;
                Ok(&s.mixed)
            }
            (GpuMixer::Recurrence(block), Cache::Recurrence(states, slots)) => {
                self.change(block, states, *slots, run)
            }
            _ => Err(ModelError::Order("a block's cache is another block's")),
        }
    }

    /// The recurrence of one block with its gate, from `scratch.projected`: where it is.
    fn change(
        &self,
        block: &GpuRecurrence,
        states: &Buffer,
        slots: usize,
        run: Step<'_>,
    ) -> Result<&Buffer, ModelError> {
        let (gpu, s, count) = (&self.gpu, &self.scratch, run.rows.count);
        let of = recurrence(&block.of, slots);
        let of_run = run.states.ok_or(NO_STATE)?;
        let (steps, runs) = (of_run.steps, (of_run.runs, of_run.count));
        let (projected, mixed) = (&s.projected, &s.query);
        let (taps, heads) = (block.taps.as_ref(), block.heads.as_ref());
        recurrence_mix(gpu, projected, count, of, steps, taps, states, mixed)?;
        recurrence_rule(gpu, projected, count, of, runs, heads, states, mixed)?;
        let [heads, width] = block.of.normed();
        let [.., values] = of.parts();
        let gated = GatedHeads {
            heads,
            width,
            row: [of.channels(), values],
            gate_row: [of.row(), of.channels()],
            gate_apart: width,
            silu: true,
        };
        let norm = GatedNorm {
            weight: &block.norm,
            epsilon: self.config.norm_epsilon,
            after_gate: block.of.rule == Rule::StateSpace,
        };
        gate_heads(gpu, mixed, count, gated, projected, Some(norm), &s.mixed)?;
        Ok(&s.mixed)
    }

    /// Attention to the caches of one block, from `scratch.projected`: where it is, with its gates.
    fn attend(
        &self,
        of: &config::Attention,
        qk_norm: Option<&[Buffer; 2]>,
        [keys, values]: &[Buffer; 2],
        run: Step<'_>,
    ) -> Result<&Buffer, ModelError> {
        let (gpu, c, s) = (&self.gpu, &self.config, &self.scratch);
        let qk_norm = qk_norm.map(|[query, key]| GpuQkNorm {
            query,
            key,
            of: HeadNorm {
                epsilon: c.norm_epsilon,
                over: match c.qk_norm {
                    QkNorm::None | QkNorm::PerHead => NormOf::Head,
                    QkNorm::Whole => NormOf::AllHeads,
                    QkNorm::Rotated => NormOf::RotatedHead,
                },
                values: c.value_norm,
            },
        });
        let projected = match of.shares {
            Some(_) => Projected::Queries,
            None if of.gate => Projected::Gated,
            None => Projected::All,
        };
        let rope = Rotary {
            // A layer that rotates nothing reads no table; any will do.
            table: &self.ropes[of.rope.unwrap_or(0)],
            context: self.context,
            rotary: of.rope.map_or(0, |rope| c.ropes[rope].rotary_dim),
        };
        let (heads, caches) = (heads(of, self.context, self.exact), [keys, values]);
        let (count, places) = (run.rows.count, run.places);
        append(
            gpu,
            &s.projected,
            count,
            projected,
            qk_norm,
            rope,
            places,
            heads,
            &s.query,
            caches,
        )?;
        let scores = Scores {
            scale: c.attention_scale,
            window: of.window,
            softcap: c.attention_softcap,
        };
        let attention_of = Attention {
            q: &s.query,
            rows: run.rows,
            chunks: run.chunks,
            places,
            heads,
            scores,
            caches,
            partials: &s.partials,
            out: &s.mixed,
        };
        attention(gpu, attention_of)?;
        if !of.gate {
            return Ok(&s.mixed);
        }
        let width = of.head_dim;
        let gated = GatedHeads {
            heads: of.heads,
            width,
            row: [of.query_width(), 0],
            gate_row: [heads.gated_row(true), width],
            gate_apart: 2 * width,
            silu: false,
        };
        gate_heads(gpu, &s.mixed, count, gated, &s.projected, None, &s.query)?;
        Ok(&s.query)
    }

    /// Adds to the stream what the MLP of one block makes of it, or its experts.
    fn feed_forward(
        &self,
        block: &GpuBlock,
        scale: Option<&Buffer>,
        rows: Rows<'_>,
    ) -> Result<(), ModelError> {
        let norm = self.norm(&block.feed_forward_norm, rows);
        let post_norm = &block.feed_forward_post_norm;
        match &block.feed_forward {
            GpuFeedForward::Dense { gate, down } => {
                self.gate(gate, norm, rows)?;
                self.add(&self.scratch.active, down, post_norm, scale, rows)
            }
            GpuFeedForward::Experts(of) => {
                let out = match post_norm {
                    Some(_) => &self.scratch.behind,
                    None => &self.scratch.stream,
                };
                self.go_through(of, norm, rows, (out, post_norm.is_none()))?;
                self.add_behind(post_norm, scale, rows)
            }
        }
    }

    /// What the experts of each token make of the stream behind a norm: written to a buffer, or
    /// added to what it holds.
    fn go_through(
        &self,
        of: &Experts<Matrix, Buffer>,
        norm: Option<Norm<'_>>,
        rows: Rows<'_>,
        (out, adds): (&Buffer, bool),
    ) -> Result<(), ModelError> {
        let (gpu, c, s) = (&self.gpu, &self.config, &self.scratch);
        let Some(room) = &s.experts else {
            return Err(ModelError::Order("there is no room for experts"));
        };
        let x = match norm {
            Some(of) => {
                let shape = [rows.count, c.hidden];
                rms_norm(gpu, &s.stream, of.weight, of.epsilon, shape, &s.normed)?;
                &s.normed
            }
            None => &s.stream,
        };
        let (router, fused) = ([&of.router], Fused::default());
        product(gpu, x, rows, &router, fused, &room.logits)?;
        let counts = counts_of(&of.of);
        let (sigmoid, bias) = (of.of.gating == Gating::Sigmoid, of.choice_bias.as_ref());
        let found = [&room.chosen, &room.scores];
        route(gpu, &room.logits, rows, counts, sigmoid, bias, found)?;
        // All passes are launched alike, so that none binds what no pass before it did.
        let grouped = gpu.choices().groups() && !self.drafts(rows);
        if grouped {
            group_choices(gpu, &room.chosen, rows, counts, &room.groups)?;
        }
        let chosen = Chosen {
            rows,
            of: counts,
            experts: &room.chosen,
            groups: grouped.then_some(&room.groups),
        };
        let [gates, ups] = &room.gated;
        experts(gpu, (x, false), chosen, &of.gate, gates)?;
        experts(gpu, (x, false), chosen, &of.up, ups)?;
        let ups = Columns {
            of: ups,
            across: of.of.width,
            first: 0,
        };
        let shape = [rows.count * of.of.used, of.of.width];
        gated(gpu, gates, ups, self.activation(), shape, &s.active)?;
        experts(gpu, (&s.active, true), chosen, &of.down, &room.made)?;
        let joined = Joined {
            used: of.of.used,
            width: c.hidden,
            normalised: of.of.normalised.then_some(config::Experts::EPSILON),
            scale: of.of.scale,
            adds,
        };
        let (made, scores) = (&room.made, &room.scores);
        Ok(join_experts(gpu, made, scores, rows, joined, out)?)
    }

    /// The gated MLP of one block up to its last product, into `scratch.active`.
    fn gate(&self, gate: &Gate, norm: Option<Norm<'_>>, rows: Rows<'_>) -> Result<(), ModelError> {
        let (gpu, s) = (&self.gpu, &self.scratch);
        let activation = self.activation();
        match (gate, &s.apart) {
            (Gate::Stacked(gate), _) => {
                let fused = Fused {
                    norm,
                    bias: gate.bias.as_ref(),
                    gate: Some(activation),
                    adds: false,
                };
                let matrices: Vec<&Matrix> = gate.matrices.iter().collect();
                product(gpu, &s.stream, rows, &matrices, fused, &s.active)?;
            }
            (Gate::Apart([gate, up]), Some([gates, ups])) => {
                self.multiply(&s.stream, rows, gate, norm, gates)?;
                self.multiply(&s.stream, rows, up, norm, ups)?;
                let width = up.width();
                let ups = Columns {
                    of: ups,
                    across: width,
                    first: 0,
                };
                let shape = [rows.count, width];
                gated(gpu, gates, ups, activation, shape, &s.active)?;
            }
            (Gate::Apart(_), None) => {
                return Err(ModelError::Order("there is no room for gate and up apart"));
            }
        }
        Ok(())
    }

    fn activation(&self) -> GpuActivation {
        match self.config.activation {
            Activation::Silu => GpuActivation::Silu,
            Activation::Gelu => GpuActivation::Gelu,
        }
    }

    /// `norm(x) · Wᵀ + bias`.
    fn multiply(
        &self,
        x: &Buffer,
        rows: Rows<'_>,
        weights: &Product,
        norm: Option<Norm<'_>>,
        out: &Buffer,
    ) -> Result<(), ModelError> {
        let fused = Fused {
            norm,
            bias: weights.bias.as_ref(),
            ..Fused::default()
        };
        let matrices: Vec<&Matrix> = weights.matrices.iter().collect();
        Ok(product(&self.gpu, x, rows, &matrices, fused, out)?)
    }

    /// Adds a product to the stream, behind its norm where it has one; then the sum may be scaled.
    fn add(
        &self,
        x: &Buffer,
        weights: &Product,
        norm: &Option<Buffer>,
        scale: Option<&Buffer>,
        rows: Rows<'_>,
    ) -> Result<(), ModelError> {
        let (gpu, s) = (&self.gpu, &self.scratch);
        if norm.is_none() {
            let fused = Fused {
                bias: weights.bias.as_ref(),
                adds: true,
                ..Fused::default()
            };
            let matrices: Vec<&Matrix> = weights.matrices.iter().collect();
            product(gpu, x, rows, &matrices, fused, &s.stream)?;
        } else {
            self.multiply(x, rows, weights, None, &s.behind)?;
        }
        self.add_behind(norm, scale, rows)
    }

    /// Adds `scratch.behind` to the stream behind a norm; without one it has been added already.
    fn add_behind(
        &self,
        norm: &Option<Buffer>,
        scale: Option<&Buffer>,
        rows: Rows<'_>,
    ) -> Result<(), ModelError> {
        let (gpu, c, s) = (&self.gpu, &self.config, &self.scratch);
        let Some(weight) = norm else {
            return match scale {
                Some(_) => Err(ModelError::Order("no kernel scales a sum without a norm")),
                None => Ok(()),
            };
        };
        let norm = PostNorm {
            weight,
            epsilon: c.norm_epsilon,
            width: c.hidden,
            each: 1,
            scale,
        };
        Ok(norm_add(gpu, &s.behind, rows, norm, &s.stream)?)
    }

    /// A norm of the stream, where there is one. In a draft's step it may be part of the product; a
    /// pass of one token is rare, and would bind what no round before it did.
    fn norm<'a>(&'a self, weight: &'a Option<Buffer>, rows: Rows<'_>) -> Option<Norm<'a>> {
        weight.as_ref().map(|weight| Norm {
            weight,
            epsilon: self.config.stream_epsilon(),
            scratch: &self.scratch.normed,
            inside: self.drafts(rows),
        })
    }

    /// Whether these rows are a draft's step.
    fn drafts(&self, rows: Rows<'_>) -> bool {
        std::ptr::eq(rows.counts, &self.scratch.step)
    }

    /// Normed hidden states of the slots in `picks`, in `scratch.normed`.
    fn pick(&self, picks: &Buffer, rows: Rows<'_>) -> Result<(), ModelError> {
        let (c, s) = (&self.config, &self.scratch);
        let all = [SLOTS, c.hidden];
        let (weight, epsilon) = (&self.weights.norm, c.stream_epsilon());
        Ok(pick_norm(
            &self.gpu, &s.states, all, picks, rows, weight, epsilon, &s.normed,
        )?)
    }

    /// Chunks that the keys of a pass are shared out in, where its tokens see up to `keys` rows.
    fn chunks(&self, tokens: usize, keys: usize) -> usize {
        let all = self.config.attentions();
        let all = all.map(|of| heads(of, self.context, self.exact));
        self.gpu.attention_chunks(tokens, all, keys)
    }

    /// Room for the whole context of one layer.
    fn cache(&self, layer: &Layer) -> Result<Cache, ModelError> {
        let gpu = &self.gpu;
        Ok(match &layer.mixer {
            Mixer::Attention(of) if of.shares.is_some() => Cache::Shared,
            Mixer::Attention(of) => {
                let bytes = heads(of, self.context, self.exact).cache_bytes();
                Cache::Attention([gpu.allocate(bytes)?, gpu.allocate(bytes)?])
            }
            Mixer::Convolution(_) => {
                let channels = channels(&self.config, self.context, self.exact);
                Cache::Convolution(gpu.allocate(channels.cache_bytes())?)
            }
            Mixer::Recurrence(of) => {
                let of = recurrence(of, COUNTED);
                Cache::Recurrence(gpu.allocate(4 * COUNTED * of.state())?, COUNTED)
            }
        })
    }

    /// Words of a row in each cache of a layer, and how many caches it has.
    fn row_words(&self, layer: &Layer) -> (usize, usize) {
        match &layer.mixer {
            Mixer::Attention(of) if of.shares.is_some() => (0, 0),
            Mixer::Attention(of) => (heads(of, self.context, self.exact).row_words(), 2),
            Mixer::Convolution(_) => {
                let channels = channels(&self.config, self.context, self.exact);
                (channels.heads().row_words(), 1)
            }
            Mixer::Recurrence(_) => (0, 0),
        }
    }

    /// Where a part of what a text left lies, layer by layer.
    fn parts(&self, part: Part) -> Result<Vec<Buffer>, ModelError> {
        let mut parts = Vec::new();
        for (cache, layer) in self.caches.iter().zip(&self.config.layers) {
            let bytes = |rows: usize| 4 * rows * self.row_words(layer).0;
            match (cache, part, &layer.mixer) {
                (Cache::Attention(caches), Part::Rows(rows), _) => {
                    for cache in caches {
                        parts.push(cache.part(0, bytes(rows))?);
                    }
                }
                (Cache::Convolution(cache), Part::Rows(rows), _) => {
                    parts.push(cache.part(0, bytes(rows))?);
                }
                (Cache::Recurrence(states, _), Part::State(slot), Mixer::Recurrence(of)) => {
                    let bytes = 4 * of.state();
                    parts.push(states.part(slot * bytes, bytes)?);
                }
                _ => {}
            }
        }
        Ok(parts)
    }

    /// Allocates the KV cache once, for the whole context.
    fn reserve(&mut self) -> Result<(), ModelError> {
        if self.caches.len() == self.config.layers.len() {
            return Ok(());
        }
        for layer in &self.config.layers[self.caches.len()..] {
            let cache = self.cache(layer)?;
            self.caches.push(cache);
        }
        // Moves none: the first winner that has to move may come in any round, and finds all made.
        self.move_rows(0, 0, 0)
    }
}

impl GpuDecoder {
    /// Makes room for the states that these runs leave, where they are more than those there are.
    fn make_room(&mut self, runs: &[Run]) -> Result<(), ModelError> {
        let needed = runs.iter().map(|run| run.to + 1).max().unwrap_or_default();
        for (cache, layer) in self.caches.iter_mut().zip(&self.config.layers) {
            if let (Cache::Recurrence(states, slots), Mixer::Recurrence(of)) = (cache, &layer.mixer)
                && *slots < needed
            {
                let more = self.gpu.allocate(4 * needed * of.state())?;
                self.gpu.copy_into(states, &more)?;
                (*states, *slots) = (more, needed);
            }
        }
        Ok(())
    }

    /// Tells the kernels of the runs of a pass, where there are recurrent states.
    fn write_runs(&self, runs: &[Run]) -> Result<Option<RunStates<'_>>, ModelError> {
        let Some(of) = &self.scratch.runs else {
            return Ok(None);
        };
        let mut steps: Vec<[u32; 2]> = Vec::new();
        let mut all = Vec::with_capacity(runs.len());
        for run in runs {
            let words = words_of(steps.len(), run);
            all.push(words);
            steps.extend((0..words[1]).map(|before| [before, words[2]]));
        }
        let gpu = &self.gpu;
        gpu.write(&of.steps.part(0, 8 * steps.len())?, &steps)?;
        gpu.write(&of.runs.part(0, 16 * all.len())?, &all)?;
        Ok(Some(RunStates {
            steps: &of.steps,
            runs: &of.runs,
            count: all.len(),
        }))
    }

    /// The same of a draft's first step, and of all others, which step on in place: what is bound.
    fn write_steps(&self, first: Run) -> Result<Vec<[Buffer; 2]>, ModelError> {
        let Some(of) = &self.scratch.runs else {
            return Ok(Vec::new());
        };
        let [steps, runs] = &of.drafted;
        let froms = [first.from, Some(first.to)].into_iter().enumerate();
        let parts = froms.map(|(step, from)| {
            let (tokens, to) = (1, first.to);
            let words = words_of(0, &Run { tokens, from, to });
            // Where every device binds a part.
            let (steps, runs) = (steps.part(256 * step, 8)?, runs.part(256 * step, 16)?);
            self.gpu.write(&steps, &[0, words[2]])?;
            self.gpu.write(&runs, &words)?;
            Ok([steps, runs])
        });
        parts.collect()
    }
}

impl Decoder for GpuDecoder {
    fn set_ropes(&mut self, long: bool) -> Result<(), ModelError> {
        self.ropes.clear();
        for rope in &self.config.ropes {
            let table = rope.table(self.context, long);
            self.ropes.push(self.gpu.upload(&table)?);
        }
        Ok(())
    }

    fn run(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError> {
        self.reserve()?;
        self.make_room(&pass.runs)?;
        let (gpu, s) = (&self.gpu, &self.scratch);
        let mut first = 0;
        let portions = pass.tokens.chunks(TOKENS).zip(pass.places.chunks(TOKENS));
        let mut slot = slot as u32;
        for (tokens, places) in portions {
            let count = tokens.len();
            let chunks = self.chunks(count, pass.rows());
            gpu.write(&s.ids.part(0, 4 * count)?, tokens)?;
            gpu.write(&s.places.part(0, 16 * count)?, places)?;
            gpu.write(&s.counts, &[count as u32, chunks as u32, slot, 0])?;
            let states = self.write_runs(&pass.runs_of(first..first + count))?;
            first += count;
            self.blocks(Step {
                rows: Rows {
                    count,
                    counts: &s.counts,
                },
                chunks,
                ids: &s.ids,
                places: &s.places,
                states,
            })?;
            let all = [SLOTS, self.config.hidden];
            put_rows(gpu, &s.stream, count, (&s.counts, 2), &s.states, all)?;
            slot += count as u32;
        }
        Ok(())
    }

    fn draft<'a>(
        &'a mut self,
        prefix: usize,
        steps: usize,
        draws: Draws,
        random: &'a [u32],
        states: Option<Run>,
    ) -> Wait<'a, Option<Vec<u32>>> {
        Box::pin(async move {
            self.reserve()?;
            self.make_room(states.as_slice())?;
            let (gpu, c, s) = (&self.gpu, &self.config, &self.scratch);
            let chunks = self.chunks(1, prefix + steps);
            let place = Place {
                position: prefix as u32 - 1,
                row: prefix as u32 - 1,
                start: prefix as u32,
                prefix: prefix as u32,
            };
            gpu.write(&s.random.part(0, 4 * steps)?, random)?;
            gpu.write(&s.next, &[0_u32; 2])?;
            gpu.write(&s.place, &[place])?;
            gpu.write(&s.step, &[1, chunks as u32, 0, 0])?;
            let run = Step {
                rows: Rows {
                    count: 1,
                    counts: &s.step,
                },
                chunks,
                ids: &s.next,
                places: &s.place,
                states: None,
            };
            let runs = match states {
                Some(first) => self.write_steps(first)?,
                None => Vec::new(),
            };
            let draws = Draws {
                softcap: c.logit_softcap,
                ..draws
            };
            let buffers = DrawBuffers {
                random: &s.random,
                scratch: &s.sampling,
                drawn: &s.drawn,
                next: &s.next,
                place: &s.place,
            };
            let (head, bias) = self.weights.head();
            let fused = Fused {
                norm: Some(Norm {
                    weight: &self.weights.norm,
                    epsilon: c.stream_epsilon(),
                    scratch: &s.normed,
                    inside: true,
                }),
                bias,
                ..Fused::default()
            };
            let first = s.states.part(4 * c.hidden * PREFIX, 4 * c.hidden)?;
            for step in 0..steps {
                let state = if step == 0 { &first } else { &s.stream };
                product(gpu, state, run.rows, &[head], fused, &s.logits)?;
                // Room for the most, so that launches of shorter drafts are the same.
                sample(gpu, &s.logits, c.vocabulary, MOST_DRAFTED, draws, buffers)?;
                if step + 1 < steps {
                    let states = runs.get(step.min(1)).map(|[steps, runs]| RunStates {
                        steps,
                        runs,
                        count: 1,
                    });
                    self.blocks(Step { states, ..run })?;
                    // The number of draws so far is the slot: drafts begin at the first.
                    const { assert!(DRAFT == 1) };
                    put_rows(
                        gpu,
                        &s.stream,
                        1,
                        (&s.next, 1),
                        &s.states,
                        [SLOTS, c.hidden],
                    )?;
                }
            }
            let drawn = s.drawn.part(0, 4 * steps)?;
            let read = gpu.read(&[&drawn]).await?;
            let ids: Vec<u32> = read
                .first()
                .map(|bytes| bytemuck::pod_collect_to_vec(bytes))
                .unwrap_or_default();
            match ids.contains(&NO_TOKEN) {
                true => Err(ModelError::NotFinite),
                false => Ok(Some(ids)),
            }
        })
    }

    fn keep_state(&mut self, slot: usize) -> Result<(), ModelError> {
        let (gpu, s, all) = (&self.gpu, &self.scratch, [SLOTS, self.config.hidden]);
        gpu.write(&s.picks.part(0, 4)?, &[slot as u32])?;
        gather_rows(gpu, &s.states, all, &s.picks, 1, &s.stream)?;
        const { assert!(PREFIX == 0) };
        gpu.write(&s.counts, &[0_u32; 4])?;
        Ok(put_rows(gpu, &s.stream, 1, (&s.counts, 3), &s.states, all)?)
    }

    fn logits<'a>(&'a mut self, slots: &'a [usize]) -> Wait<'a, Vec<Vec<f32>>> {
        Box::pin(async move {
            let (gpu, c, s) = (&self.gpu, &self.config, &self.scratch);
            let (head, bias) = self.weights.head();
            let at_once = (LOGITS_BYTES / (4 * c.vocabulary)).clamp(1, SCORED);
            let mut all = Vec::with_capacity(slots.len());
            for slots in slots.chunks(at_once) {
                let logits = gpu.allocate(4 * slots.len() * c.vocabulary)?;
                let picks: Vec<u32> = slots.iter().map(|&slot| slot as u32).collect();
                gpu.write(&s.picks.part(0, 4 * slots.len())?, &picks)?;
                gpu.write(&s.portions.part(0, 4)?, &[slots.len() as u32])?;
                let rows = Rows {
                    count: slots.len(),
                    counts: &s.portions,
                };
                self.pick(&s.picks, rows)?;
                let fused = Fused {
                    bias,
                    ..Fused::default()
                };
                product(gpu, &s.normed, rows, &[head], fused, &logits)?;
                let read = gpu.read_f32(&[&logits]).await?;
                let mut flat = read.into_iter().next().unwrap_or_default();
                if let Some(cap) = c.logit_softcap {
                    flat.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
                }
                all.extend(flat.chunks(c.vocabulary).map(<[f32]>::to_vec));
            }
            Ok(all)
        })
    }

    fn scores<'a>(
        &'a mut self,
        slots: &'a [usize],
        targets: &'a [u32],
        logprobs: bool,
    ) -> Wait<'a, Vec<TargetScore>> {
        Box::pin(async move {
            let (gpu, s) = (&self.gpu, &self.scratch);
            let (weight, bias) = self.weights.head();
            if logprobs {
                gpu.self_test_scores(weight.format()).await?;
            }
            let head = Head {
                weight,
                bias,
                softcap: self.config.logit_softcap,
            };
            let picks: Vec<u32> = slots.iter().map(|&slot| slot as u32).collect();
            let portions = slots.chunks(SCORED).flat_map(|portion| {
                let mut rows = [0_u32; 64];
                rows[0] = portion.len() as u32;
                rows
            });
            let portions: Vec<u32> = portions.collect();
            gpu.write(&s.picks.part(0, 4 * picks.len())?, &picks)?;
            gpu.write(&s.targets.part(0, 4 * targets.len())?, targets)?;
            gpu.write(&s.portions.part(0, 4 * portions.len())?, &portions)?;
            let numbers = if logprobs { 2 } else { 1 };
            for (portion, slots) in slots.chunks(SCORED).enumerate() {
                // A portion's numbers begin where every device binds a part.
                const { assert!(SCORED == 64) };
                let part = |buffer: &Buffer, words: usize| {
                    let bytes = 4 * words * SCORED;
                    buffer.part(portion * bytes, bytes)
                };
                let counts = part(&s.portions, 1)?;
                let rows = Rows {
                    count: slots.len(),
                    counts: &counts,
                };
                self.pick(&part(&s.picks, 1)?, rows)?;
                let (targets, out) = (part(&s.targets, 1)?, part(&s.scores, numbers)?);
                match logprobs {
                    true => score_head(gpu, &s.normed, rows, &targets, head, &s.tiles, &out)?,
                    false => target_logits(gpu, &s.normed, rows, &targets, head, &out)?,
                }
            }
            let scores = s.scores.part(0, 4 * numbers * slots.len())?;
            let read = gpu.read_f32(&[&scores]).await?;
            let each = read.iter().flat_map(|scores| scores.chunks_exact(numbers));
            let score = |numbers: &[f32]| TargetScore {
                logit: numbers[0],
                log_sum_exp: numbers.get(1).copied(),
            };
            Ok(each.map(score).collect())
        })
    }

    fn move_rows(&mut self, from: usize, to: usize, count: usize) -> Result<(), ModelError> {
        let moves = &self.scratch.moves;
        self.gpu
            .write(moves, &[from as u32, to as u32, count as u32, 0])?;
        for (cache, layer) in self.caches.iter().zip(&self.config.layers) {
            let (heads, caches) = match (cache, &layer.mixer) {
                (Cache::Shared, _) => continue,
                (Cache::Attention([keys, values]), Mixer::Attention(of)) => (
                    heads(of, self.context, self.exact),
                    Caches::Pair([keys, values]),
                ),
                (Cache::Convolution(cache), _) => {
                    let channels = channels(&self.config, self.context, self.exact);
                    (channels.heads(), Caches::One(cache))
                }
                (Cache::Recurrence(..), _) => continue,
                _ => return Err(ModelError::Order("a block's cache is another block's")),
            };
            keep_rows(&self.gpu, moves, heads, caches)?;
        }
        Ok(())
    }

    fn footprint(&self) -> Option<Footprint> {
        let words = self.config.layers.iter().map(|layer| {
            let (words, caches) = self.row_words(layer);
            words * caches
        });
        let states = self.config.recurrences().map(config::Recurrence::state);
        Some(Footprint {
            layout: "gpu",
            token: 4 * words.sum::<usize>(),
            state: 4 * states.sum::<usize>(),
        })
    }

    fn save(&mut self, part: Part) -> Wait<'_, Vec<u8>> {
        Box::pin(async move {
            let parts = self.parts(part)?;
            let mut bytes = Vec::with_capacity(parts.iter().map(Buffer::bytes).sum());
            let mut rest = parts.iter().peekable();
            while rest.peek().is_some() {
                let mut taken = 0;
                let mut at_once = Vec::new();
                while let Some(part) = rest.next_if(|_| taken < READ_BYTES) {
                    taken += part.bytes();
                    at_once.push(part);
                }
                for read in self.gpu.read(&at_once).await? {
                    bytes.extend_from_slice(&read);
                }
            }
            Ok(bytes)
        })
    }

    fn restore(&mut self, part: Part, bytes: &[u8]) -> Result<(), ModelError> {
        self.reserve()?;
        if let Part::State(slot) = part {
            let (tokens, from) = (0, None);
            self.make_room(&[Run {
                tokens,
                from,
                to: slot,
            }])?;
        }
        let mut rest = bytes;
        for part in self.parts(part)? {
            let (own, behind) = rest.split_at_checked(part.bytes()).unwrap_or((rest, &[]));
            self.gpu.write(&part, own)?;
            rest = behind;
        }
        Ok(())
    }

    fn settle(&self) -> Wait<'_, ()> {
        Box::pin(async move { Ok(self.gpu.sync().await?) })
    }

    fn release(&mut self) {
        self.caches.clear();
    }

    fn prefill_chunk(&self) -> usize {
        gpu_chunk(self.parameters, self.config.layers.len())
    }
}
