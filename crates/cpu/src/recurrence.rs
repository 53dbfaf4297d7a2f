//! Linear recurrences: attention whose memory is one matrix S for each head, for texts of any
//! length. For a token with query q, key k, value v, decay a and share b:
//!
//! - the gated delta rule (Qwen3.5): q and k have length one,
//!   `S ← a · S + k ⊗ b · (v − a · Sᵀ k)`, and the output is `Sᵀ q / √width`;
//! - the state space of Mamba-2 (Granite 4.0-H), where they are called C, B and x:
//!   `S ← a · S + k ⊗ b · v`, and the output is `Sᵀ q + d · v`, with a factor d of the
//!   head.
//!
//! Queries, keys and values first pass a short convolution, whose last inputs are part of the
//! state.

use crate::carry::Carry;
use crate::exp::{self, each};
use crate::lanes::{self, Lanes, Work};

/// Update rule of a recurrence's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The gated delta rule: queries, keys and values lie in that order.
    Delta,
    /// Mamba-2's state space: values lie first, then keys, then queries.
    StateSpace,
}

/// Heads of a recurrence and the taps of its convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrence {
    /// Update rule of the state.
    pub rule: Rule,
    /// Number of query heads, and as many key heads.
    pub key_heads: usize,
    /// Number of value heads; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Width of a query or key head.
    pub key_width: usize,
    /// Width of a value head.
    pub value_width: usize,
    /// Tokens visible to the convolution, its own included; at least one.
    pub taps: usize,
    /// Value head i belongs to key head i mod `key_heads`, not i / (`value_heads` / `key_heads`).
    pub tiled: bool,
}

/// Weights outside the products and gates.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentWeights<'a> {
    /// Factors of each channel, the oldest token's first, `[channels, taps]`.
    pub taps: &'a [f32],
    /// Bias of the convolution, `[channels]`.
    pub bias: Option<&'a [f32]>,
    /// Factor of each value head on the value it adds beside the state, `[value_heads]`.
    pub skip: Option<&'a [f32]>,
}

/// Numbers of consecutive tokens.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentInputs<'a> {
    /// Queries, keys and values side by side, `[tokens, channels]`.
    pub qkv: &'a [f32],
    /// b, `[tokens, value_heads]`.
    pub share: &'a [f32],
    /// a, `[tokens, value_heads]`.
    pub decay: &'a [f32],
}

/// State of one block's recurrence after a text.
#[derive(Debug, Clone)]
pub struct RecurrentState {
    /// Last inputs of the convolution, oldest first, `[taps − 1, channels]`.
    inputs: Vec<f32>,
    /// S of each value head, `[value_heads, key_width, value_width]`.
    memory: Vec<f32>,
}

impl RecurrentState {
    /// Resets it to a text's beginning.
    pub fn clear(&mut self) {
        self.inputs.fill(0.0);
        self.memory.fill(0.0);
    }

    /// Copies all of it out or in, bit for bit.
    pub fn carry(&mut self, carry: &mut Carry<'_>) {
        carry.numbers(&mut self.inputs);
        carry.numbers(&mut self.memory);
    }

    /// Copies another state, reusing memory.
    pub fn copy(&mut self, from: &Self) {
        self.inputs.clone_from(&from.inputs);
        self.memory.clone_from(&from.memory);
    }
}

/// Number added to the sum of squares when a query or key is normalised.
const EPSILON: f32 = 1e-6;

impl Recurrence {
    /// Width of queries, keys and values together.
    fn channels(&self) -> usize {
        2 * self.key_heads * self.key_width + self.value_heads * self.value_width
    }

    /// The state at a text's beginning.
    pub fn state(&self) -> RecurrentState {
        RecurrentState {
            inputs: vec![0.0; (self.taps.max(1) - 1) * self.channels()],
            memory: vec![0.0; self.value_heads * self.key_width * self.value_width],
        }
    }

    /// Offsets of a token's queries, keys and values among its channels.
    fn parts(&self) -> [usize; 3] {
        let keys = self.key_heads * self.key_width;
        let values = self.value_heads * self.value_width;
        match self.rule {
            Rule::Delta => [0, keys, 2 * keys],
            Rule::StateSpace => [values + keys, values, 0],
        }
    }

