//! The gated delta net of Qwen3.5 behind the product of its queries, keys, values and gates: the short
//! convolution before it, and the rule by which tokens change its states.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::serial::{Both, THREADS, both, items_by, pick};
use crate::{Buffer, GpuError, Launcher};

const MIX: &str = include_str!("../../../../shaders/delta_mix.wgsl");
const RULE: &str = include_str!("../../../../shaders/delta_rule.wgsl");

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
}

pub(crate) static SHADERS: [Both; 2] = [
    both!("delta_mix", [MIX], Params),
    both!("delta_rule", [RULE], Params),
];

/// The slot of a run that begins a text.
pub const NO_SLOT: u32 = u32::MAX;

/// Heads of a delta net and its states. A token's row has queries, keys and values side by side, then
/// the output's gate, what makes the share of each value head, and what makes its decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaNet {
    /// Query heads, and as many key heads.
    pub key_heads: usize,
    /// Value heads; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Width of a query or key head.
    pub key_width: usize,
    /// Width of a value head.
    pub value_width: usize,
    /// Tokens that the convolution sees, itself included; at least two.
    pub taps: usize,
    /// Value head i is of key head i mod `key_heads`, not of i / (`value_heads` / `key_heads`).
    pub tiled: bool,
    /// Slots that there are states in.
    pub slots: usize,
}

impl DeltaNet {
    /// Numbers of all value heads together.
    pub fn values(&self) -> usize {
        self.value_heads * self.value_width
    }

    /// Numbers of queries, keys and values together.
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_width + self.values()
    }

    /// Numbers of a token's row.
    pub fn row(&self) -> usize {
        self.channels() + self.values() + 2 * self.value_heads
    }

    /// Numbers of a state: the convolution's last inputs `[taps − 1, channels]`, then of each value head
    /// `[key_width, value_width]`.
    pub fn state(&self) -> usize {
        (self.taps - 1) * self.channels() + self.values() * self.key_width
    }

    fn params(&self, name: &'static str, tokens: usize) -> Result<Params, GpuError> {
        let heads = [self.key_heads, self.value_heads];
        let sound = !heads.contains(&0) && heads[1].is_multiple_of(heads[0]);
        if !sound || self.taps < 2 || self.key_width == 0 || self.value_width == 0 {
            let problem = format!("{self:?}: value heads on key heads, with two taps or more");
            return Err(GpuError::shape(name, problem));
        }
        count(name, "tokens · row", tokens * self.row())?;
        count(name, "slots · state", self.slots * self.state())?;
        Ok(Params {
            key_heads: self.key_heads as u32,
            value_heads: self.value_heads as u32,
            key_width: self.key_width as u32,
            value_width: self.value_width as u32,
            taps: self.taps as u32,
            row: self.row() as u32,
            state: self.state() as u32,
            tiled: u32::from(self.tiled),
        })
    }
}

/// The convolution of queries, keys and values in `projected` `[tokens, row]` with its SiLU into `mixed`
/// `[tokens, channels]`; queries and keys are as long as 1 then, queries over the root of their width.
/// `steps` `[tokens, 2]` has of each token how many of its run are before it in the pass, and the slot
/// of `states` that the run begins from, or [`NO_SLOT`]; `taps` is `[channels, taps]`.
///
/// # Errors
/// [`GpuError::Shape`] for heads that do not fit and buffers too small.
#[expect(clippy::too_many_arguments, reason = "a kernel's bindings")]
pub fn delta_mix(
    launcher: &Launcher,
    projected: &Buffer,
    tokens: usize,
    net: DeltaNet,
    steps: &Buffer,
    taps: &Buffer,
    states: &Buffer,
    mixed: &Buffer,
) -> Result<(), GpuError> {
    let shader = pick(launcher, &SHADERS[0]);
    let name = shader.name;
    let params = net.params(name, tokens)?;
    projected.holds(tokens * net.row(), name, "projected")?;
    states.holds(net.slots * net.state(), name, "states")?;
    steps.holds(2 * tokens, name, "steps")?;
    taps.holds(net.channels() * net.taps, name, "taps")?;
    mixed.holds(tokens * net.channels(), name, "mixed")?;
    let buffers = [
        Use::Read(projected),
        Use::Read(states),
        Use::Read(steps),
        Use::Read(taps),
        Use::Write(mixed),
    ];
    let heads = 2 * net.key_heads + net.value_heads;
    let [x, ..] = items_by(launcher.choices().serial, heads);
    launcher.launch(shader, &buffers, &params, [x, tokens as u32, 1])
}

