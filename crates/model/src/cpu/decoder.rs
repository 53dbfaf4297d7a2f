//! The decoder on the CPU: matrices stay quantised, and keys and values are 16 bits a number where
//! matrices are rounded too.

use std::future::ready;

use conclave_cpu::{
    Carry, ConvolutionCache, Matrix, RecurrentState, Threads, judge, log_sum_exp, rows, softcap,
    target_logits,
};

use super::operations::{CpuPass, Scratch, multiply, recurrence_of, seen};
use super::weights::{CpuLayout, Vector};
use crate::cache;
use crate::config::{self, Config};
use crate::decoder::{Decoder, Footprint, Part, Wait};
use crate::error::ModelError;
use crate::forward::forward;
use crate::fused::FusedWeights;
use crate::pass::{Pass, TargetScore, rows_of};
use crate::prefill::CPU_CHUNK;
use crate::slots::{PREFIX, SLOTS};
use crate::weights::Weights;

/// Number of weights from which a model's steps take longer than threads take to start.
const WORTH_THREADS: usize = 1 << 24;

/// A layer's cache: keys and values; rows of a convolution; or states of a recurrence by slot,
/// `None` until a pass leaves one there.
pub type Cache = cache::Cache<conclave_cpu::Cache, ConvolutionCache, Vec<Option<RecurrentState>>>;

/// A transformer with its KV cache in the memory of the machine.
#[derive(Debug)]
pub struct CpuDecoder {
    config: Config,
    context: usize,
    threads: Threads,
    weights: FusedWeights<CpuLayout>,
    /// Whether keys and values are f32: those of a model of plain numbers, which is meant to be
    /// exact, or is small.
    exact: bool,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    ropes: Vec<Vec<f32>>,
    /// Empty while released.
    caches: Vec<Cache>,
    scratch: Scratch,
    /// The residual stream after the last block by slot, `[SLOTS, hidden]`; empty while released.
    states: Vec<f32>,
    /// ln Σ exp of all logits after the state in each slot, if computed. Those of a draft are known
    /// from drawing its tokens, so that verifying it does not compute them again.
    log_sums: Vec<Option<f32>>,
}

impl CpuDecoder {
    /// A decoder with an empty KV cache.
    pub fn new(
        weights: Weights<Matrix, Vector>,
        config: &Config,
        context: usize,
        threads: Threads,
    ) -> Result<Self, ModelError> {
        let exact = !weights.matrices().any(Matrix::is_quantised);
        let numbers: usize = weights.matrices().map(|m| m.rows() * m.cols()).sum();
        let mut decoder = Self {
            config: config.clone(),
            context,
            threads: if numbers < WORTH_THREADS {
                Threads::ONE
            } else {
                threads
            },
            weights: FusedWeights::new(&CpuLayout::default(), weights)?,
            exact,
            ropes: Vec::new(),
            caches: Vec::new(),
            scratch: Scratch::default(),
            states: Vec::new(),
            log_sums: Vec::new(),
        };
        decoder.rotate_by(false);
        Ok(decoder)
    }

    /// Makes the tables of the short or the long frequencies.
    fn rotate_by(&mut self, long: bool) {
        let tables = self.config.ropes.iter();
        self.ropes = tables.map(|rope| rope.table(self.context, long)).collect();
    }

    /// Saves or restores a part of a text's footprint, layer by layer.
    fn carry(&mut self, part: Part, mut carry: Carry<'_>) {
        self.reserve();
        for (cache, layer) in self.caches.iter_mut().zip(&self.config.layers) {
            match (cache, part, &layer.mixer) {
                (Cache::Attention(cache), Part::Rows(rows), _) => cache.carry(rows, &mut carry),
                (Cache::Convolution(cache), Part::Rows(rows), _) => cache.carry(rows, &mut carry),
                (Cache::Recurrence(states), Part::State(slot), config::Mixer::Recurrence(of)) => {
                    if states.len() <= slot {
                        states.resize(slot + 1, None);
                    }
                    let new = || recurrence_of(of).state();
                    states[slot].get_or_insert_with(new).carry(&mut carry);
                }
                _ => {}
            }
        }
    }

    /// Allocates the KV cache once, for the whole context, and room for the states.
    fn reserve(&mut self) {
        let exact = self.exact;
        let (c, rows) = (&self.config, rows_of(self.context));
        let missing = c.layers.iter().skip(self.caches.len());
        let cache = |layer: &config::Layer| match layer.mixer {
            config::Mixer::Attention(of) if of.shares.is_some() => Cache::Shared,
            config::Mixer::Attention(of) => {
                let cache = conclave_cpu::Cache::new(rows, of.kv_heads, of.head_dim, exact);
                Cache::Attention(cache)
            }
            config::Mixer::Convolution(_) => {
                Cache::Convolution(ConvolutionCache::new(rows, c.hidden, exact))
            }
            config::Mixer::Recurrence(_) => Cache::Recurrence(Vec::new()),
        };
        self.caches.extend(missing.map(cache));
        self.states.resize(SLOTS * c.hidden, 0.0);
        self.log_sums.resize(SLOTS, None);
    }

