//! The decoder, block by block, in burn tensor operations.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::activation::{gelu_approximate, sigmoid, silu, softmax, softplus};
use burn::tensor::{Int, IntDType, Tensor, TensorData};
use conclave_kernels::{Heads, Heard, Place, Scores};
use conclave_model::config::{self, Activation, Config, Gating, QkNorm, Rule};
use conclave_model::memory::reads_heads;
use conclave_model::pass::{Pass, Run, TargetScore, rows_of};
use conclave_model::slots::{PREFIX, SLOTS};
use conclave_model::states::NO_STATE;
use conclave_model::weights::{
    Attention, Convolution, Experts, FeedForward, Linear, Mixer, Recurrence, Weights,
};
use conclave_model::{Decoder, ModelError, Wait};

use crate::device::Burn;
use crate::operations::{self, Rows};
use crate::plain::PlainCache;
use crate::weights::Matrix;

type Vector = Tensor<1>;

/// What the tokens of a text leave in one block.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one a layer")]
enum Cache {
    /// Keys and values, as [`Heads`] says.
    Attention(Heads, KeysAndValues),
    /// Inputs of a convolution, `[rows, hidden]`.
    Convolution(Tensor<2>),
    /// States of a recurrence by slot, each there once a pass has left it.
    Recurrence(Vec<Option<RecurrentState>>),
    /// Nothing: another block's serves.
    Shared,
}

/// What the tokens of a text leave in a recurrence.
#[derive(Debug, Clone)]
struct RecurrentState {
    /// What the convolution took last, the oldest first, `[taps − 1, channels]`.
    inputs: Tensor<2>,
    /// Of each value head, `[value_heads, key_width, value_width]`.
    memory: Tensor<3>,
}

/// Keys and values of one block.
#[derive(Debug)]
enum KeysAndValues {
    /// Each `[rows, words of a row]`.
    Device([Tensor<2, Int>; 2]),
    /// Where a CPU attends.
    Host(Arc<Mutex<conclave_cpu::Cache>>),
    /// Where no kernel reads heads of the model's width.
    Plain(PlainCache),
}

/// cos and sin of a pass's positions, each `[tokens, 1, rotary_dim / 2]`.
type Rotation = (Tensor<3>, Tensor<3>);

/// A transformer with its KV cache on one burn device.
#[derive(Debug)]
pub struct BurnDecoder {
    config: Config,
    context: usize,
    weights: Weights<Matrix, Vector>,
    /// Keys and values are f32.
    exact: bool,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    ropes: Vec<Vec<f32>>,
    /// Empty while released.
    caches: Vec<Cache>,
    /// Hidden states by slot, `[SLOTS, hidden]`.
    states: Tensor<2>,
    burn: Burn,
    heard: Heard,
}

/// What all blocks of a pass are run with.
struct Common<'a> {
    /// What each layer is given of each token, `[tokens, layers, width]`.
    per_layer: Option<Tensor<3>>,
    /// Of each rotary embedding.
    rotations: Vec<Rotation>,
    places: Arc<Vec<Place>>,
    /// The same on the device, `[4 · tokens]`.
    on_device: Tensor<1, Int>,
    runs: &'a [Run],
}

impl BurnDecoder {
    /// A decoder with an empty KV cache.
    pub fn new(
        weights: Weights<Matrix, Vector>,
        config: &Config,
        context: usize,
        burn: &Burn,
    ) -> Self {
        let exact = weights.matrices().all(Matrix::is_exact);
        let mut decoder = Self {
            config: config.clone(),
            context,
            weights,
            exact,
            ropes: Vec::new(),
            caches: Vec::new(),
            states: Tensor::zeros([SLOTS, config.hidden], burn.device()),
            burn: burn.clone(),
            heard: burn.listen(),
        };
        decoder.rotate_by(false);
        decoder
    }

    /// Makes the tables of the short or the long frequencies.
    fn rotate_by(&mut self, long: bool) {
        let tables = self.config.ropes.iter();
        self.ropes = tables.map(|rope| rope.table(self.context, long)).collect();
    }