/// The gated delta rule over the queries, keys and values of [`delta_mix`]: what each value head gives
/// takes the place of its values in `mixed`. `runs` `[runs, 4]` has the first token of each, how many
/// they are, and the slots of `states` that it begins from, or [`NO_SLOT`], and ends in: no two runs
/// the same. `decay` are `[value_heads]` what is added to what makes it, and its rate.
///
/// # Errors
/// As [`delta_mix`].
#[expect(clippy::too_many_arguments, reason = "a kernel's bindings")]
pub fn delta_rule(
    launcher: &Launcher,
    projected: &Buffer,
    tokens: usize,
    net: DeltaNet,
    (runs, count): (&Buffer, usize),
    [bias, rate]: [&Buffer; 2],
    states: &Buffer,
    mixed: &Buffer,
) -> Result<(), GpuError> {
    let shader = pick(launcher, &SHADERS[1]);
    let name = shader.name;
    let params = net.params(name, tokens)?;
    projected.holds(tokens * net.row(), name, "projected")?;
    states.holds(net.slots * net.state(), name, "states")?;
    runs.holds(4 * count, name, "runs")?;
    bias.holds(net.value_heads, name, "bias")?;
    rate.holds(net.value_heads, name, "rate")?;
    mixed.holds(tokens * net.channels(), name, "mixed")?;
    let buffers = [
        Use::Write(mixed),
        Use::Read(projected),
        Use::Read(runs),
        Use::Read(bias),
        Use::Read(rate),
        Use::Write(states),
    ];
    let serial = launcher.choices().serial;
    // A thread has one column of a head.
    let parts = net.value_width.div_ceil(THREADS[usize::from(serial)]);
    let [x, ..] = items_by(serial, net.value_heads * parts);
    launcher.launch(shader, &buffers, &params, [x, count as u32, 1])
}

/// The CPU twin: what [`delta_mix`] writes.
pub fn delta_mix_cpu(
    projected: &[f32],
    net: DeltaNet,
    steps: &[[u32; 2]],
    taps: &[f32],
    states: &[f32],
) -> Vec<f32> {
    let channels = net.channels();
    let mut mixed = Vec::new();
    for (token, &[before, slot]) in steps.iter().enumerate() {
        let seen = |back: usize, channel: usize| match back.checked_sub(before as usize) {
            None | Some(0) => projected[(token - back) * net.row() + channel],
            Some(_) if slot == NO_SLOT => 0.0,
            Some(beyond) => {
                let input = net.taps - 1 - beyond;
                states[slot as usize * net.state() + input * channels + channel]
            }
        };
        let mut made: Vec<f32> = (0..channels)
            .map(|channel| {
                let of_tap =
                    |tap| taps[channel * net.taps + tap] * seen(net.taps - 1 - tap, channel);
                let sum: f32 = (0..net.taps).map(of_tap).sum();
                sum / (1.0 + (-sum).exp())
            })
            .collect();
        let (query, rest) = made.split_at_mut(net.key_heads * net.key_width);
        let key = &mut rest[..net.key_heads * net.key_width];
        for (heads, length) in [(query, 1.0 / (net.key_width as f32).sqrt()), (key, 1.0)] {
            for head in heads.chunks_mut(net.key_width) {
                let squares: f32 = head.iter().map(|x| x * x).sum();
                let factor = length / (squares + 1e-6).sqrt();
                head.iter_mut().for_each(|x| *x *= factor);
            }
        }
        mixed.extend(made);
    }
    mixed
}

/// The CPU twin: what [`delta_rule`] makes of `mixed` and `states`.
pub fn delta_rule_cpu(
    projected: &[f32],
    net: DeltaNet,
    runs: &[[u32; 4]],
    [bias, rate]: [&[f32]; 2],
    states: &mut [f32],
    mixed: &mut [f32],
) {
    let (channels, keys, width) = (
        net.channels(),
        net.key_heads * net.key_width,
        net.value_width,
    );
    for &[first, count, from, to] in runs {
        let (first, count, to) = (first as usize, count as usize, to as usize);
        let mut state = match from {
            NO_SLOT => vec![0.0; net.state()],
            from => states[from as usize * net.state()..][..net.state()].to_vec(),
        };
        let (inputs, memory) = state.split_at_mut((net.taps - 1) * channels);
        for token in first..first + count {
            let row = &projected[token * net.row()..][..net.row()];
            let (query, rest) = mixed[token * channels..][..channels].split_at_mut(keys);
            let (key, value) = rest.split_at_mut(keys);
            for head in 0..net.value_heads {
                let of_key = match net.tiled {
                    true => head % net.key_heads,
                    false => head / (net.value_heads / net.key_heads),
                };
                let query = &query[of_key * net.key_width..][..net.key_width];
                let key = &key[of_key * net.key_width..][..net.key_width];
                let of_share = channels + net.values() + head;
                let share = 1.0 / (1.0 + (-row[of_share]).exp());
                let x = row[of_share + net.value_heads] + bias[head];
                let softplus = if x > 20.0 { x } else { x.exp().ln_1p() };
                let decay = (rate[head] * softplus).exp();
                let memory = &mut memory[head * net.key_width * width..][..net.key_width * width];
                for v in 0..width {
                    let value = &mut value[head * width + v];
                    let found: f32 = (0..net.key_width)
                        .map(|k| memory[k * width + v] * key[k])
                        .sum();
                    let change = share * (*value - decay * found);
                    *value = 0.0;
                    for k in 0..net.key_width {
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
        states[to * net.state()..][..net.state()].copy_from_slice(&state);
    }
}