    /// Takes the states of some slots as input of the output matrix.
    fn pick(&mut self, slots: impl Iterator<Item = usize>) -> Result<(), ModelError> {
        let (c, s) = (&self.config, &mut self.scratch);
        s.normed.clear();
        for slot in slots {
            let state = self.states.chunks_exact(c.hidden).nth(slot);
            s.normed.extend_from_slice(state.ok_or(NO_STATE)?);
        }
        let norm = self.weights.output(c).norm;
        rows::rms_norm(&mut s.normed, norm.weight, norm.epsilon);
        s.input.set(&s.normed, c.hidden);
        Ok(())
    }

    /// Logits of the states in these slots, in their order.
    fn logits_of(&mut self, slots: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.pick(slots.iter().copied())?;
        let Scratch { input, added, .. } = &mut self.scratch;
        let output = self.weights.output(&self.config);
        multiply(output.weight, output.bias, input, added)?;
        if let Some(cap) = output.softcap {
            softcap(added, cap);
        }
        let rows = added.chunks_exact(self.config.vocabulary);
        for (&slot, row) in slots.iter().zip(rows.clone()) {
            self.log_sums[slot] = Some(log_sum_exp(row));
        }
        Ok(rows.map(<[f32]>::to_vec).collect())
    }

    /// Raw logits of the targets, each from one row of the output matrix.
    fn logits_at(&mut self, slots: &[usize], targets: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.pick(slots.iter().copied())?;
        let output = self.weights.output(&self.config);
        let (bias, cap) = (output.bias.map(Vec::as_slice), output.softcap);
        let input = &self.scratch.input;
        Ok(target_logits(output.weight, bias, cap, input, targets)?)
    }

    /// Scores of the targets. Where ln Σ exp of all logits is known from the draft or from another
    /// target, one row of the output matrix is read; elsewhere all of it.
    fn judge(&mut self, slots: &[usize], targets: &[u32]) -> Result<Vec<TargetScore>, ModelError> {
        // Candidates that begin alike, or the same, are judged by the same states.
        let mut unknown: Vec<(usize, u32)> = Vec::new();
        for (&slot, &target) in slots.iter().zip(targets) {
            let known = self.log_sums.get(slot).ok_or(NO_STATE)?.is_some();
            if !known && unknown.iter().all(|(other, _)| *other != slot) {
                unknown.push((slot, target));
            }
        }
        if !unknown.is_empty() {
            let (slots, targets): (Vec<usize>, Vec<u32>) = unknown.into_iter().unzip();
            self.pick(slots.iter().copied())?;
            let Scratch { input, added, .. } = &mut self.scratch;
            let output = self.weights.output(&self.config);
            let (bias, cap) = (output.bias.map(Vec::as_slice), output.softcap);
            let judged = judge(output.weight, bias, cap, input, &targets, added)?;
            for (slot, judged) in slots.into_iter().zip(judged) {
                self.log_sums[slot] = Some(judged.log_sum_exp);
            }
        }
        let logits = self.logits_at(slots, targets)?;
        let score = |(logit, &slot)| TargetScore {
            logit,
            log_sum_exp: self.log_sums[slot],
        };
        Ok(logits.into_iter().zip(slots).map(score).collect())
    }
}

/// Bytes of states, and of the activations of a prompt's chunk.
pub fn scratch_bytes(c: &Config) -> u64 {
    const NUMBER: usize = size_of::<f32>();
    let widest = |width: fn(&config::Attention) -> usize| {
        c.attentions().map(width).max().unwrap_or_default()
    };
    let (query, kv) = (
        widest(config::Attention::query_width),
        widest(config::Attention::kv_width),
    );
    let recurrent = |width: fn(&config::Recurrence) -> usize| {
        c.recurrences().map(width).max().unwrap_or_default()
    };
    let (channels, values) = (
        recurrent(config::Recurrence::channels),
        recurrent(config::Recurrence::values),
    );
    let wide = query.max(3 * c.hidden).max(channels);
    let attended = query.max(values);
    let gates = c.feed_forward().max(values) + c.feed_forward().max(channels);
    // As input of a product, numbers are there once more in 16 bits with their sums.
    let input = 2 * c.hidden.max(attended).max(c.feed_forward());
    let parts = c.layers.len() * c.per_layer.unwrap_or_default();
    // A router's logits, the tokens' rows, and an expert's results.
    let of_experts = |of: &config::Experts| of.count + 2 * c.hidden;
    let experts = c.experts().map(of_experts).max().unwrap_or_default();
    let a_token = 3 * c.hidden + wide + 2 * kv + attended + gates + input + parts;
    let a_token = a_token + experts;
    let states = SLOTS * c.hidden;
    ((states + CPU_CHUNK * a_token + 2 * c.vocabulary) * NUMBER) as u64
}

