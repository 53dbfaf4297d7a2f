//! The decoder's operations in our products and functions of rows.

use conclave_cpu::{
    Input, Matrix, RecurrentInputs, RecurrentState, RecurrentWeights, Routing, Seen,
    recurrent_gates, rows,
};

use super::decoder::Cache;
use super::weights::{CpuLayout, Vector};
use crate::cache::OTHER_CACHE;
use crate::config::{self, Activation, Config, Gating, QkNorm, Rule};
use crate::error::ModelError;
use crate::fused::{FusedConvolution, FusedRecurrence};
use crate::operations::{
    Attention, HeadNorms, LayerInputs, Norm, Operations, Projection, Residual,
};
use crate::pass::{Pass, Run};
use crate::states::NO_STATE;
use crate::weights::{Experts, Linear, PerLayer};

/// Activations of one pass, each `[tokens, …]`; reused for their memory.
#[derive(Debug, Default)]
pub struct Scratch {
    pub stream: Vec<f32>,
    /// Input of the next product: the normalised stream, or the branch.
    pub input: Input,
    pub normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    attended: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    pub added: Vec<f32>,
    /// Own inputs of all layers, `[tokens, layers, width]`.
    per_layer: Vec<f32>,
    scores: Vec<f32>,
}

/// The operations on one pass. The branch is `scratch.input`.
#[derive(Debug)]
pub struct CpuPass<'a> {
    pub config: &'a Config,
    /// cos and sin of each rotary embedding, `[context, dimensions / 2, 2]`.
    pub ropes: &'a [Vec<f32>],
    pub caches: &'a mut [Cache],
    pub scratch: &'a mut Scratch,
    pub pass: &'a Pass,
    /// Rows visible to each token, for each different window of the layers.
    pub seen: Vec<(Option<u32>, Vec<Seen>)>,
}

/// Rows visible to each token of a pass, for each different window of the layers, of which there
/// are few.
pub fn seen(config: &Config, pass: &Pass) -> Vec<(Option<u32>, Vec<Seen>)> {
    let mut seen: Vec<(Option<u32>, Vec<Seen>)> = Vec::new();
    for of in config.attentions() {
        if seen.iter().all(|(window, _)| *window != of.window) {
            let places = pass.places.iter();
            let rows = places.map(|place| place.sees(of.window));
            let rows = rows.map(|(prefix, own)| Seen { prefix, own }).collect();
            seen.push((of.window, rows));
        }
    }
    seen
}

impl CpuPass<'_> {
    /// Takes the stream as input of products, normalised where there is a norm.
    fn normalise(&mut self, norm: Option<Norm<'_, Vector>>) {
        let (s, hidden) = (&mut self.scratch, self.config.hidden);
        match norm {
            Some(norm) => {
                s.normed.clone_from(&s.stream);
                rows::rms_norm(&mut s.normed, norm.weight, norm.epsilon);
                s.input.set(&s.normed, hidden);
            }
            None => s.input.set(&s.stream, hidden),
        }
    }

    /// Adds `scratch.added` to the stream.
    fn add_made(&mut self, residual: Residual<'_, Vector>) {
        let s = &mut self.scratch;
        if let Some(norm) = residual.norm {
            rows::rms_norm(&mut s.added, norm.weight, norm.epsilon);
        }
        rows::add(&mut s.stream, &s.added);
        if let Some(&[scale]) = residual.scale.map(Vec::as_slice) {
            s.stream.iter_mut().for_each(|x| *x *= scale);
        }
    }
}

