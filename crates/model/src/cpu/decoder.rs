//! The decoder on the CPU: matrices stay quantised, and keys and values are 16 bits a number where
//! matrices are rounded too.

use std::future::ready;

use conclave_cpu::{
    Carry, ConvolutionCache, Input, Matrix, RecurrentState, RecurrentWeights, Routing, Seen,
    Threads, Upload, judge, log_sum_exp, recurrent_gates, rows, softcap, target_logits,
};
use conclave_weights::Format;

use crate::config::{self, Activation, Config, Gating, QkNorm, Rule};
use crate::decoder::{Decoder, Footprint, Part, Wait};
use crate::error::ModelError;
use crate::formats::kept_on_cpu;
use crate::pass::{Pass, Run, TargetScore, rows_of};
use crate::prefill::CPU_CHUNK;
use crate::reading::WeightSink;
use crate::slots::{PREFIX, SLOTS};
use crate::states;
use crate::weights::{
    Attention, Convolution, Experts, FeedForward, Linear, Mixer, Mlp, PerLayer, PerLayerInput,
    Recurrence, Weights,
};

type Vector = Vec<f32>;

/// Weights of a model whose steps take longer than threads take to start.
const WORTH_THREADS: usize = 1 << 24;

/// What the tokens of a text leave in one block.
#[derive(Debug)]
enum Cache {
    /// Keys and values.
    Attention(conclave_cpu::Cache),
    Convolution(ConvolutionCache),
    /// States by slot, each there from the first pass on that leaves one.
    Recurrence(Vec<Option<RecurrentState>>),
    /// Nothing: another block's serves.
    Shared,
}

/// A transformer with its KV cache in the memory of the machine.
#[derive(Debug)]
pub struct CpuDecoder {
    config: Config,
    context: usize,
    threads: Threads,
    weights: Weights<Matrix, Vector>,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    ropes: Vec<Vec<f32>>,
    /// Empty while released.
    caches: Vec<Cache>,
    scratch: Scratch,
    /// The residual stream behind the last block by slot, `[SLOTS, hidden]`; empty while released.
    states: Vec<f32>,
    /// ln Σ exp of all logits behind a state, where they were computed: what a draft was drawn by
    /// need not be computed again to judge it.
    log_sums: Vec<Option<f32>>,
}

/// Activations of one pass, each `[tokens, …]`; kept for their memory.
#[derive(Debug, Default)]
struct Scratch {
    stream: Vec<f32>,
    input: Input,
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    attended: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    added: Vec<f32>,
    /// `[tokens, layers, width]`.
    per_layer: Vec<f32>,
    scores: Vec<f32>,
}

impl CpuDecoder {
    /// A decoder with an empty KV cache.
    pub fn new(
        weights: Weights<Matrix, Vector>,
        config: &Config,
        context: usize,
        threads: Threads,
    ) -> Self {
        let numbers: usize = weights.matrices().map(|m| m.rows() * m.cols()).sum();
        let mut decoder = Self {
            config: config.clone(),
            context,
            threads: if numbers < WORTH_THREADS {
                Threads::ONE
            } else {
                threads
            },
            weights,
            ropes: Vec::new(),
            caches: Vec::new(),
            scratch: Scratch::default(),
            states: Vec::new(),
            log_sums: Vec::new(),
        };
        decoder.rotate_by(false);
        decoder
    }

    /// Makes the tables of the short or the long frequencies.
    fn rotate_by(&mut self, long: bool) {
        let tables = self.config.ropes.iter();
        self.ropes = tables.map(|rope| rope.table(self.context, long)).collect();
    }

    /// Whether nothing is rounded: a model of plain numbers is run to be exact, or is small.
    fn is_exact(&self) -> bool {
        !self.weights.matrices().any(Matrix::is_quantised)
    }

    /// Carries a part of what a text left, layer by layer.
    fn carry(&mut self, part: Part, mut carry: Carry<'_>) {
        self.reserve();
        for (cache, block) in self.caches.iter_mut().zip(&self.weights.blocks) {
            match (cache, part, &block.mixer) {
                (Cache::Attention(cache), Part::Rows(rows), _) => cache.carry(rows, &mut carry),
                (Cache::Convolution(cache), Part::Rows(rows), _) => cache.carry(rows, &mut carry),
                (Cache::Recurrence(states), Part::State(slot), Mixer::Recurrence(block)) => {
                    if states.len() <= slot {
                        states.resize(slot + 1, None);
                    }
                    let new = || recurrence_of(&block.of).state();
                    states[slot].get_or_insert_with(new).carry(&mut carry);
                }
                _ => {}
            }
        }
    }

