//! The decoder as launches of our WGSL kernels.
//!
//! Weights stay quantised on the GPU, keys and values have 16 bits a number (32 where no weight is
//! quantised), activations f32. A step of one token takes six launches a block (one more over a
//! long prefix, one more for each norm after a product, three more where a block has an input
//! of its own besides the stream, six more for experts in place of an MLP; on software adapters
//! eight, since they keep two norms apart). Launches only queue work: the CPU waits where ids,
//! logits or scores are read, once for a whole draft and once for a whole verify pass.

use conclave_kernels::{
    Buffer, Caches, DrawBuffers, Draws, Fused, Gpu, Head, Launcher, Matrix, NO_SLOT, NO_TOKEN,
    Norm as GpuNorm, Place, Rows, gather_rows, keep_rows, pick_norm, product, put_rows, sample,
    score_head, target_logits,
};

use super::caches::Cache;
use super::operations::{GpuPass, RunStates, Step};
use super::scratch::{SCORED, Scratch, TOKENS, channels, heads};
use super::weights::Gate;
use crate::cache::OTHER_CACHE;
use crate::config::{self, Config, Mixer};
use crate::decoder::{Decoder, Footprint, Part, Wait};
use crate::error::ModelError;
use crate::forward::forward;
use crate::fused::{FusedBlock, FusedFeedForward, FusedWeights};
use crate::memory::exact_with;
use crate::operations::Norm;
use crate::pass::{Pass, Run, TargetScore};
use crate::prefill::{Pace, gpu_chunk};
use crate::slots::{DRAFT, MOST_DRAFTED, PREFIX, SLOTS};
use crate::weights::{FeedForward, Weights};

/// Bytes of logits held at once; more rows are taken in portions.
const LOGITS_BYTES: usize = 64 << 20;

/// Bytes of a prefix that are read back at once.
const READ_BYTES: usize = 16 << 20;

/// A transformer with its KV cache on the GPU.
#[derive(Debug)]
pub struct GpuDecoder {
    pub(super) gpu: Launcher,
    pub(super) config: Config,
    pub(super) context: usize,
    weights: FusedWeights<Gpu>,
    /// Number of weights that a token is multiplied with.
    pub(super) parameters: u64,
    pace: Pace,
    /// Whether keys and values are f32.
    pub(super) exact: bool,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    pub(super) ropes: Vec<Buffer>,
    pub(super) scratch: Scratch<Buffer>,
    /// Empty while released.
    pub(super) caches: Vec<Cache>,
}