impl Operations for CpuPass<'_> {
    type Layout = CpuLayout;

    fn embed(&mut self, embedding: &Matrix, scale: f32) -> Result<(), ModelError> {
        let (stream, hidden) = (&mut self.scratch.stream, self.config.hidden);
        stream.clear();
        stream.resize(self.pass.len() * hidden, 0.0);
        for (row, &id) in stream.chunks_exact_mut(hidden).zip(&self.pass.tokens) {
            embedding.row(id as usize, row)?;
            row.iter_mut().for_each(|x| *x *= scale);
        }
        Ok(())
    }

    fn layer_inputs(
        &mut self,
        weights: &PerLayer<Matrix, Vector>,
        of: LayerInputs,
    ) -> Result<(), ModelError> {
        let s = &mut self.scratch;
        s.input.set(&s.stream, self.config.hidden);
        multiply(&weights.projection, None, &s.input, &mut s.per_layer)?;
        rows::rms_norm(&mut s.per_layer, &weights.norm, of.epsilon);
        let all = of.layers * of.width;
        s.added.resize(all, 0.0);
        let tokens = s.per_layer.chunks_exact_mut(all);
        for (row, &id) in tokens.zip(&self.pass.tokens) {
            weights.embedding.row(id as usize, &mut s.added)?;
            s.added.iter_mut().for_each(|x| *x *= of.scale);
            rows::add(row, &s.added);
        }
        Ok(())
    }

    fn attend(
        &mut self,
        input: Projection<'_, Vec<Linear<Matrix, Vector>>, Vector>,
        step: Attention<'_, Vector>,
    ) -> Result<(), ModelError> {
        let Projection { norm, weights } = input;
        self.normalise(norm);
        let (s, pass, of) = (&mut *self.scratch, self.pass, &step.of);
        let Some(Cache::Attention(cache)) = self.caches.get_mut(step.cache) else {
            return Err(OTHER_CACHE);
        };
        let rotate = |heads: &mut [f32], position: u32| {
            if let Some(rope) = step.rotary {
                let table = &self.ropes[rope.table];
                let rotation = &table[position as usize * rope.dimensions..][..rope.dimensions];
                rows::rotate(heads, of.head_dim, rotation);
            }
        };
        let own = match &weights[..] {
            [query, key, value] => {
                let all = [
                    (query, &mut s.query),
                    (key, &mut s.key),
                    (value, &mut s.value),
                ];
                products(all, &s.input)?;
                true
            }
            [query] => {
                product(query, &s.input, &mut s.query)?;
                false
            }
            _ => return Err(OTHER_MIXER),
        };
        if of.gate {
            take_gates(of.head_dim, s);
        }
        let (norms, query, kv) = (&step.norms, of.query_width(), of.kv_width());
        normalise_heads(&mut s.query, norms, norms.query, false);
        for (query, place) in s.query.chunks_exact_mut(query).zip(&pass.places) {
            rotate(query, place.position);
        }
        normalise_heads(&mut s.query, norms, norms.query, true);
        if own {
            normalise_heads(&mut s.key, norms, norms.key, false);
            if norms.values {
                rows::rms_norm(&mut s.value, &vec![1.0; of.head_dim], norms.epsilon);
            }
            let rows = s.key.chunks_exact_mut(kv).zip(s.value.chunks_exact(kv));
            for ((key, value), place) in rows.zip(&pass.places) {
                rotate(key, place.position);
                normalise_heads(key, norms, norms.key, true);
                cache.write(place.row as usize, key, value);
            }
        }
        let attention = conclave_cpu::Attention {
            heads: of.heads,
            scale: step.scores.scale,
            softcap: step.scores.softcap,
        };
        let window = step.scores.window;
        let seen = self.seen.iter().find(|(other, _)| *other == window);
        let seen = seen.map_or(&[][..], |(_, seen)| seen);
        s.attended.resize(s.query.len(), 0.0);
        attention.run(cache, &s.query, seen, &mut s.scores, &mut s.attended);
        if of.gate {
            rows::mul_sigmoid(&mut s.attended, &s.gate);
        }
        s.input.set(&s.attended, query);
        Ok(())
    }

    fn convolve(
        &mut self,
        input: Projection<'_, Vec<Linear<Matrix, Vector>>, Vector>,
        convolution: &FusedConvolution<Vector>,
        layer: usize,
    ) -> Result<(), ModelError> {
        let Projection { norm, weights } = input;
        self.normalise(norm);
        let (s, pass, hidden) = (&mut *self.scratch, self.pass, self.config.hidden);
        let Some(Cache::Convolution(cache)) = self.caches.get_mut(layer) else {
            return Err(OTHER_CACHE);
        };
        let [weights] = &weights[..] else {
            return Err(OTHER_MIXER);
        };
        // B, C and x of a token side by side.
        product(weights, &s.input, &mut s.query)?;
        let tokens = s.query.chunks_exact(3 * hidden).zip(&pass.places);
        for (row, place) in tokens.clone() {
            cache.write(place.row as usize, &row[..hidden], &row[2 * hidden..]);
        }
        s.attended.resize(pass.len() * hidden, 0.0);
        let (taps, bias) = (&convolution.taps, convolution.bias.as_deref());
        for ((row, place), out) in tokens.zip(s.attended.chunks_exact_mut(hidden)) {
            let oldest_first = (0..convolution.of.taps as u32).rev();
            let rows: Vec<Option<usize>> =
                oldest_first.map(|tokens| place.before(tokens)).collect();
            cache.convolve(&rows, taps, bias, &row[hidden..2 * hidden], out);
        }
        s.input.set(&s.attended, hidden);
        Ok(())
    }

    fn recur(
        &mut self,
        input: Projection<'_, Vec<Linear<Matrix, Vector>>, Vector>,
        weights: &FusedRecurrence<Vector>,
        layer: usize,
        epsilon: f32,
    ) -> Result<(), ModelError> {
        let Projection {
            norm,
            weights: products,
        } = input;
        self.normalise(norm);
        let (s, pass, of) = (&mut *self.scratch, self.pass, &weights.of);
        let Some(Cache::Recurrence(kept)) = self.caches.get_mut(layer) else {
            return Err(OTHER_CACHE);
        };
        let [input, gate, share @ .., decay] = &products[..] else {
            return Err(OTHER_MIXER);
        };
        product(input, &s.input, &mut s.query)?;
        product(gate, &s.input, &mut s.gate)?;
        for share in share {
            product(share, &s.input, &mut s.key)?;
        }
        product(decay, &s.input, &mut s.value)?;
        let recurrence = recurrence_of(of);
        let own = RecurrentWeights {
            taps: &weights.taps,
            bias: weights.taps_bias.as_deref(),
            skip: weights.skip.as_deref(),
        };
        let (share, decay) = (&mut s.key, &mut s.value);
        let (bias, rate) = (&weights.decay_bias, &weights.decay_rate);
        recurrent_gates(recurrence.rule, share, decay, bias, rate);
        s.attended.resize(pass.len() * of.values(), 0.0);
        let mut first = 0;
        for run in &pass.runs {
            let tokens = first..first + run.tokens;
            let of_tokens = |width: usize| tokens.start * width..tokens.end * width;
            let mut state = begin(kept, run, &recurrence).ok_or(NO_STATE)?;
            let inputs = RecurrentInputs {
                qkv: &s.query[of_tokens(of.channels())],
                share: &s.key[of_tokens(of.value_heads)],
                decay: &s.value[of_tokens(of.value_heads)],
            };
            let out = &mut s.attended[of_tokens(of.values())];
            recurrence.run(&mut state, inputs, own, &mut s.up, out);
            kept[run.to] = Some(state);
            first = tokens.end;
        }
        match of.rule {
            Rule::Delta => {
                rows::rms_norm(&mut s.attended, &weights.norm, epsilon);
                rows::gated(rows::Activation::Silu, &mut s.gate, &s.attended);
            }
            Rule::StateSpace => {
                rows::gated(rows::Activation::Silu, &mut s.gate, &s.attended);
                let [_, width] = of.normed();
                for row in s.gate.chunks_exact_mut(of.values()) {
                    let weights = weights.norm.chunks_exact(width);
                    for (group, weight) in row.chunks_exact_mut(width).zip(weights) {
                        rows::rms_norm(group, weight, epsilon);
                    }
                }
            }
        }
        s.input.set(&s.gate, of.values());
        Ok(())
    }

    fn gate(
        &mut self,
        input: Projection<'_, [Linear<Matrix, Vector>; 2], Vector>,
        activation: Activation,
    ) -> Result<(), ModelError> {
        self.normalise(input.norm);
        let (s, [gate, up]) = (&mut *self.scratch, input.weights);
        products([(gate, &mut s.gate), (up, &mut s.up)], &s.input)?;
        rows::gated(of_rows(activation), &mut s.gate, &s.up);
        s.input.set(&s.gate, gate.weight.rows());
        Ok(())
    }

    fn gate_layer_input(
        &mut self,
        gate: &Vec<Linear<Matrix, Vector>>,
        layer: usize,
        activation: Activation,
    ) -> Result<(), ModelError> {
        self.normalise(None);
        let s = &mut *self.scratch;
        let gate = alone(gate)?;
        product(gate, &s.input, &mut s.gate)?;
        let width = gate.weight.rows();
        let parts = s.per_layer.chunks_exact(self.config.layers.len() * width);
        for (gate, part) in s.gate.chunks_exact_mut(width).zip(parts) {
            rows::gated(of_rows(activation), gate, &part[layer * width..][..width]);
        }
        s.input.set(&s.gate, width);
        Ok(())
    }

    fn add(
        &mut self,
        weights: &Vec<Linear<Matrix, Vector>>,
        residual: Residual<'_, Vector>,
    ) -> Result<(), ModelError> {
        let s = &mut *self.scratch;
        product(alone(weights)?, &s.input, &mut s.added)?;
        self.add_made(residual);
        Ok(())
    }

    /// Runs one expert after the other, each on all tokens that use it.
    fn add_experts(
        &mut self,
        input: Projection<'_, Experts<Matrix, Vector>, Vector>,
        activation: Activation,
        residual: Residual<'_, Vector>,
    ) -> Result<(), ModelError> {
        self.normalise(input.norm);
        let (s, experts, of) = (&mut *self.scratch, input.weights, &input.weights.of);
        let hidden = self.config.hidden;
        let chosen = choose(experts, s)?;
        // The tokens' rows in their order, as what goes in has them.
        let rows = s.input.numbers().to_vec();
        s.added.clear();
        s.added.resize(s.input.rows() * hidden, 0.0);
        for expert in 0..of.count {
            let its = chosen.iter().filter(|(other, ..)| *other == expert);
            s.normed.clear();
            for &(_, token, _) in its.clone() {
                s.normed
                    .extend_from_slice(&rows[token * hidden..][..hidden]);
            }
            if s.normed.is_empty() {
                continue;
            }
            s.input.set(&s.normed, hidden);
            let all = expert * of.width..(expert + 1) * of.width;
            experts
                .gate
                .times_part(&s.input, all.clone(), &mut s.gate)?;
            experts.up.times_part(&s.input, all, &mut s.up)?;
            rows::gated(of_rows(activation), &mut s.gate, &s.up);
            s.input.set(&s.gate, of.width);
            let all = expert * hidden..(expert + 1) * hidden;
            experts.down.times_part(&s.input, all, &mut s.value)?;
            for (&(_, token, weight), made) in its.zip(s.value.chunks_exact(hidden)) {
                rows::add_times(&mut s.added[token * hidden..][..hidden], made, weight);
            }
        }
        self.add_made(residual);
        Ok(())
    }
}