    /// Allocates the KV cache once, for the whole context, and room for the states.
    fn reserve(&mut self) {
        let exact = self.is_exact();
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
        rows::rms_norm(&mut s.normed, &self.weights.norm, c.stream_epsilon());
        s.input.set(&s.normed, c.hidden);
        Ok(())
    }

    /// Logits of the states in these slots, one behind another.
    fn logits_of(&mut self, slots: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.pick(slots.iter().copied())?;
        let Scratch { input, added, .. } = &mut self.scratch;
        let (weight, bias) = self.weights.head();
        multiply(weight, bias, input, added)?;
        if let Some(cap) = self.config.logit_softcap {
            softcap(added, cap);
        }
        let rows = added.chunks_exact(self.config.vocabulary);
        for (&slot, row) in slots.iter().zip(rows.clone()) {
            self.log_sums[slot] = Some(log_sum_exp(row));
        }
        Ok(rows.map(<[f32]>::to_vec).collect())
    }

    /// Raw logits of targets, by one row of the output matrix each.
    fn logits_at(&mut self, slots: &[usize], targets: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.pick(slots.iter().copied())?;
        let (weight, bias) = self.weights.head();
        let (bias, cap) = (bias.map(Vec::as_slice), self.config.logit_softcap);
        let input = &self.scratch.input;
        Ok(target_logits(weight, bias, cap, input, targets)?)
    }

    /// Scores of targets, by one row of the output matrix each where the ln Σ exp of all logits is
    /// known from the draft or another target, and by all of it elsewhere.
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
            let (weight, bias) = self.weights.head();
            let (bias, cap) = (bias.map(Vec::as_slice), self.config.logit_softcap);
            let judged = judge(weight, bias, cap, input, &targets, added)?;
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
    // A router's logits, the tokens' rows, and what an expert makes of its own.
    let of_experts = |of: &config::Experts| of.count + 2 * c.hidden;
    let experts = c.experts().map(of_experts).max().unwrap_or_default();
    let a_token = 3 * c.hidden + wide + 2 * kv + attended + gates + input + parts;
    let a_token = a_token + experts;
    let states = SLOTS * c.hidden;
    ((states + CPU_CHUNK * a_token + 2 * c.vocabulary) * NUMBER) as u64
}

/// A slot is asked for before the first pass.
const NO_STATE: ModelError = ModelError::Order("no pass has run whose logits could be read");

/// Caches are made from the layers that the blocks are planned by.
const OTHER_CACHE: ModelError = ModelError::Order("a block's cache is another block's");