    /// What its attentions are launched with, where kernels make them.
    pub fn attentions(&self) -> Vec<(Heads, Scores)> {
        let c = &self.config;
        let scores = Scores {
            scale: c.attention_scale,
            window: None,
            softcap: c.attention_softcap,
        };
        let mut all: Vec<(Heads, Scores)> = Vec::new();
        for of in c
            .attentions()
            .filter(|of| self.burn.binding().is_some() && reads_heads(of))
        {
            let heads = self.heads(of);
            if all.iter().all(|(known, _)| *known != heads) {
                all.push((heads, scores));
            }
        }
        all
    }

    fn heads(&self, of: &config::Attention) -> Heads {
        Heads {
            heads: of.heads,
            kv_heads: of.kv_heads,
            width: of.head_dim,
            capacity: rows_of(self.context),
            exact: self.exact,
        }
    }

    /// Room for the whole context of one layer.
    fn cache(&self, layer: &config::Layer) -> Cache {
        let device = self.burn.device();
        let of = match &layer.mixer {
            config::Mixer::Attention(of) if of.shares.is_some() => return Cache::Shared,
            config::Mixer::Attention(of) => of,
            config::Mixer::Convolution(_) => {
                let shape = [rows_of(self.context), self.config.hidden];
                return Cache::Convolution(Tensor::zeros(shape, device));
            }
            config::Mixer::Recurrence(_) => return Cache::Recurrence(Vec::new()),
        };
        let heads = self.heads(of);
        let keys_and_values = match self.burn.binding() {
            Some(_) if !reads_heads(of) => KeysAndValues::Plain(PlainCache::new(heads, device)),
            Some(_) => KeysAndValues::Device(std::array::from_fn(|_| {
                Tensor::zeros([heads.capacity, heads.row_words()], device)
            })),
            None => KeysAndValues::Host(Arc::new(Mutex::new(conclave_cpu::Cache::new(
                heads.capacity,
                heads.kv_heads,
                heads.width,
                heads.exact,
            )))),
        };
        Cache::Attention(heads, keys_and_values)
    }

    /// Allocates the KV cache once.
    fn reserve(&mut self) {
        let missing = self.config.layers.iter().skip(self.caches.len());
        let missing: Vec<Cache> = missing.map(|layer| self.cache(layer)).collect();
        self.caches.extend(missing);
    }

    /// Refuses a pass that begins from a recurrent state that none has left.
    fn check_states(&self, pass: &Pass) -> Result<(), ModelError> {
        let there = self.caches.iter().all(|cache| match cache {
            Cache::Recurrence(states) => {
                let mut named = pass.runs.iter().filter_map(|run| run.from);
                named.all(|slot| states.get(slot).is_some_and(Option::is_some))
            }
            _ => true,
        });
        there.then_some(()).ok_or(NO_STATE)
    }

    /// cos and sin of rotary embedding `rope` at the pass's positions.
    fn rotation(&self, pass: &Pass, rope: usize) -> Rotation {
        let table = &self.ropes[rope];
        let rotary = self.config.ropes[rope].rotary_dim;
        let gather = |part: usize| {
            let rows: Vec<f32> = pass
                .places
                .iter()
                .flat_map(|place| &table[place.position as usize * rotary..][..rotary])
                .skip(part)
                .step_by(2)
                .copied()
                .collect();
            let data = TensorData::new(rows, [pass.len(), 1, rotary / 2]);
            Tensor::from_data(data, self.burn.device())
        };
        (gather(0), gather(1))
    }

    /// A block: what it makes of the stream `[tokens, hidden]`.
    fn block(&self, index: usize, x: Tensor<2>, cache: &mut Cache, run: &Common<'_>) -> Tensor<2> {
        let (c, block) = (&self.config, &self.weights.blocks[index]);
        let normed = before(c, &x, &block.mixer_norm);
        let mixed = match (&block.mixer, cache) {
            (Mixer::Attention(block), Cache::Attention(heads, cache)) => {
                self.attend(block, *heads, cache, normed, run)
            }
            (Mixer::Convolution(block), Cache::Convolution(cache)) => {
                self.convolve(block, cache, normed, run)
            }
            (Mixer::Recurrence(block), Cache::Recurrence(states)) => {
                self.recurrence(block, states, normed, run)
            }
            // Caches are made from the layers that the blocks are planned by.
            _ => unreachable!("a block's cache is another block's"),
        };
        let x = x + post(c, mixed, &block.mixer_post_norm);
        let normed = before(c, &x, &block.feed_forward_norm);
        let down = match &block.feed_forward {
            FeedForward::Dense(mlp) => {
                let active = self.gate(normed.clone(), &mlp.gate) * product(normed, &mlp.up);
                product(active, &mlp.down)
            }
            FeedForward::Experts(experts) => self.go_through(experts, normed),
        };
        let mut x = x + post(c, down, &block.feed_forward_post_norm);
        if let (Some(weights), Some(parts)) = (&block.per_layer, &run.per_layer) {
            let [count, _, width] = parts.dims();
            let part = parts.clone().narrow(1, index, 1).reshape([count, width]);
            let active = self.gate(x.clone(), &weights.gate) * part;
            let taken_in = product(active, &weights.projection);
            x = x + rms_norm(taken_in, &weights.norm, c.norm_epsilon);
        }
        match &block.scale {
            Some(scale) => x * scale.clone().unsqueeze(),
            None => x,
        }
    }