/// Error for a projection of another kind than its mixer's.
const OTHER_MIXER: ModelError = ModelError::Order("a block's projection is another mixer's");

/// The one linear map of a product.
fn alone(weights: &[Linear<Matrix, Vector>]) -> Result<&Linear<Matrix, Vector>, ModelError> {
    match weights {
        [one] => Ok(one),
        _ => Err(OTHER_MIXER),
    }
}

/// Normalises heads before their rotation or after it (`rotated`). The norm is over as many numbers
/// as `weight` has: one head, or all heads together.
fn normalise_heads(
    x: &mut [f32],
    norms: &HeadNorms<'_, Vector>,
    weight: Option<&Vector>,
    rotated: bool,
) {
    match weight {
        Some(weight) if (norms.kind == QkNorm::Rotated) == rotated => {
            rows::rms_norm(x, weight, norms.epsilon);
        }
        _ => {}
    }
}

/// Takes the gate after each head of `width` out of `s.query`, into `s.gate`.
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

/// The settings of a recurrence, in conclave-cpu's terms.
pub fn recurrence_of(of: &config::Recurrence) -> conclave_cpu::Recurrence {
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

/// Takes the state from which a run begins, in the memory of the slot that the run overwrites.
/// `None` if no pass has left the state that `run.from` names.
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

/// The experts of each token of `s.input`: expert, token, and the factor on the expert's result.
fn choose(
    experts: &Experts<Matrix, Vector>,
    s: &mut Scratch,
) -> Result<Vec<(usize, usize, f32)>, ModelError> {
    let of = &experts.of;
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
    Ok(chosen)
}

fn of_rows(activation: Activation) -> rows::Activation {
    match activation {
        Activation::Silu => rows::Activation::Silu,
        Activation::Gelu => rows::Activation::Gelu,
    }
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

/// `x · Wᵀ + bias`.
pub fn multiply(
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