impl CpuDecoder {
    fn pass(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError> {
        self.reserve();
        let c = &self.config;
        let s = &mut self.scratch;
        s.stream.clear();
        s.stream.resize(pass.len() * c.hidden, 0.0);
        for (row, &id) in s.stream.chunks_exact_mut(c.hidden).zip(&pass.tokens) {
            self.weights.embedding.row(id as usize, row)?;
            row.iter_mut().for_each(|x| *x *= c.stream_scale());
        }
        // Layers have few different windows.
        let mut seen: Vec<(Option<u32>, Vec<Seen>)> = Vec::new();
        for of in c.attentions() {
            if seen.iter().all(|(window, _)| *window != of.window) {
                let places = pass.places.iter();
                let rows = places.map(|place| place.sees(of.window));
                let rows = rows.map(|(prefix, own)| Seen { prefix, own }).collect();
                seen.push((of.window, rows));
            }
        }
        if let Some(weights) = &self.weights.per_layer {
            per_layer(c, weights, pass, s)?;
        }
        for (index, block) in self.weights.blocks.iter().enumerate() {
            before(c, &block.mixer_norm, s);
            let shares = |block: &Attention<_, _>| block.of.shares.unwrap_or(index);
            match &block.mixer {
                Mixer::Attention(block) => {
                    let of_window = seen.iter().find(|(window, _)| *window == block.of.window);
                    let seen = of_window.map_or(&[][..], |(_, seen)| seen);
                    let Some(Cache::Attention(cache)) = self.caches.get_mut(shares(block)) else {
                        return Err(OTHER_CACHE);
                    };
                    attend(c, block, cache, &self.ropes, pass, seen, s)?;
                }
                Mixer::Convolution(block) => {
                    let Some(Cache::Convolution(cache)) = self.caches.get_mut(index) else {
                        return Err(OTHER_CACHE);
                    };
                    convolve(c, block, cache, pass, s)?;
                }
                Mixer::Recurrence(block) => {
                    let Some(Cache::Recurrence(states)) = self.caches.get_mut(index) else {
                        return Err(OTHER_CACHE);
                    };
                    recurrence(c, block, states, pass, s)?;
                }
            }
            post(c, &block.mixer_post_norm, s);
            before(c, &block.feed_forward_norm, s);
            match &block.feed_forward {
                FeedForward::Dense(mlp) => feed_forward(c, mlp, s)?,
                FeedForward::Experts(experts) => go_through(c, experts, s)?,
            }
            post(c, &block.feed_forward_post_norm, s);
            if let Some(weights) = &block.per_layer {
                take_in(c, weights, index, s)?;
            }
            if let Some(&[scale]) = block.scale.as_deref() {
                s.stream.iter_mut().for_each(|x| *x *= scale);
            }
        }
        self.states[slot * c.hidden..][..s.stream.len()].copy_from_slice(&s.stream);
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
        let (c, exact) = (&self.config, self.is_exact());
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

    fn release(&mut self) {
        self.caches = Vec::new();
        self.scratch = Scratch::default();
        self.states = Vec::new();
        self.log_sums = Vec::new();
    }
}

impl Weights<Matrix, Vector> {
    /// The output matrix and its bias.
    fn head(&self) -> (&Matrix, Option<&Vector>) {
        match &self.head {
            Some(head) => (&head.weight, head.bias.as_ref()),
            None => (&self.embedding, None),
        }
    }
}

/// Attention of one block with its output product, from `s.input` into `s.added`.
fn attend(
    c: &Config,
    block: &Attention<Matrix, Vector>,
    cache: &mut conclave_cpu::Cache,
    ropes: &[Vec<f32>],
    pass: &Pass,
    seen: &[Seen],
    s: &mut Scratch,
) -> Result<(), ModelError> {
    let of = block.of;
    // Over each head or over all together, as long as the weight is.
    let normalise = |x: &mut [f32], norm: &Option<Vector>, behind: bool| match norm {
        Some(norm) if (c.qk_norm == QkNorm::Rotated) == behind => {
            rows::rms_norm(x, norm, c.norm_epsilon);
        }
        _ => {}
    };
    let (query, kv) = (of.query_width(), of.kv_width());
    let rotate = |heads: &mut [f32], position: u32| {
        if let Some(rope) = of.rope {
            let rotary = c.ropes[rope].rotary_dim;
            let rotation = &ropes[rope][position as usize * rotary..][..rotary];
            rows::rotate(heads, of.head_dim, rotation);
        }
    };
    match &block.own {
        Some(own) => products(
            [
                (&block.query, &mut s.query),
                (&own.key, &mut s.key),
                (&own.value, &mut s.value),
            ],
            &s.input,
        )?,
        None => product(&block.query, &s.input, &mut s.query)?,
    }
    if of.gate {
        take_gates(of.head_dim, s);
    }
    normalise(&mut s.query, &block.query_norm, false);
    for (query, place) in s.query.chunks_exact_mut(query).zip(&pass.places) {
        rotate(query, place.position);
    }
    normalise(&mut s.query, &block.query_norm, true);
    if let Some(own) = &block.own {
        normalise(&mut s.key, &own.key_norm, false);
        if c.value_norm {
            rows::rms_norm(&mut s.value, &vec![1.0; of.head_dim], c.norm_epsilon);
        }
        let rows = s.key.chunks_exact_mut(kv).zip(s.value.chunks_exact(kv));
        for ((key, value), place) in rows.zip(&pass.places) {
            rotate(key, place.position);
            normalise(key, &own.key_norm, true);
            cache.write(place.row as usize, key, value);
        }
    }
    let attention = conclave_cpu::Attention {
        heads: of.heads,
        scale: c.attention_scale,
        softcap: c.attention_softcap,
    };
    s.attended.resize(s.query.len(), 0.0);
    attention.run(cache, &s.query, seen, &mut s.scores, &mut s.attended);
    if of.gate {
        rows::mul_sigmoid(&mut s.attended, &s.gate);
    }
    s.input.set(&s.attended, query);
    product(&block.output, &s.input, &mut s.added)
}

/// Takes the gate behind each head of `width` out of `s.query`, into `s.gate`.
fn take_gates(width: usize, s: &mut Scratch) {
    s.gate.clear();
    for pair in s.query.chunks_exact(2 * width) {
        s.gate.extend_from_slice(&pair[width..]);
    }
    let heads = s.gate.len() / width;
    for head in 0..heads {
        let from = 2 * head * width;
        s.query.copy_within(from..from + width, head * width);
    }
    s.query.truncate(heads * width);
}

/// The gated convolution of one block with its output product, from `s.input` into `s.added`.
fn convolve(
    c: &Config,
    block: &Convolution<Matrix, Vector>,
    cache: &mut ConvolutionCache,
    pass: &Pass,
    s: &mut Scratch,
) -> Result<(), ModelError> {
    // B, C and x of a token side by side.
    product(&block.input, &s.input, &mut s.query)?;
    let tokens = s.query.chunks_exact(3 * c.hidden).zip(&pass.places);
    for (row, place) in tokens.clone() {
        cache.write(place.row as usize, &row[..c.hidden], &row[2 * c.hidden..]);
    }
    s.attended.resize(pass.len() * c.hidden, 0.0);
    let bias = block.bias.as_deref();
    for ((row, place), out) in tokens.zip(s.attended.chunks_exact_mut(c.hidden)) {
        let oldest_first = (0..block.of.taps as u32).rev();
        let rows: Vec<Option<usize>> = oldest_first.map(|tokens| place.before(tokens)).collect();
        cache.convolve(&rows, &block.taps, bias, &row[c.hidden..2 * c.hidden], out);
    }
    s.input.set(&s.attended, c.hidden);
    product(&block.output, &s.input, &mut s.added)
}

/// The recurrence of one block with its output product, from `s.input` into `s.added`.
fn recurrence(
    c: &Config,
    block: &Recurrence<Matrix, Vector>,
    kept: &mut Vec<Option<RecurrentState>>,
    pass: &Pass,
    s: &mut Scratch,
) -> Result<(), ModelError> {
    let of = block.of;
    let recurrence = recurrence_of(&of);
    let weights = RecurrentWeights {
        taps: &block.taps,
        bias: block.taps_bias.as_deref(),
        skip: block.skip.as_deref(),
    };
    product(&block.input, &s.input, &mut s.query)?;
    product(&block.gate, &s.input, &mut s.gate)?;
    if let Some(share) = &block.share {
        product(share, &s.input, &mut s.key)?;
    }
    product(&block.decay, &s.input, &mut s.value)?;
    let (share, decay) = (&mut s.key, &mut s.value);
    recurrent_gates(
        recurrence.rule,
        share,
        decay,
        &block.decay_bias,
        &block.decay_rate,
    );
    s.attended.resize(pass.len() * of.values(), 0.0);
    let mut first = 0;
    for run in &pass.runs {
        let tokens = first..first + run.tokens;
        let of_tokens = |width: usize| tokens.start * width..tokens.end * width;
        let mut state = begin(kept, run, &recurrence).ok_or(states::NO_STATE)?;
        recurrence.run(
            &mut state,
            &s.query[of_tokens(of.channels())],
            weights,
            &s.key[of_tokens(of.value_heads)],
            &s.value[of_tokens(of.value_heads)],
            &mut s.up,
            &mut s.attended[of_tokens(of.values())],
        );
        kept[run.to] = Some(state);
        first = tokens.end;
    }
    match of.rule {
        Rule::Delta => {
            rows::rms_norm(&mut s.attended, &block.norm, c.norm_epsilon);
            rows::gated(rows::Activation::Silu, &mut s.gate, &s.attended);
        }
        Rule::StateSpace => {
            rows::gated(rows::Activation::Silu, &mut s.gate, &s.attended);
            let [_, width] = of.normed();
            for row in s.gate.chunks_exact_mut(of.values()) {
                let weights = block.norm.chunks_exact(width);
                for (group, weight) in row.chunks_exact_mut(width).zip(weights) {
                    rows::rms_norm(group, weight, c.norm_epsilon);
                }
            }
        }
    }
    s.input.set(&s.gate, of.values());
    product(&block.output, &s.input, &mut s.added)
}

/// A recurrence as its arithmetic knows it.
fn recurrence_of(of: &config::Recurrence) -> conclave_cpu::Recurrence {
    conclave_cpu::Recurrence {
        rule: match of.rule {
            Rule::Delta => conclave_cpu::Rule::Delta,
            Rule::StateSpace => conclave_cpu::Rule::StateSpace,
        },
        key_heads: of.key_heads,
        value_heads: of.value_heads,
        key_width: of.key_width,
        value_width: of.value_width,
        taps: of.taps,
        tiled: of.tiled,
    }
}

/// The state that a run begins from, in the memory of the one that it writes over; `None` where it
/// is to begin from one that nobody has left.
fn begin(
    states: &mut Vec<Option<RecurrentState>>,
    run: &Run,
    net: &conclave_cpu::Recurrence,
) -> Option<RecurrentState> {
    if states.len() <= run.to {
        states.resize(run.to + 1, None);
    }
    let old = states[run.to].take();
    if run.from == Some(run.to) {
        return old;
    }
    let mut state = old.unwrap_or_else(|| net.state());
    match run.from {
        Some(from) => state.copy(states.get(from)?.as_ref()?),
        None => state.clear(),
    }
    Some(state)
}

/// The gated MLP of one block, from `s.input` into `s.added`.
fn feed_forward(c: &Config, mlp: &Mlp<Matrix, Vector>, s: &mut Scratch) -> Result<(), ModelError> {
    products([(&mlp.gate, &mut s.gate), (&mlp.up, &mut s.up)], &s.input)?;
    rows::gated(activation(c), &mut s.gate, &s.up);
    s.input.set(&s.gate, mlp.gate.weight.rows());
    product(&mlp.down, &s.input, &mut s.added)
}

/// The mixture of experts of one block, from `s.input` into `s.added`: expert by expert, with the
/// tokens that chose it.
fn go_through(
    c: &Config,
    experts: &Experts<Matrix, Vector>,
    s: &mut Scratch,
) -> Result<(), ModelError> {
    let of = experts.of;
    multiply(&experts.router, None, &s.input, &mut s.scores)?;
    let routing = Routing {
        used: of.used,
        softmax: of.gating == Gating::Softmax,
        choice_bias: experts.choice_bias.as_deref(),
        normalised: of.normalised.then_some(config::Experts::EPSILON),
        scale: of.scale,
    };
    let mut chosen = Vec::with_capacity(s.input.rows() * of.used);
    for (token, logits) in s.scores.chunks_exact_mut(of.count).enumerate() {
        let choices = routing.choose(logits).into_iter();
        chosen.extend(choices.map(|(expert, weight)| (expert, token, weight)));
    }
    // The tokens' rows one behind another, as what goes in has them.
    let rows = s.input.numbers().to_vec();
    s.added.clear();
    s.added.resize(s.input.rows() * c.hidden, 0.0);
    for expert in 0..of.count {
        let its = chosen.iter().filter(|(other, ..)| *other == expert);
        s.normed.clear();
        for &(_, token, _) in its.clone() {
            s.normed
                .extend_from_slice(&rows[token * c.hidden..][..c.hidden]);
        }
        if s.normed.is_empty() {
            continue;
        }
        s.input.set(&s.normed, c.hidden);
        let all = expert * of.width..(expert + 1) * of.width;
        experts
            .gate
            .times_part(&s.input, all.clone(), &mut s.gate)?;
        experts.up.times_part(&s.input, all, &mut s.up)?;
        rows::gated(activation(c), &mut s.gate, &s.up);
        s.input.set(&s.gate, of.width);
        let all = expert * c.hidden..(expert + 1) * c.hidden;
        experts.down.times_part(&s.input, all, &mut s.value)?;
        for (&(_, token, weight), made) in its.zip(s.value.chunks_exact(c.hidden)) {
            rows::add_times(&mut s.added[token * c.hidden..][..c.hidden], made, weight);
        }
    }
    Ok(())
}

/// What each layer is given of each token, into `s.per_layer`; the stream is still the embedding.
fn per_layer(
    c: &Config,
    weights: &PerLayer<Matrix, Vector>,
    pass: &Pass,
    s: &mut Scratch,
) -> Result<(), ModelError> {
    s.input.set(&s.stream, c.hidden);
    multiply(&weights.projection, None, &s.input, &mut s.per_layer)?;
    rows::rms_norm(&mut s.per_layer, &weights.norm, c.per_layer_epsilon());
    let all = weights.embedding.cols();
    s.added.resize(all, 0.0);
    let scale = Config::per_layer_scale(weights.norm.len());
    for (row, &id) in s.per_layer.chunks_exact_mut(all).zip(&pass.tokens) {
        weights.embedding.row(id as usize, &mut s.added)?;
        s.added.iter_mut().for_each(|x| *x *= scale);
        rows::add(row, &s.added);
    }
    Ok(())
}

/// Adds to the stream what block `index` makes of its part of each token.
fn take_in(
    c: &Config,
    weights: &PerLayerInput<Matrix, Vector>,
    index: usize,
    s: &mut Scratch,
) -> Result<(), ModelError> {
    s.input.set(&s.stream, c.hidden);
    product(&weights.gate, &s.input, &mut s.gate)?;
    let width = weights.gate.weight.rows();
    let parts = s.per_layer.chunks_exact(c.layers.len() * width);
    for (gate, part) in s.gate.chunks_exact_mut(width).zip(parts) {
        rows::gated(activation(c), gate, &part[index * width..][..width]);
    }
    s.input.set(&s.gate, width);
    product(&weights.projection, &s.input, &mut s.added)?;
    rows::rms_norm(&mut s.added, &weights.norm, c.norm_epsilon);
    rows::add(&mut s.stream, &s.added);
    Ok(())
}

fn activation(c: &Config) -> rows::Activation {
    match c.activation {
        Activation::Silu => rows::Activation::Silu,
        Activation::Gelu => rows::Activation::Gelu,
    }
}

/// Takes the stream as input as a block reads it: behind its norm, where it has one.
fn before(c: &Config, norm: &Option<Vector>, s: &mut Scratch) {
    match norm {
        Some(norm) => {
            s.normed.clone_from(&s.stream);
            rows::rms_norm(&mut s.normed, norm, c.stream_epsilon());
            s.input.set(&s.normed, c.hidden);
        }
        None => s.input.set(&s.stream, c.hidden),
    }
}

/// Adds `s.added` to the stream: behind its norm, where it has one.
fn post(c: &Config, norm: &Option<Vector>, s: &mut Scratch) {
    if let Some(norm) = norm {
        rows::rms_norm(&mut s.added, norm, c.norm_epsilon);
    }
    rows::add(&mut s.stream, &s.added);
}

/// [`product`] with several matrices, which threads share all at once.
fn products<const N: usize>(
    mut of: [(&Linear<Matrix, Vector>, &mut Vec<f32>); N],
    input: &Input,
) -> Result<(), ModelError> {
    let pairs = of.each_mut().map(|(linear, out)| {
        out.resize(input.rows() * linear.weight.rows(), 0.0);
        (&linear.weight, &mut out[..])
    });
    conclave_cpu::products(input, pairs)?;
    for (linear, out) in of {
        if let Some(bias) = &linear.bias {
            rows::add_bias(out, bias);
        }
    }
    Ok(())
}

/// `x · Wᵀ + bias`.
fn product(
    linear: &Linear<Matrix, Vector>,
    input: &Input,
    out: &mut Vec<f32>,
) -> Result<(), ModelError> {
    multiply(&linear.weight, linear.bias.as_ref(), input, out)
}

fn multiply(
    weight: &Matrix,
    bias: Option<&Vector>,
    input: &Input,
    out: &mut Vec<f32>,
) -> Result<(), ModelError> {
    out.resize(input.rows() * weight.rows(), 0.0);
    weight.times(input, 0..weight.rows(), out)?;
    if let Some(bias) = bias {
        rows::add_bias(out, bias);
    }
    Ok(())
}

/// Keeps weights as the CPU's products read them.
#[derive(Debug)]
pub struct CpuWeights {
    /// What plain numbers are rounded to.
    pub quantise: Option<Format>,
}

impl WeightSink for CpuWeights {
    type Matrix = Matrix;
    type Vector = Vector;
    type Upload = Upload;

    fn format(&self, stored: Format, cols: usize) -> Option<Format> {
        Some(kept_on_cpu(stored, cols, self.quantise))
    }

    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<Upload, ModelError> {
        Ok(Upload::begin(format, rows, cols)?)
    }

    fn push(&self, upload: &mut Upload, rows: &[u8]) -> Result<(), ModelError> {
        Ok(upload.push(rows)?)
    }

    fn finish(&self, upload: Upload) -> Result<Matrix, ModelError> {
        Ok(upload.finish()?)
    }

    fn vector(&self, values: Vec<f32>) -> Result<Vector, ModelError> {
        Ok(values)
    }
}