/// Description of a run for the kernels: first token, number of tokens, and both slots. `first` is
/// the index of its first token in the pass.
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
        let layout: &Gpu = gpu;
        let weights = FusedWeights::new(layout, weights)?;
        let apart = |block: &FusedBlock<Gpu>| match &block.feed_forward {
            FusedFeedForward::Dense { gate, .. } => matches!(gate, Gate::Apart(_)),
            FusedFeedForward::Experts(_) => false,
        };
        let apart = weights.blocks.iter().any(apart);
        let mut decoder = Self {
            gpu: gpu.clone(),
            config: config.clone(),
            context,
            weights,
            parameters,
            pace: Pace::new(parameters, config.layers.len()),
            exact,
            ropes: Vec::new(),
            scratch: Scratch::new(gpu, config, context, apart)?,
            caches: Vec::new(),
        };
        decoder.set_ropes(false)?;
        Ok(decoder)
    }

    /// Embedding and blocks: the residual stream after the last one, in `scratch.stream`.
    fn blocks(&self, step: Step<'_>) -> Result<(), ModelError> {
        forward(&mut GpuPass::new(self, step), &self.config, &self.weights)
    }

    /// Normed hidden states of the slots in `picks`, in `scratch.normed`.
    fn pick(&self, picks: &Buffer, rows: Rows<'_>) -> Result<(), ModelError> {
        let (c, s) = (&self.config, &self.scratch);
        let states = (&s.states, [SLOTS, c.hidden]);
        let Norm { weight, epsilon } = self.weights.output(c).norm;
        let norm = (weight, epsilon);
        Ok(pick_norm(&self.gpu, states, picks, rows, norm, &s.normed)?)
    }

    /// The same for at most [`SCORED`] slots, which are written to the device; returns the rows to
    /// read.
    fn picked(&self, slots: &[usize]) -> Result<Rows<'_>, ModelError> {
        let (gpu, s) = (&self.gpu, &self.scratch);
        let picks: Vec<u32> = slots.iter().map(|&slot| slot as u32).collect();
        gpu.write(&s.picks.part(0, 4 * slots.len())?, &picks)?;
        gpu.write(&s.portions.part(0, 4)?, &[slots.len() as u32])?;
        let rows = Rows {
            count: slots.len(),
            counts: &s.portions,
        };
        self.pick(&s.picks, rows)?;
        Ok(rows)
    }

    /// Number of chunks into which the keys of a pass are divided, whose tokens see up to `keys`
    /// rows.
    fn chunks(&self, tokens: usize, keys: usize) -> usize {
        let all = self.config.attentions();
        let all = all.map(|of| heads(of, self.context, self.exact));
        self.gpu.attention_chunks(tokens, all, keys)
    }

    /// Writes the runs of a pass for the kernels, where there are recurrent states.
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

    /// The same for the first step of a draft, and for all later ones, which begin and end in one
    /// slot; returns the buffers to bind.
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
        self.pace.begin(pass.len());
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
        begun: &'a [u32],
        draws: Draws,
        random: &'a [u32],
        states: Option<Run>,
    ) -> Wait<'a, Option<Vec<u32>>> {
        Box::pin(async move {
            self.reserve()?;
            self.make_room(states.as_slice())?;
            let (gpu, c, s) = (&self.gpu, &self.config, &self.scratch);
            let drawn = begun.len()..begun.len() + random.len();
            let chunks = self.chunks(1, prefix + drawn.end);
            let last = (prefix + begun.len()) as u32 - 1;
            let place = Place {
                position: last,
                row: last,
                start: prefix as u32,
                prefix: prefix as u32,
            };
            let part = |buffer: &Buffer| buffer.part(4 * drawn.start, 4 * drawn.len());
            gpu.write(&part(&s.random)?, random)?;
            let id = begun.last().copied().unwrap_or(0);
            gpu.write(&s.next, &[id, begun.len() as u32])?;
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
            let output = self.weights.output(c);
            let draws = Draws {
                softcap: output.softcap,
                ..draws
            };
            let buffers = DrawBuffers {
                random: &s.random,
                scratch: &s.sampling,
                drawn: &s.drawn,
                next: &s.next,
                place: &s.place,
            };
            let fused = Fused {
                norm: Some(GpuNorm {
                    weight: output.norm.weight,
                    epsilon: output.norm.epsilon,
                    scratch: &s.normed,
                    inside: true,
                }),
                bias: output.bias,
                ..Fused::default()
            };
            let advance = |step: usize| -> Result<(), ModelError> {
                let states = runs.get(step.min(1)).map(|[steps, runs]| RunStates {
                    steps,
                    runs,
                    count: 1,
                });
                self.blocks(Step { states, ..run })?;
                // The number of tokens so far is the slot: drafts begin at the first.
                const { assert!(DRAFT == 1) };
                let all = [SLOTS, c.hidden];
                Ok(put_rows(gpu, &s.stream, 1, (&s.next, 1), &s.states, all)?)
            };
            if !begun.is_empty() {
                advance(0)?;
            }
            let first = s.states.part(4 * c.hidden * PREFIX, 4 * c.hidden)?;
            for step in drawn.clone() {
                let state = if step == 0 { &first } else { &s.stream };
                product(gpu, state, run.rows, &[output.weight], fused, &s.logits)?;
                // Room for the most, so that launches of shorter drafts are the same.
                sample(gpu, &s.logits, c.vocabulary, MOST_DRAFTED, draws, buffers)?;
                if step + 1 < drawn.end {
                    advance(step)?;
                }
            }
            let read = gpu.read(&[&part(&s.drawn)?]).await?;
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
            let output = self.weights.output(c);
            let at_once = (LOGITS_BYTES / (4 * c.vocabulary)).clamp(1, SCORED);
            let mut all = Vec::with_capacity(slots.len());
            for slots in slots.chunks(at_once) {
                let logits = gpu.allocate(4 * slots.len() * c.vocabulary)?;
                let rows = self.picked(slots)?;
                let fused = Fused {
                    bias: output.bias,
                    ..Fused::default()
                };
                product(gpu, &s.normed, rows, &[output.weight], fused, &logits)?;
                let read = gpu.read_f32(&[&logits]).await?;
                let mut flat = read.into_iter().next().unwrap_or_default();
                if let Some(cap) = output.softcap {
                    flat.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
                }
                all.extend(flat.chunks(c.vocabulary).map(<[f32]>::to_vec));
            }
            Ok(all)
        })
    }

    fn hidden<'a>(&'a mut self, slots: &'a [usize]) -> Wait<'a, Vec<Vec<f32>>> {
        Box::pin(async move {
            let (width, normed) = (self.config.hidden, &self.scratch.normed);
            let mut all = Vec::with_capacity(slots.len());
            for slots in slots.chunks(SCORED) {
                self.picked(slots)?;
                let part = normed.part(0, 4 * slots.len() * width)?;
                for flat in self.gpu.read_f32(&[&part]).await? {
                    all.extend(flat.chunks(width).map(<[f32]>::to_vec));
                }
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
            let output = self.weights.output(&self.config);
            if logprobs {
                gpu.self_test_scores(output.weight.format()).await?;
            }
            let head = Head {
                weight: output.weight,
                bias: output.bias,
                softcap: output.softcap,
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
                    true => score_head(gpu, &s.normed, rows, &targets, head, [&s.tiles, &out])?,
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
                (Cache::Recurrence(_), _) => continue,
                _ => return Err(OTHER_CACHE),
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
            let (own, others) = rest.split_at_checked(part.bytes()).unwrap_or((rest, &[]));
            self.gpu.write(&part, own)?;
            rest = others;
        }
        Ok(())
    }

    fn settle(&self) -> Wait<'_, ()> {
        Box::pin(async move {
            self.gpu.sync().await?;
            self.pace.end();
            Ok(())
        })
    }

    fn release(&mut self) {
        self.caches.clear();
    }

    fn prefill_chunk(&self) -> usize {
        self.pace.tokens()
    }

    fn even_chunk(&self) -> Option<usize> {
        // Serial threads sum a row alike in every product.
        let chunk = gpu_chunk(self.parameters, self.config.layers.len());
        (!self.gpu.choices().serial).then_some(chunk)
    }
}