    /// Runs consecutive tokens from `state`, which advances past them. `mixed` is reused for its
    /// memory; `out` is `[tokens, value_heads · value_width]`.
    pub fn run(
        &self,
        state: &mut RecurrentState,
        RecurrentInputs { qkv, share, decay }: RecurrentInputs<'_>,
        weights: RecurrentWeights<'_>,
        mixed: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        self.convolve(&mut state.inputs, qkv, weights, mixed);
        let keys = self.key_heads * self.key_width;
        if self.rule == Rule::Delta {
            for token in mixed.chunks_exact_mut(self.channels().max(1)) {
                let (query, rest) = token.split_at_mut(keys);
                to_length(query, self.key_width, 1.0 / (self.key_width as f32).sqrt());
                to_length(&mut rest[..keys], self.key_width, 1.0);
            }
        }
        let memory = state
            .memory
            .chunks_exact_mut((self.key_width * self.value_width).max(1));
        for (head, memory) in memory.enumerate() {
            lanes::run(Head {
                of: *self,
                head,
                memory,
                mixed,
                share,
                decay,
                skip: weights.skip.map(|skip| skip[head]),
                out,
            });
        }
    }

    /// The short convolution of each channel with its SiLU; advances `inputs`.
    fn convolve(
        &self,
        inputs: &mut Vec<f32>,
        qkv: &[f32],
        weights: RecurrentWeights<'_>,
        mixed: &mut Vec<f32>,
    ) {
        let (width, before) = (self.channels(), inputs.len());
        inputs.extend_from_slice(qkv);
        mixed.clear();
        mixed.resize(qkv.len(), 0.0);
        for (token, out) in mixed.chunks_exact_mut(width.max(1)).enumerate() {
            if let Some(bias) = weights.bias {
                out.copy_from_slice(bias);
            }
            for tap in 0..self.taps {
                let seen = &inputs[(token + tap) * width..][..width];
                let of_tap = weights.taps.iter().skip(tap).step_by(self.taps);
                for ((out, seen), tap) in out.iter_mut().zip(seen).zip(of_tap) {
                    *out += seen * tap;
                }
            }
        }
        lanes::run(Silu(mixed, qkv));
        inputs.drain(..inputs.len() - before);
    }
}

/// Turns the products' outputs into b and a, each `[tokens, value_heads]`, with `bias` and `rate`
/// `[value_heads]`: a is `e^(rate · t)` with `t = ln(1 + e^(decay + bias))`; b is `σ(share)` by
/// the delta rule, and t in a state space, which ignores `share`.
pub fn recurrent_gates(
    rule: Rule,
    share: &mut Vec<f32>,
    decay: &mut [f32],
    bias: &[f32],
    rate: &[f32],
) {
    for decay in decay.chunks_exact_mut(bias.len().max(1)) {
        for (x, bias) in decay.iter_mut().zip(bias) {
            let sum = *x + bias;
            // For a large number it equals the number.
            *x = if sum > 20.0 { sum } else { sum.exp().ln_1p() };
        }
    }
    match rule {
        Rule::Delta => share
            .iter_mut()
            .for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
        Rule::StateSpace => {
            share.clear();
            share.extend_from_slice(decay);
        }
    }
    for decay in decay.chunks_exact_mut(rate.len().max(1)) {
        for (x, rate) in decay.iter_mut().zip(rate) {
            *x = (rate * *x).exp();
        }
    }
}

/// Scales each head of `width` to length `length`.
fn to_length(heads: &mut [f32], width: usize, length: f32) {
    for head in heads.chunks_exact_mut(width.max(1)) {
        let squares: f32 = head.iter().map(|x| x * x).sum();
        let factor = length / (squares + EPSILON).sqrt();
        head.iter_mut().for_each(|x| *x *= factor);
    }
}

/// The SiLU of numbers; the second slice is as long.
struct Silu<'a>(&'a mut [f32], &'a [f32]);

impl Work for Silu<'_> {
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(self, l: L) {
        each::<L, exp::Silu>(l, self.0, self.1);
    }
}

/// One value head over all tokens.
struct Head<'a> {
    of: Recurrence,
    head: usize,
    /// `[key_width, value_width]`.
    memory: &'a mut [f32],
    mixed: &'a [f32],
    share: &'a [f32],
    decay: &'a [f32],
    skip: Option<f32>,
    out: &'a mut [f32],
}