    /// The gate of a gated MLP: `activation(x · Wᵀ + bias)`.
    fn gate(&self, x: Tensor<2>, linear: &Linear<Matrix, Vector>) -> Tensor<2> {
        self.activated(product(x, linear))
    }

    fn activated(&self, gate: Tensor<2>) -> Tensor<2> {
        match self.config.activation {
            Activation::Silu => silu(gate),
            Activation::Gelu => gelu_approximate(gate),
        }
    }

    /// The mixture of experts of one block: `[tokens, hidden]`.
    fn go_through(&self, experts: &Experts<Matrix, Vector>, x: Tensor<2>) -> Tensor<2> {
        let ([tokens, width], of) = (x.dims(), &experts.of);
        let logits = experts.router.product(x.clone());
        let (chosen, factors) = self.choose(of, &experts.choice_bias, logits);
        let gate = experts.gate.of_experts(&x, &chosen, of.count);
        let up = experts.up.of_experts(&x, &chosen, of.count);
        let active = self.activated(gate) * up;
        let made = experts.down.of_experts(&active, &chosen, of.count);
        let made = made.reshape([tokens, of.used, width]);
        let weighed = made * factors.reshape([tokens, of.used, 1]);
        weighed.sum_dim(1).reshape([tokens, width])
    }

    /// The experts of each token by its logits `[tokens, experts]`, `[tokens · used]`, and the
    /// factors on what they make, `[tokens, used]`.
    fn choose(
        &self,
        of: &config::Experts,
        bias: &Option<Vector>,
        logits: Tensor<2>,
    ) -> (Tensor<1, Int>, Tensor<2>) {
        let ([tokens, count], device) = (logits.dims(), self.burn.device());
        let scores = match of.gating {
            Gating::Softmax => softmax(logits, 1),
            Gating::Sigmoid => sigmoid(logits),
        };
        let keys = match bias {
            Some(bias) => scores.clone() + bias.clone().unsqueeze(),
            None => scores.clone(),
        };
        // An expert's rank is how many come before it: larger ones, and of equal ones the first.
        let first = (0..count).flat_map(|own| (0..count).map(move |other| other < own));
        let first: Vec<f32> = first.map(|first| f32::from(u8::from(first))).collect();
        let first = Tensor::<3>::from_data(TensorData::new(first, [1, count, count]), device);
        let (own, other): (Tensor<3>, Tensor<3>) =
            (keys.clone().unsqueeze_dim(2), keys.unsqueeze_dim(1));
        let larger = other.clone().greater(own.clone()).float();
        let before = larger + other.equal(own).float() * first;
        let rank = before.sum_dim(2).reshape([tokens, count]);
        let numbers: Vec<f32> = (0..count).map(|expert| expert as f32).collect();
        let numbers = Tensor::<2>::from_data(TensorData::new(numbers, [1, count]), device);
        let of_rank = |what: &Tensor<2>| {
            let one =
                |place| (rank.clone().equal_elem(place as f32).float() * what.clone()).sum_dim(1);
            Tensor::cat((0..of.used).map(one).collect(), 1)
        };
        // What is no number has no rank; its factor is none either.
        let chosen = of_rank(&numbers).clamp_max(count as f32 - 1.0);
        let chosen = chosen.reshape([tokens * of.used]).int().cast(IntDType::I32);
        let factors = of_rank(&scores);
        let factors = match of.normalised {
            true => factors.clone() / (factors.sum_dim(1) + config::Experts::EPSILON),
            false => factors,
        };
        (chosen, factors * of.scale)
    }

