//! A linear recurrence after the product of its queries, keys, values and gates: the short
//! convolution before it, and the update rule of its states: the gated delta rule (Qwen3.5), or
//! Mamba-2's state space (Granite 4.0-H).

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::serial::{ShaderPair, THREADS, items_by, select, shader_pair};
use crate::{Buffer, GpuError, Launcher};

const MIX: &str = wgsl!("recurrence_mix.wgsl");
const RULE: &str = wgsl!("recurrence_rule.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    key_heads: u32,
    value_heads: u32,
    key_width: u32,
    value_width: u32,
    taps: u32,
    row: u32,
    state: u32,
    tiled: u32,
    queries: u32,
    keys: u32,
    values: u32,
    delta: u32,
    biased: u32,
    spare: [u32; 3],
}

pub(crate) static SHADERS: [ShaderPair; 2] = [
    shader_pair!("recurrence_mix", [MIX], Params),
    shader_pair!("recurrence_rule", [RULE], Params),
];

/// The slot of a run that begins a text.
pub const NO_SLOT: u32 = u32::MAX;

/// Update rule of a recurrence's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecurrentRule {
    /// The gated delta rule, with queries and keys of length 1 and queries divided by the root of
    /// their width. A token's row is queries, keys and values, then the output's gate, and each
    /// value head's inputs of share and decay.
    Delta,
    /// A state space. A token's row is values, keys and queries, then the output's gate, and each
    /// value head's input of decay and share.
    StateSpace,
}

/// Heads of a recurrence and its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrence {
    /// Update rule of the state.
    pub rule: RecurrentRule,
    /// Number of query heads, and as many key heads.
    pub key_heads: usize,
    /// Number of value heads; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Width of a query or key head.
    pub key_width: usize,
    /// Width of a value head.
    pub value_width: usize,
    /// Tokens visible to the convolution, its own included; at least two.
    pub taps: usize,
    /// Value head i belongs to key head i mod `key_heads`, not i / (`value_heads` / `key_heads`).
    pub tiled: bool,
    /// Number of state slots.
    pub slots: usize,
}

/// The taps of a recurrence's convolution.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentTaps<W> {
    /// Each channel's factors, the oldest token's first, `[channels, taps]`.
    pub weight: W,
    /// `[channels]`.
    pub bias: Option<W>,
}

/// Parameters of each value head for the rule, `[value_heads]` each.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentHeads<W> {
    /// Bias of the decay's input.
    pub bias: W,
    /// Factor on the softplus of that sum.
    pub rate: W,
    /// Factor d of a state space: `d · value` is added to the output read from the state.
    pub skip: Option<W>,
}

impl<W> RecurrentTaps<W> {
    /// The same, borrowed.
    pub fn as_ref(&self) -> RecurrentTaps<&W> {
        RecurrentTaps {
            weight: &self.weight,
            bias: self.bias.as_ref(),
        }
    }
}

impl<W> RecurrentHeads<W> {
    /// The same, borrowed.
    pub fn as_ref(&self) -> RecurrentHeads<&W> {
        RecurrentHeads {
            bias: &self.bias,
            rate: &self.rate,
            skip: self.skip.as_ref(),
        }
    }
}

impl Recurrence {
    /// Numbers of all value heads together.
    pub fn values(&self) -> usize {
        self.value_heads * self.value_width
    }

    /// Numbers of queries, keys and values together.
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_width + self.values()
    }

    /// Offsets of queries, keys and values among the channels.
    pub fn parts(&self) -> [usize; 3] {
        let (keys, values) = (self.key_heads * self.key_width, self.values());
        match self.rule {
            RecurrentRule::Delta => [0, keys, 2 * keys],
            RecurrentRule::StateSpace => [values + keys, values, 0],
        }
    }

    /// Width of a token's row.
    pub fn row(&self) -> usize {
        let gates = match self.rule {
            RecurrentRule::Delta => 2,
            RecurrentRule::StateSpace => 1,
        };
        self.channels() + self.values() + gates * self.value_heads
    }

    /// Numbers of a state: the convolution's last inputs `[taps − 1, channels]`, then
    /// `[key_width, value_width]` for each value head.
    pub fn state(&self) -> usize {
        (self.taps - 1) * self.channels() + self.values() * self.key_width
    }

    fn params(&self, name: &'static str, tokens: usize, biased: bool) -> Result<Params, GpuError> {
        let [keys, values, taps] = [self.key_heads, self.value_heads, self.taps];
        let sound = keys > 0 && values > 0 && values.is_multiple_of(keys);
        if !sound || taps < 2 || self.key_width == 0 || self.value_width == 0 {
            let problem =
                format!("{values} value heads on {keys} key heads, {taps} taps: 2 at least");
            return Err(GpuError::shape(name, problem));
        }
        count(name, "tokens · row", tokens * self.row())?;
        count(name, "slots · state", self.slots * self.state())?;
        let [queries, keys, values] = self.parts().map(|first| first as u32);
        Ok(Params {
            key_heads: self.key_heads as u32,
            value_heads: self.value_heads as u32,
            key_width: self.key_width as u32,
            value_width: self.value_width as u32,
            taps: self.taps as u32,
            row: self.row() as u32,
            state: self.state() as u32,
            tiled: u32::from(self.tiled),
            queries,
            keys,
            values,
            delta: u32::from(self.rule == RecurrentRule::Delta),
            biased: u32::from(biased),
            spare: [0; 3],
        })
    }
}