/// Error for a slot that is read before the first pass.
const NO_STATE: ModelError = ModelError::Order("no pass has run whose logits could be read");

impl CpuDecoder {
    fn pass(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError> {
        self.reserve();
        let hidden = self.config.hidden;
        let mut operations = CpuPass {
            config: &self.config,
            ropes: &self.ropes,
            caches: &mut self.caches,
            scratch: &mut self.scratch,
            pass,
            seen: seen(&self.config, pass),
        };
        forward(&mut operations, &self.config, &self.weights)?;
        let stream = &self.scratch.stream;
        self.states[slot * hidden..][..stream.len()].copy_from_slice(stream);
        self.log_sums[slot..][..pass.len()].fill(None);
        Ok(())
    }
}

impl Decoder for CpuDecoder {
    fn run(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError> {
        self.threads.run(|| self.pass(pass, slot))
    }

    fn keep_state(&mut self, slot: usize) -> Result<(), ModelError> {
        let hidden = self.config.hidden;
        if self.states.is_empty() {
            return Err(NO_STATE);
        }
        self.states
            .copy_within(slot * hidden..(slot + 1) * hidden, PREFIX * hidden);
        self.log_sums[PREFIX] = self.log_sums[slot];
        Ok(())
    }

    fn logits<'a>(&'a mut self, slots: &'a [usize]) -> Wait<'a, Vec<Vec<f32>>> {
        Box::pin(ready(self.threads.run(|| self.logits_of(slots))))
    }

    fn hidden<'a>(&'a mut self, slots: &'a [usize]) -> Wait<'a, Vec<Vec<f32>>> {
        let picked = self.pick(slots.iter().copied()).map(|()| {
            let rows = self.scratch.normed.chunks_exact(self.config.hidden);
            rows.map(<[f32]>::to_vec).collect()
        });
        Box::pin(ready(picked))
    }

    fn scores<'a>(
        &'a mut self,
        slots: &'a [usize],
        targets: &'a [u32],
        logprobs: bool,
    ) -> Wait<'a, Vec<TargetScore>> {
        let scores = self.threads.run(|| match logprobs {
            true => self.judge(slots, targets),
            false => self.logits_at(slots, targets).map(|logits| {
                let score = |logit| TargetScore {
                    logit,
                    log_sum_exp: None,
                };
                logits.into_iter().map(score).collect()
            }),
        });
        Box::pin(ready(scores))
    }

    fn move_rows(&mut self, from: usize, to: usize, count: usize) -> Result<(), ModelError> {
        for cache in &mut self.caches {
            match cache {
                Cache::Attention(cache) => cache.move_rows(from, to, count),
                Cache::Convolution(cache) => cache.move_rows(from, to, count),
                Cache::Recurrence(_) | Cache::Shared => {}
            }
        }
        Ok(())
    }

    fn set_ropes(&mut self, long: bool) -> Result<(), ModelError> {
        self.rotate_by(long);
        Ok(())
    }

    fn footprint(&self) -> Option<Footprint> {
        let (c, exact) = (&self.config, self.exact);
        let row = |layer: &config::Layer| match layer.mixer {
            config::Mixer::Attention(of) if of.shares.is_some() => 0,
            config::Mixer::Attention(of) => {
                conclave_cpu::Cache::row_bytes(of.kv_heads, of.head_dim, exact)
            }
            config::Mixer::Convolution(_) => {
                ConvolutionCache::bytes_of(1, c.hidden, exact) as usize
            }
            config::Mixer::Recurrence(_) => 0,
        };
        let states = c.recurrences().map(config::Recurrence::state);
        Some(Footprint {
            layout: "cpu",
            token: c.layers.iter().map(row).sum(),
            state: size_of::<f32>() * states.sum::<usize>(),
        })
    }

    fn save(&mut self, part: Part) -> Wait<'_, Vec<u8>> {
        let room = self.footprint().and_then(|of| of.bytes(part));
        let mut bytes = Vec::with_capacity(room.unwrap_or_default());
        self.carry(part, Carry::Out(&mut bytes));
        Box::pin(ready(Ok(bytes)))
    }

    fn restore(&mut self, part: Part, bytes: &[u8]) -> Result<(), ModelError> {
        self.carry(part, Carry::In(bytes));
        Ok(())
    }

    fn threads(&self) -> Threads {
        self.threads
    }

    fn release(&mut self) {
        self.caches = Vec::new();
        self.scratch = Scratch::default();
        self.states = Vec::new();
        self.log_sums = Vec::new();
    }

    fn even_chunk(&self) -> Option<usize> {
        None
    }
}