impl Work for Head<'_> {
    type Out = ();

    // Loops over a row of S, which compilers vectorise by the lanes' instructions.
    #[inline(always)]
    fn with<L: Lanes>(self, _: L) {
        let Self { of, head, .. } = self;
        let width = of.value_width;
        let of_key = match of.tiled {
            true => head % of.key_heads,
            false => head / (of.value_heads / of.key_heads),
        };
        let [queries, keys, values] = of.parts();
        let mut change = vec![0.0_f32; width];
        let tokens = self.mixed.chunks_exact(of.channels());
        let gates = self.share.chunks_exact(of.value_heads);
        let gates = gates.zip(self.decay.chunks_exact(of.value_heads));
        let out = self.out.chunks_exact_mut(of.value_heads * width);
        for ((token, (share, decay)), out) in tokens.zip(gates).zip(out) {
            let query = &token[queries + of_key * of.key_width..][..of.key_width];
            let key = &token[keys + of_key * of.key_width..][..of.key_width];
            let value = &token[values + head * width..][..width];
            let (share, decay) = (share[head], decay[head]);
            change.fill(0.0);
            if of.rule == Rule::Delta {
                for (row, key) in self.memory.chunks_exact(width).zip(key) {
                    for (sum, number) in change.iter_mut().zip(row) {
                        *sum += number * key;
                    }
                }
            }
            for (change, value) in change.iter_mut().zip(value) {
                *change = share * (value - decay * *change);
            }
            let out = &mut out[head * width..][..width];
            let skip = self.skip.unwrap_or_default();
            for (out, value) in out.iter_mut().zip(value) {
                *out = skip * value;
            }
            let of_rows = key.iter().zip(query);
            for (row, (key, query)) in self.memory.chunks_exact_mut(width).zip(of_rows) {
                for ((number, change), out) in row.iter_mut().zip(&change).zip(&mut *out) {
                    *number = decay * *number + key * change;
                    *out += *number * query;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: Recurrence = Recurrence {
        rule: Rule::Delta,
        key_heads: 2,
        value_heads: 4,
        key_width: 3,
        value_width: 5,
        taps: 4,
        tiled: false,
    };

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    /// Runs all tokens of a text in passes of `at_once`.
    fn run(net: Recurrence, tokens: usize, at_once: usize) -> (Vec<f32>, RecurrentState) {
        let qkv = numbers(tokens * net.channels(), 1);
        let taps = numbers(net.channels() * net.taps, 2);
        let [bias, skip] = [net.channels(), net.value_heads].map(|count| numbers(count, 5));
        let of_space = net.rule == Rule::StateSpace;
        let weights = RecurrentWeights {
            taps: &taps,
            bias: of_space.then_some(&bias),
            skip: of_space.then_some(&skip),
        };
        let gates = |seed| -> Vec<f32> {
            let all = numbers(tokens * net.value_heads, seed).into_iter();
            all.map(|x| (x + 1.0) / 2.0).collect()
        };
        let (share, decay) = (gates(3), gates(4));
        let (mut state, mut out) = (net.state(), Vec::new());
        for first in (0..tokens).step_by(at_once) {
            let count = at_once.min(tokens - first);
            let of = |all: &[f32], width: usize| all[first * width..][..count * width].to_vec();
            let mut made = vec![0.0; count * net.value_heads * net.value_width];
            let inputs = RecurrentInputs {
                qkv: &of(&qkv, net.channels()),
                share: &of(&share, net.value_heads),
                decay: &of(&decay, net.value_heads),
            };
            net.run(&mut state, inputs, weights, &mut Vec::new(), &mut made);
            out.extend(made);
        }
        (out, state)
    }

    #[test]
    fn a_text_in_parts_is_the_text_at_once() {
        let rules = [Rule::Delta, Rule::StateSpace];
        for of in rules.map(|rule| Recurrence { rule, ..NET }) {
            let (whole, state) = run(of, 11, 11);
            for at_once in [1, 2, 5] {
                let (parts, after) = run(of, 11, at_once);
                assert_eq!(parts, whole);
                assert_eq!(after.memory, state.memory);
                assert_eq!(after.inputs, state.inputs);
            }
        }
    }

    #[test]
    fn without_decay_a_key_finds_the_value_that_it_left() {
        let net = Recurrence {
            taps: 1,
            value_heads: 2,
            ..NET
        };
        // Taps so large that the SiLU leaves numbers above 0 as they are, and keys of length one.
        let qkv: Vec<f32> = [[0., 0., 9., 9., 0., 0.], [0., 0., 9., 9., 0., 0.]].concat();
        let qkv = [qkv, vec![1., 2., 3., 4., 5., 6., 7., 8., 9., 10.]].concat();
        let mut out = vec![0.0; 10];
        let taps: Vec<f32> = vec![100.0; net.channels()];
        let mut state = net.state();
        for _ in 0..2 {
            // The second time there is nothing to correct.
            let inputs = RecurrentInputs {
                qkv: &qkv,
                share: &[1.0; 2],
                decay: &[1.0; 2],
            };
            let weights = RecurrentWeights {
                taps: &taps,
                bias: None,
                skip: None,
            };
            net.run(&mut state, inputs, weights, &mut Vec::new(), &mut out);
            for (found, value) in out.iter().zip(&qkv[12..]) {
                let wanted = 100.0 * value / 3.0_f32.sqrt();
                assert!((found - wanted).abs() < 1e-3 * wanted, "{found} {wanted}");
            }
        }
    }

    #[test]
    fn a_state_space_adds_what_the_definition_says() {
        let of = Recurrence {
            rule: Rule::StateSpace,
            key_heads: 1,
            value_heads: 1,
            key_width: 2,
            value_width: 1,
            taps: 1,
            tiled: false,
        };
        // x, B and C of two tokens, so large that the SiLU leaves them as they are.
        let qkv = [30.0, 40.0, 50.0, 60.0, 70.0, 31.0, 41.0, 51.0, 61.0, 71.0];
        let (share, decay) = ([0.5, 0.25], [0.9, 0.8]);
        let mut out = [0.0; 2];
        let weights = RecurrentWeights {
            taps: &[1.0; 5],
            bias: None,
            skip: Some(&[3.0]),
        };
        let inputs = RecurrentInputs {
            qkv: &qkv,
            share: &share,
            decay: &decay,
        };
        let mut state = of.state();
        of.run(&mut state, inputs, weights, &mut Vec::new(), &mut out);
        // h = a · h + t · B · x; y = C · h + D · x.
        let first = [0.5 * 40.0 * 30.0, 0.5 * 50.0 * 30.0];
        let second = [
            0.8 * first[0] + 0.25 * 41.0 * 31.0,
            0.8 * first[1] + 0.25 * 51.0 * 31.0,
        ];
        let wanted = [
            60.0 * first[0] + 70.0 * first[1] + 3.0 * 30.0,
            61.0 * second[0] + 71.0 * second[1] + 3.0 * 31.0,
        ];
        for (found, wanted) in out.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-6 * wanted, "{out:?} {wanted}");
        }
    }

    #[test]
    fn gates_of_a_state_space_are_one_softplus() {
        let (mut share, mut decay) = (vec![9.0], vec![1.0, -2.0, 30.0, 0.0]);
        let (bias, rate) = ([0.5, 0.25], [-0.1, -2.0]);
        recurrent_gates(Rule::StateSpace, &mut share, &mut decay, &bias, &rate);
        let softplus = |x: f32| x.exp().ln_1p();
        let wanted = [softplus(1.5), softplus(-1.75), 30.5, softplus(0.25)];
        for (i, wanted) in wanted.into_iter().enumerate() {
            assert!((share[i] - wanted).abs() < 1e-6 * wanted, "{share:?}");
            let of_decay = (rate[i % 2] * wanted).exp();
            assert!((decay[i] - of_decay).abs() < 1e-6, "{decay:?}");
        }
    }

    #[test]
    fn heads_that_share_a_key_lie_side_by_side_or_apart() {
        // Tiled or not, value heads 0 and 3 have the same key heads.
        let tiled = run(Recurrence { tiled: true, ..NET }, 3, 3).0;
        let plain = run(NET, 3, 3).0;
        for (tiled, plain) in tiled.chunks_exact(20).zip(plain.chunks_exact(20)) {
            assert_eq!(tiled[..5], plain[..5]);
            assert_eq!(tiled[15..], plain[15..]);
            assert_ne!(tiled[5..10], plain[5..10]);
        }
    }
}