/// Tokens on which [`recurrence_mix`] and [`recurrence_rule`] work, and the states before them.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentPass<'a> {
    /// `[tokens, row]`.
    pub projected: &'a Buffer,
    /// Number of tokens.
    pub tokens: usize,
    /// The shape of both.
    pub of: Recurrence,
    /// `[slots, state]`.
    pub states: &'a Buffer,
}

/// Writes the convolution of queries, keys and values in `projected` `[tokens, row]`, with its
/// SiLU, to `mixed` `[tokens, channels]`, with queries and keys scaled to the rule's length.
/// `steps` `[tokens, 2]` has for each token the number of earlier tokens of its run in the pass,
/// and the slot of `states` where the run begins, or [`NO_SLOT`].
///
/// # Errors
/// [`GpuError::Shape`] for heads that do not fit and buffers too small.
pub fn recurrence_mix(
    launcher: &Launcher,
    pass: &RecurrentPass<'_>,
    steps: &Buffer,
    taps: RecurrentTaps<&Buffer>,
    mixed: &Buffer,
) -> Result<(), GpuError> {
    let RecurrentPass {
        projected,
        tokens,
        of,
        states,
    } = *pass;
    let shader = select(launcher, &SHADERS[0]);
    let name = shader.name;
    let params = of.params(name, tokens, taps.bias.is_some())?;
    projected.holds(tokens * of.row(), name, "projected")?;
    states.holds(of.slots * of.state(), name, "states")?;
    steps.holds(2 * tokens, name, "steps")?;
    taps.weight.holds(of.channels() * of.taps, name, "taps")?;
    if let Some(bias) = taps.bias {
        bias.holds(of.channels(), name, "bias")?;
    }
    mixed.holds(tokens * of.channels(), name, "mixed")?;
    let buffers = [
        Use::Read(projected),
        Use::Read(states),
        Use::Read(steps),
        Use::Read(taps.weight),
        Use::Read(taps.bias.unwrap_or(launcher.zeros())),
        Use::Write(mixed),
    ];
    let heads = 2 * of.key_heads + of.value_heads;
    let [x, ..] = items_by(launcher.choices().serial, heads);
    launcher.launch(shader, &buffers, &params, [x, tokens as u32, 1])
}

/// Applies the rule to the queries, keys and values of [`recurrence_mix`]: each value head's output
/// replaces its values in `mixed`. `runs` `[runs, 4]` has each run's first token, number of tokens,
/// and slots of `states` where it begins, or [`NO_SLOT`], and ends: no two runs the same.
///
/// # Errors
/// As [`recurrence_mix`], and for a state space without its skip.
pub fn recurrence_rule(
    launcher: &Launcher,
    pass: &RecurrentPass<'_>,
    (runs, count): (&Buffer, usize),
    heads: RecurrentHeads<&Buffer>,
    mixed: &Buffer,
) -> Result<(), GpuError> {
    let RecurrentPass {
        projected,
        tokens,
        of,
        states,
    } = *pass;
    let shader = select(launcher, &SHADERS[1]);
    let name = shader.name;
    let params = of.params(name, tokens, false)?;
    projected.holds(tokens * of.row(), name, "projected")?;
    states.holds(of.slots * of.state(), name, "states")?;
    runs.holds(4 * count, name, "runs")?;
    heads.bias.holds(of.value_heads, name, "bias")?;
    heads.rate.holds(of.value_heads, name, "rate")?;
    let skip = heads.skip.unwrap_or(launcher.zeros());
    if of.rule == RecurrentRule::StateSpace {
        skip.holds(of.value_heads, name, "skip")?;
    }
    mixed.holds(tokens * of.channels(), name, "mixed")?;
    let buffers = [
        Use::Write(mixed),
        Use::Read(projected),
        Use::Read(runs),
        Use::Read(heads.bias),
        Use::Read(heads.rate),
        Use::Read(skip),
        Use::Write(states),
    ];
    let serial = launcher.choices().serial;
    // A thread handles one column of a head.
    let parts = of.value_width.div_ceil(THREADS[usize::from(serial)]);
    let [x, ..] = items_by(serial, of.value_heads * parts);
    launcher.launch(shader, &buffers, &params, [x, count as u32, 1])
}