    /// What each layer is given of each token, `[tokens, layers, width]`, where the stream `x` is
    /// still the embedding of `ids`.
    fn per_layer(&self, x: &Tensor<2>, ids: &Tensor<1, Int>) -> Option<Tensor<3>> {
        let weights = self.weights.per_layer.as_ref()?;
        let c = &self.config;
        let ([count, _], [width]) = (x.dims(), weights.norm.dims());
        let split = |rows: Tensor<2>| rows.reshape([count, c.layers.len(), width]);
        let product = split(weights.projection.product(x.clone()));
        let product = rms_norm(product, &weights.norm, c.per_layer_epsilon());
        let rows = split(weights.embedding.rows(ids.clone()));
        Some(product + rows * Config::per_layer_scale(width))
    }

    /// Attention of one block with its output product: `[tokens, hidden]`.
    fn attend(
        &self,
        block: &Attention<Matrix, Vector>,
        heads: Heads,
        cache: &mut KeysAndValues,
        x: Tensor<2>,
        run: &Common<'_>,
    ) -> Tensor<2> {
        let (c, of) = (&self.config, &block.of);
        let [count, _] = x.dims();
        let split = |linear: &Linear<Matrix, Vector>, norm: &Option<Vector>, heads: usize| {
            let mut x = product(x.clone(), linear);
            if let (Some(norm), QkNorm::Whole) = (norm, c.qk_norm) {
                x = rms_norm(x, norm, c.norm_epsilon);
            }
            let x = x.reshape([count, heads, of.head_dim]);
            match norm {
                Some(norm) if c.qk_norm == QkNorm::PerHead => rms_norm(x, norm, c.norm_epsilon),
                _ => x,
            }
        };
        let (query, gate) = match of.gate {
            false => (split(&block.query, &block.query_norm, of.heads), None),
            true => {
                let both = product(x.clone(), &block.query);
                let both = both.reshape([count, of.heads, 2 * of.head_dim]);
                let query = both.clone().narrow(2, 0, of.head_dim);
                let gate = both.narrow(2, of.head_dim, of.head_dim);
                let query = match &block.query_norm {
                    Some(norm) => rms_norm(query, norm, c.norm_epsilon),
                    None => query,
                };
                (query, Some(gate))
            }
        };
        // Turned, and normed behind that where norms stand there.
        let rotated = |x, norm: &Option<Vector>| {
            let x = match of.rope {
                Some(rope) => rotate(x, &run.rotations[rope]),
                None => x,
            };
            match norm {
                Some(norm) if c.qk_norm == QkNorm::Rotated => rms_norm(x, norm, c.norm_epsilon),
                _ => x,
            }
        };
        let query = rotated(query, &block.query_norm);
        let new = block.own.as_ref().map(|own| {
            let key = split(&own.key, &own.key_norm, of.kv_heads);
            let key = rotated(key, &own.key_norm);
            let value = split(&own.value, &None, of.kv_heads);
            let value = match c.value_norm {
                true => normed(value, c.norm_epsilon),
                false => value,
            };
            [key, value]
        });
        let scores = Scores {
            scale: c.attention_scale,
            window: of.window,
            softcap: c.attention_softcap,
        };
        let rows = |host| Rows {
            places: run.places.clone(),
            heads,
            host,
        };
        let in_line = |tensors: [Tensor<2, Int>; 2], rows: Rows| {
            let places = &run.on_device;
            let query = match new.clone() {
                Some([key, value]) => {
                    let qkv = Tensor::cat(vec![query.clone(), key, value], 1);
                    operations::append(qkv, tensors.clone(), places.clone(), rows.clone())
                }
                None => query.clone(),
            };
            operations::attention(query, tensors, places.clone(), rows, scores)
        };
        let attended = match cache {
            KeysAndValues::Device(tensors) => in_line(tensors.clone(), rows(None)),
            KeysAndValues::Host(host) => {
                // On a host the cache is no tensor, and any two stand for it.
                let none = std::array::from_fn(|_| Tensor::zeros([1, 1], self.burn.device()));
                in_line(none, rows(Some(host.clone())))
            }
            KeysAndValues::Plain(cache) => {
                if let Some(new) = new {
                    cache.append(new, &run.places);
                }
                cache.attend(query, &run.places, heads, scores)
            }
        };
        let attended = match gate {
            Some(gate) => attended * sigmoid(gate),
            None => attended,
        };
        product(attended.reshape([count, of.query_width()]), &block.output)
    }

