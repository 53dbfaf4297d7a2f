//! Linear recurrences: the gated delta rule and state spaces.

use burn::tensor::activation::{sigmoid, silu, softplus};
use burn::tensor::{Device, Tensor};
use conclave_model::config::{self, Rule};
use conclave_model::fused::FusedRecurrence;
use conclave_model::pass::Run;

use crate::cache::RecurrentState;
use crate::tensors::{Vector, normed, rms_norm};

/// Runs the recurrence over the tokens of a pass, and updates `states`. `qkv`, share and decay are
/// the outputs of the input projections. Returns `[tokens, value_heads, value_width]`.
pub fn run(
    weights: &FusedRecurrence<Vector>,
    states: &mut Vec<Option<RecurrentState>>,
    qkv: Tensor<2>,
    share: Option<Tensor<2>>,
    decay: Tensor<2>,
    runs: &[Run],
) -> Tensor<3> {
    let time = softplus(decay + weights.decay_bias.clone().unsqueeze(), 1.0);
    let decay = (time.clone() * weights.decay_rate.clone().unsqueeze()).exp();
    let share = share.map_or(time, sigmoid);
    let mut first = 0;
    let mut made = Vec::with_capacity(runs.len());
    for &Run { tokens, from, to } in runs {
        let of_run = |all: &Tensor<2>| all.clone().narrow(0, first, tokens);
        let mut state = match from.and_then(|from| states.get(from)?.clone()) {
            Some(state) => state,
            None => beginning(&weights.of, &qkv.device()),
        };
        let mixed = mix(weights, &mut state.inputs, of_run(&qkv));
        let gates = [of_run(&share), of_run(&decay)];
        made.push(follow_rule(weights, &mut state.memory, mixed, gates));
        if states.len() <= to {
            states.resize(to + 1, None);
        }
        states[to] = Some(state);
        first += tokens;
    }
    Tensor::cat(made, 0)
}

/// Multiplies `made`, the output of a recurrence, by `gate` `[tokens, values]`, to which SiLU has
/// been applied. The norm comes before the gate under the delta rule, and after it in a state
/// space.
pub fn gate(
    weights: &FusedRecurrence<Vector>,
    made: Tensor<3>,
    gate: Tensor<2>,
    epsilon: f32,
) -> Tensor<2> {
    let of = &weights.of;
    let [count, ..] = made.dims();
    match of.rule {
        Rule::Delta => {
            let made = rms_norm(made, &weights.norm, epsilon);
            made.reshape([count, of.values()]) * gate
        }
        Rule::StateSpace => {
            let [groups, width] = of.normed();
            let made = made.reshape([count, of.values()]) * gate;
            let made = normed(made.reshape([count, groups, width]), epsilon);
            made.reshape([count, of.values()]) * weights.norm.clone().unsqueeze()
        }
    }
}

/// State at the beginning of a text.
fn beginning(of: &config::Recurrence, device: &Device) -> RecurrentState {
    RecurrentState {
        inputs: Tensor::zeros([of.taps - 1, of.channels()], device),
        memory: Tensor::zeros([of.value_heads, of.key_width, of.value_width], device),
    }
}

/// The short convolution before a recurrence, with its SiLU, over `qkv` `[tokens, channels]`.
/// `inputs` `[taps − 1, channels]` become the last inputs of this pass.
fn mix(weights: &FusedRecurrence<Vector>, inputs: &mut Tensor<2>, qkv: Tensor<2>) -> Tensor<2> {
    let ([tokens, channels], all) = (qkv.dims(), weights.of.taps);
    let seen = Tensor::cat(vec![inputs.clone(), qkv], 0);
    let taps = weights.taps.clone().reshape([channels, all]);
    let of_tap = |tap| {
        let factor = taps.clone().narrow(1, tap, 1).swap_dims(0, 1);
        seen.clone().narrow(0, tap, tokens) * factor
    };
    let sum = (1..all).fold(of_tap(0), |sum, tap| sum + of_tap(tap));
    *inputs = seen.narrow(0, tokens, all - 1);
    silu(match &weights.taps_bias {
        Some(bias) => sum + bias.clone().unsqueeze(),
        None => sum,
    })
}

/// Runs the rule of a recurrence, token by token; returns `[tokens, value_heads, value_width]`. A
/// token has a query q, a key k, a value v, a share b and a decay a. Each token changes the memory
/// S `[value_heads, key_width, value_width]`, then reads it:
///
/// - delta rule: S becomes `a · S + k ⊗ b · (v − a · Sᵀ k)`, and the output is
///   `Sᵀ q / √key_width`;
/// - state space: S becomes `a · S + k ⊗ b · v`, and the output is `Sᵀ q + d · v`.
///
/// `mixed` `[tokens, channels]` holds queries, keys and values side by side; for a state space it
/// holds values, keys and queries. `share` is b and `decay` is a, `[tokens, value_heads]` each.
fn follow_rule(
    weights: &FusedRecurrence<Vector>,
    memory: &mut Tensor<3>,
    mixed: Tensor<2>,
    [share, decay]: [Tensor<2>; 2],
) -> Tensor<3> {
    const EPSILON: f32 = 1e-6;
    let of = &weights.of;
    let [tokens, _] = mixed.dims();
    let keys = of.key_heads * of.key_width;
    let group = of.value_heads / of.key_heads;
    // One row per value head: `[tokens, value_heads, key_width]`.
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
    match &weights.skip {
        Some(skip) => made + value * skip.clone().reshape([1, of.value_heads, 1]),
        None => made,
    }
}