/// The CPU twin; returns `mixed`.
pub fn recurrence_mix_cpu(
    projected: &[f32],
    of: Recurrence,
    steps: &[[u32; 2]],
    taps: RecurrentTaps<&[f32]>,
    states: &[f32],
) -> Vec<f32> {
    let channels = of.channels();
    let [queries, keys, _] = of.parts();
    let mut mixed = Vec::new();
    for (token, &[before, slot]) in steps.iter().enumerate() {
        let seen = |back: usize, channel: usize| match back.checked_sub(before as usize) {
            None | Some(0) => projected[(token - back) * of.row() + channel],
            Some(_) if slot == NO_SLOT => 0.0,
            Some(beyond) => {
                let input = of.taps - 1 - beyond;
                states[slot as usize * of.state() + input * channels + channel]
            }
        };
        let mut made: Vec<f32> = (0..channels)
            .map(|channel| {
                let of_tap =
                    |tap| taps.weight[channel * of.taps + tap] * seen(of.taps - 1 - tap, channel);
                let bias = taps.bias.map_or(0.0, |bias| bias[channel]);
                let sum: f32 = (0..of.taps).map(of_tap).sum::<f32>() + bias;
                sum / (1.0 + (-sum).exp())
            })
            .collect();
        if of.rule == RecurrentRule::Delta {
            for (first, length) in [(queries, 1.0 / (of.key_width as f32).sqrt()), (keys, 1.0)] {
                let heads = &mut made[first..][..of.key_heads * of.key_width];
                for head in heads.chunks_mut(of.key_width) {
                    let squares: f32 = head.iter().map(|x| x * x).sum();
                    let factor = length / (squares + 1e-6).sqrt();
                    head.iter_mut().for_each(|x| *x *= factor);
                }
            }
        }
        mixed.extend(made);
    }
    mixed
}

/// The CPU twin; updates `mixed` and `states`.
pub fn recurrence_rule_cpu(
    projected: &[f32],
    of: Recurrence,
    runs: &[[u32; 4]],
    heads: RecurrentHeads<&[f32]>,
    states: &mut [f32],
    mixed: &mut [f32],
) {
    let (channels, width) = (of.channels(), of.value_width);
    let [queries, keys, values] = of.parts();
    for &[first, count, from, to] in runs {
        let (first, count, to) = (first as usize, count as usize, to as usize);
        let mut state = match from {
            NO_SLOT => vec![0.0; of.state()],
            from => states[from as usize * of.state()..][..of.state()].to_vec(),
        };
        let (inputs, memory) = state.split_at_mut((of.taps - 1) * channels);
        for token in first..first + count {
            let row = &projected[token * of.row()..][..of.row()];
            let made = &mut mixed[token * channels..][..channels];
            for head in 0..of.value_heads {
                let of_key = match of.tiled {
                    true => head % of.key_heads,
                    false => head / (of.value_heads / of.key_heads),
                };
                let query = made[queries + of_key * of.key_width..][..of.key_width].to_vec();
                let key = made[keys + of_key * of.key_width..][..of.key_width].to_vec();
                let gates = &row[channels + of.values() + head..];
                let makes_decay = match of.rule {
                    RecurrentRule::Delta => gates[of.value_heads],
                    RecurrentRule::StateSpace => gates[0],
                };
                let x = makes_decay + heads.bias[head];
                let softplus = if x > 20.0 { x } else { x.exp().ln_1p() };
                let decay = (heads.rate[head] * softplus).exp();
                let memory = &mut memory[head * of.key_width * width..][..of.key_width * width];
                for v in 0..width {
                    let value = &mut made[values + head * width + v];
                    let (change, skipped) = match of.rule {
                        RecurrentRule::Delta => {
                            let found: f32 = (0..of.key_width)
                                .map(|k| memory[k * width + v] * key[k])
                                .sum();
                            let share = 1.0 / (1.0 + (-gates[0]).exp());
                            (share * (*value - decay * found), 0.0)
                        }
                        RecurrentRule::StateSpace => {
                            let skip = heads.skip.map_or(0.0, |skip| skip[head]);
                            (softplus * *value, skip * *value)
                        }
                    };
                    *value = skipped;
                    for k in 0..of.key_width {
                        let number = &mut memory[k * width + v];
                        *number = decay * *number + key[k] * change;
                        *value += *number * query[k];
                    }
                }
            }
            inputs.rotate_left(channels);
            let last = inputs.len() - channels;
            inputs[last..].copy_from_slice(&row[..channels]);
        }
        states[to * of.state()..][..of.state()].copy_from_slice(&state);
    }
}