    /// The gated convolution of one block with its output product: `[tokens, hidden]`.
    fn convolve(
        &self,
        block: &Convolution<Matrix, Vector>,
        cache: &mut Tensor<2>,
        x: Tensor<2>,
        run: &Common<'_>,
    ) -> Tensor<2> {
        let [count, width] = x.dims();
        let bcx = product(x, &block.input);
        let [b, c, x] = [0, 1, 2].map(|part| bcx.clone().narrow(1, part * width, width));
        let first = run.places.first().map_or(0, |place| place.row as usize);
        let place = [first..first + count, 0..width];
        cache.inplace(|rows| rows.slice_assign(place, b * x));
        let taps = block.taps.clone().reshape([width, block.of.taps]);
        let mut sum = Tensor::zeros([count, width], self.burn.device());
        for tap in 0..block.of.taps {
            let back = (block.of.taps - 1 - tap) as u32;
            let rows = run.places.iter().map(|place| place.before(back));
            // What is before the text counts for nothing, whatever a row has.
            let there: Vec<f32> = rows
                .clone()
                .map(|row| f32::from(u8::from(row.is_some())))
                .collect();
            let there = TensorData::new(there, [count, 1]);
            let rows = self
                .burn
                .ints(rows.map(|row| row.unwrap_or(0) as i32).collect());
            let seen = cache.clone().select(0, rows);
            let seen = seen * Tensor::from_data(there, self.burn.device());
            sum = sum + seen * taps.clone().narrow(1, tap, 1).swap_dims(0, 1);
        }
        if let Some(bias) = &block.bias {
            sum = sum + bias.clone().unsqueeze();
        }
        product(c * sum, &block.output)
    }

    /// The recurrence of one block with its output product: `[tokens, hidden]`.
    fn recurrence(
        &self,
        block: &Recurrence<Matrix, Vector>,
        states: &mut Vec<Option<RecurrentState>>,
        x: Tensor<2>,
        run: &Common<'_>,
    ) -> Tensor<2> {
        let (c, of) = (&self.config, &block.of);
        let [count, _] = x.dims();
        let qkv = product(x.clone(), &block.input);
        let decay = product(x.clone(), &block.decay) + block.decay_bias.clone().unsqueeze();
        let time = softplus(decay, 1.0);
        let decay = (time.clone() * block.decay_rate.clone().unsqueeze()).exp();
        let share = match &block.share {
            Some(share) => sigmoid(product(x.clone(), share)),
            None => time,
        };
        let mut first = 0;
        let mut made = Vec::with_capacity(run.runs.len());
        for &Run { tokens, from, to } in run.runs {
            let of_run = |all: &Tensor<2>| all.clone().narrow(0, first, tokens);
            let mut state = match from.and_then(|from| states.get(from)?.clone()) {
                Some(state) => state,
                None => self.beginning(of),
            };
            let mixed = mix(block, &mut state.inputs, of_run(&qkv));
            let gates = [of_run(&share), of_run(&decay)];
            made.push(follow_rule(block, &mut state.memory, mixed, gates));
            if states.len() <= to {
                states.resize(to + 1, None);
            }
            states[to] = Some(state);
            first += tokens;
        }
        let made = Tensor::cat(made, 0);
        let gate = silu(product(x, &block.gate));
        let gated = match of.rule {
            Rule::Delta => {
                let made = rms_norm(made, &block.norm, c.norm_epsilon);
                made.reshape([count, of.values()]) * gate
            }
            Rule::StateSpace => {
                let [groups, width] = of.normed();
                let made = made.reshape([count, of.values()]) * gate;
                let made = normed(made.reshape([count, groups, width]), c.norm_epsilon);
                made.reshape([count, of.values()]) * block.norm.clone().unsqueeze()
            }
        };
        product(gated, &block.output)
    }

    /// The state of a text that begins.
    fn beginning(&self, of: &config::Recurrence) -> RecurrentState {
        let device = self.burn.device();
        RecurrentState {
            inputs: Tensor::zeros([of.taps - 1, of.channels()], device),
            memory: Tensor::zeros([of.value_heads, of.key_width, of.value_width], device),
        }
    }

    /// Logits of the states in these slots, `[slots, vocabulary]`.
    fn logits_of(&self, slots: &[usize]) -> Tensor<2> {
        let c = &self.config;
        let ids: Vec<i32> = slots.iter().map(|&slot| slot as i32).collect();
        let states = self.states.clone().select(0, self.burn.ints(ids));
        let states = rms_norm(states, &self.weights.norm, c.stream_epsilon());
        let logits = match &self.weights.head {
            Some(head) => product(states, head),
            None => self.weights.embedding.product(states),
        };
        match c.logit_softcap {
            Some(cap) => (logits / cap).tanh() * cap,
            None => logits,
        }
    }

    /// Reads a tensor back, and what went wrong before.
    async fn read<const D: usize>(&self, tensor: Tensor<D>) -> Result<Vec<f32>, ModelError> {
        self.burn.read(tensor, &self.heard).await
    }
}

impl Decoder for BurnDecoder {
    fn run(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError> {
        self.burn.check(&self.heard)?;
        self.reserve();
        self.check_states(pass)?;
        let ids = pass.tokens.iter().map(|&id| id as i32).collect();
        let ids = self.burn.ints(ids);
        let mut x = self.weights.embedding.rows(ids.clone()) * self.config.stream_scale();
        let run = Common {
            per_layer: self.per_layer(&x, &ids),
            rotations: (0..self.ropes.len())
                .map(|rope| self.rotation(pass, rope))
                .collect(),
            places: Arc::new(pass.places.clone()),
            on_device: self.burn.ints(bytemuck::cast_slice(&pass.places).to_vec()),
            runs: &pass.runs,
        };
        let mut caches = std::mem::take(&mut self.caches);
        for (index, layer) in self.config.layers.iter().enumerate() {
            let shares = match &layer.mixer {
                config::Mixer::Attention(of) => of.shares,
                _ => None,
            };
            x = self.block(index, x, &mut caches[shares.unwrap_or(index)], &run);
        }
        self.caches = caches;
        let place = [slot..slot + pass.len(), 0..self.config.hidden];
        self.states.inplace(|states| states.slice_assign(place, x));
        Ok(())
    }

    fn keep_state(&mut self, slot: usize) -> Result<(), ModelError> {
        let width = self.config.hidden;
        self.states.inplace(|states| {
            // A copy, so that the states are written in place and not cloned whole.
            let state = states.clone().narrow(0, slot, 1) + 0.0;
            states.slice_assign([PREFIX..PREFIX + 1, 0..width], state)
        });
        Ok(())
    }

    fn logits<'a>(&'a mut self, slots: &'a [usize]) -> Wait<'a, Vec<Vec<f32>>> {
        Box::pin(async move {
            let flat = self.read(self.logits_of(slots)).await?;
            let rows = flat.chunks(self.config.vocabulary);
            Ok(rows.map(<[f32]>::to_vec).collect())
        })
    }

    fn scores<'a>(
        &'a mut self,
        slots: &'a [usize],
        targets: &'a [u32],
        logprobs: bool,
    ) -> Wait<'a, Vec<TargetScore>> {
        Box::pin(async move {
            let mut scores = Vec::with_capacity(slots.len());
            // Never more than so many rows of logits at once.
            const ROWS: usize = 64;
            for (slots, targets) in slots.chunks(ROWS).zip(targets.chunks(ROWS)) {
                let logits = self.logits_of(slots);
                let ids = targets.iter().map(|&id| id as i32).collect();
                let ids = self.burn.ints(ids).reshape([slots.len(), 1]);
                let of_target = logits.clone().gather(1, ids);
                // Two numbers a row cross, whatever the vocabulary.
                let numbers = match logprobs {
                    true => {
                        let top = logits.clone().max_dim(1);
                        let sum = (logits - top.clone()).exp().sum_dim(1).log() + top;
                        Tensor::cat(vec![of_target, sum], 1)
                    }
                    false => of_target,
                };
                let width = if logprobs { 2 } else { 1 };
                let read = self.read(numbers).await?;
                scores.extend(read.chunks(width).map(|numbers| TargetScore {
                    logit: numbers[0],
                    log_sum_exp: numbers.get(1).copied(),
                }));
            }
            Ok(scores)
        })
    }

    fn move_rows(&mut self, from: usize, to: usize, count: usize) -> Result<(), ModelError> {
        for cache in &mut self.caches {
            let keys_and_values = match cache {
                Cache::Attention(_, keys_and_values) => keys_and_values,
                Cache::Shared => continue,
                Cache::Convolution(rows) => {
                    rows.inplace(|rows| {
                        let [_, width] = rows.dims();
                        // A copy, so that the cache is written in place and not cloned whole.
                        let moved = rows.clone().narrow(0, from, count) + 0.0;
                        rows.slice_assign([to..to + count, 0..width], moved)
                    });
                    continue;
                }
                Cache::Recurrence(_) => continue,
            };
            match keys_and_values {
                KeysAndValues::Host(host) => {
                    let mut host = host.lock().unwrap_or_else(PoisonError::into_inner);
                    host.move_rows(from, to, count);
                }
                KeysAndValues::Plain(cache) => cache.move_rows(from, to, count),
                KeysAndValues::Device(tensors) => {
                    for rows in tensors {
                        rows.inplace(|rows| {
                            let [_, width] = rows.dims();
                            let moved = rows.clone().narrow(0, from, count);
                            // Likewise.
                            let moved = moved + 0;
                            rows.slice_assign([to..to + count, 0..width], moved)
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn set_ropes(&mut self, long: bool) -> Result<(), ModelError> {
        self.rotate_by(long);
        Ok(())
    }

    fn release(&mut self) {
        self.caches.clear();
        // Else it would lie in burn's pools.
        self.burn.device().memory_cleanup();
    }

    fn settle(&self) -> Wait<'_, ()> {
        let last = self.states.clone().narrow(0, 0, 1).narrow(1, 0, 1);
        Box::pin(async move { self.read(last).await.map(|_| ()) })
    }
}

/// The short convolution before a recurrence, with its SiLU, over `qkv` `[tokens, channels]`;
/// `inputs` `[taps − 1, channels]` move on.
fn mix(block: &Recurrence<Matrix, Vector>, inputs: &mut Tensor<2>, qkv: Tensor<2>) -> Tensor<2> {
    let ([tokens, channels], all) = (qkv.dims(), block.of.taps);
    let seen = Tensor::cat(vec![inputs.clone(), qkv], 0);
    let taps = block.taps.clone().reshape([channels, all]);
    let of_tap = |tap| {
        let factor = taps.clone().narrow(1, tap, 1).swap_dims(0, 1);
        seen.clone().narrow(0, tap, tokens) * factor
    };
    let sum = (1..all).fold(of_tap(0), |sum, tap| sum + of_tap(tap));
    *inputs = seen.narrow(0, tokens, all - 1);
    silu(match &block.taps_bias {
        Some(bias) => sum + bias.clone().unsqueeze(),
        None => sum,
    })
}

/// The rule of a recurrence, token by token: of a token with query q, key k, value v, share b and
/// decay a the memory S `[value_heads, key_width, value_width]` becomes `a · S + k ⊗ b · (v − a ·
/// Sᵀ k)` by the delta rule, which makes `Sᵀ q / √key_width`, and `a · S + k ⊗ b · v` of a state
/// space, which makes `Sᵀ q + d · v`. Queries, keys and values lie side by side in `mixed`
/// `[tokens, channels]`, of a state space values, keys and queries; `gates` are b and a, `[tokens,
/// value_heads]` each. It is `[tokens, value_heads, value_width]`.
fn follow_rule(
    block: &Recurrence<Matrix, Vector>,
    memory: &mut Tensor<3>,
    mixed: Tensor<2>,
    [share, decay]: [Tensor<2>; 2],
) -> Tensor<3> {
    const EPSILON: f32 = 1e-6;
    let of = &block.of;
    let [tokens, _] = mixed.dims();
    let keys = of.key_heads * of.key_width;
    let group = of.value_heads / of.key_heads;
    // Of each value head, `[tokens, value_heads, key_width]`.
    let heads = |first: usize| {
        let x = mixed.clone().narrow(1, first, keys);
        let x = x.reshape([tokens, of.key_heads, of.key_width]);
        let x = match of.rule {
            Rule::Delta => {
                let length = (x.clone().square().sum_dim(2) + EPSILON).sqrt();
                x / length
            }
            Rule::StateSpace => x,
        };
        let x: Tensor<4> = x.unsqueeze_dim(if of.tiled { 1 } else { 2 });
        let x = x.repeat_dim(if of.tiled { 1 } else { 2 }, group);
        x.reshape([tokens, of.value_heads, of.key_width])
    };
    let (query, key, first) = match of.rule {
        Rule::Delta => (
            heads(0) / (of.key_width as f32).sqrt(),
            heads(keys),
            2 * keys,
        ),
        Rule::StateSpace => (heads(of.values() + keys), heads(of.values()), 0),
    };
    let value = mixed.clone().narrow(1, first, of.values());
    let value = value.reshape([tokens, of.value_heads, of.value_width]);
    let mut made = Vec::with_capacity(tokens);
    for token in 0..tokens {
        // Down the rows of S, or along them.
        let down = |x: &Tensor<3>| {
            let x = x.clone().narrow(0, token, 1);
            x.reshape([of.value_heads, of.key_width, 1])
        };
        let gate = |x: &Tensor<2>| {
            let x = x.clone().narrow(0, token, 1);
            x.reshape([of.value_heads, 1, 1])
        };
        let along = value.clone().narrow(0, token, 1);
        let along = along.reshape([of.value_heads, 1, of.value_width]);
        let (key, query) = (down(&key), down(&query));
        let decayed = memory.clone() * gate(&decay);
        let added = match of.rule {
            Rule::Delta => along - (decayed.clone() * key.clone()).sum_dim(1),
            Rule::StateSpace => along,
        };
        *memory = decayed + key * (added * gate(&share));
        made.push((memory.clone() * query).sum_dim(1));
    }
    // `[value_heads, tokens, value_width]`.
    let made = Tensor::cat(made, 1).swap_dims(0, 1);
    match &block.skip {
        Some(skip) => made + value * skip.clone().reshape([1, of.value_heads, 1]),
        None => made,
    }
}

/// The stream as a block reads it: behind its norm, where it has one.
fn before(c: &Config, x: &Tensor<2>, norm: &Option<Vector>) -> Tensor<2> {
    match norm {
        Some(norm) => rms_norm(x.clone(), norm, c.stream_epsilon()),
        None => x.clone(),
    }
}

/// What a block adds to the stream: behind its norm, where it has one.
fn post(c: &Config, x: Tensor<2>, norm: &Option<Vector>) -> Tensor<2> {
    match norm {
        Some(norm) => rms_norm(x, norm, c.norm_epsilon),
        None => x,
    }
}

/// `x · Wᵀ + bias`.
fn product(x: Tensor<2>, linear: &Linear<Matrix, Vector>) -> Tensor<2> {
    let product = linear.weight.product(x);
    match &linear.bias {
        Some(bias) => product + bias.clone().unsqueeze(),
        None => product,
    }
}

/// `x / √(mean(x²) + ε) · weight` over the last dimension.
fn rms_norm<const D: usize>(x: Tensor<D>, weight: &Vector, epsilon: f32) -> Tensor<D> {
    normed(x, epsilon) * weight.clone().unsqueeze()
}

/// `x / √(mean(x²) + ε)` over the last dimension.
fn normed<const D: usize>(x: Tensor<D>, epsilon: f32) -> Tensor<D> {
    let mean = x.clone().square().mean_dim(D - 1);
    x / (mean + epsilon).sqrt()
}

/// Rotates the first dimensions of each head by halves: (a, b) → (a cos − b sin, b cos + a sin).
fn rotate(x: Tensor<3>, (cos, sin): &Rotation) -> Tensor<3> {
    let [_, _, width] = x.dims();
    let [_, _, half] = cos.dims();
    let a = x.clone().narrow(2, 0, half);
    let b = x.clone().narrow(2, half, half);
    let mut parts = vec![
        a.clone() * cos.clone() - b.clone() * sin.clone(),
        b * cos.clone() + a * sin.clone(),
    ];
    if width > 2 * half {
        parts.push(x.narrow(2, 2 * half, width - 2 * half));
    }
    Tensor::cat(parts, 2)
}
