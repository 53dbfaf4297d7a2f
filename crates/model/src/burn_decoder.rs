//! The decoder in burn tensor operations: what kernels and CPU products are held to.

use burn::tensor::activation::{gelu_approximate, silu, softmax};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use conclave_weights::{Format, dequantise};

use crate::config::{Activation, Config, QkNorm};
use crate::error::ModelError;
use crate::pass::{Pass, TargetScore, rows_of};
use crate::reading::Keep;
use crate::weights::{Block, Linear, Weights};

type Matrix = Tensor<2>;
type Vector = Tensor<1>;

/// Keys and values of one block, each `[kv_heads, rows, head_dim]`.
#[derive(Debug)]
struct Cache {
    keys: Tensor<3>,
    values: Tensor<3>,
}

/// cos and sin of a pass's positions, each `[tokens, 1, rotary_dim / 2]`.
type Turn = (Tensor<3>, Tensor<3>);

/// A transformer with its KV cache on one burn device.
#[derive(Debug)]
pub struct BurnDecoder {
    config: Config,
    context: usize,
    weights: Weights<Matrix, Vector>,
    /// cos and sin of each rotary embedding, `[context, rotary_dim / 2, 2]`.
    ropes: Vec<Vec<f32>>,
    /// Empty while released.
    caches: Vec<Cache>,
    /// Final normed hidden states of the last pass, `[tokens, hidden]`.
    hidden: Option<Tensor<2>>,
    device: Device,
}

impl BurnDecoder {
    /// A decoder with an empty KV cache.
    pub fn new(
        weights: Weights<Matrix, Vector>,
        config: &Config,
        context: usize,
        device: &Device,
    ) -> Self {
        let mut decoder = Self {
            config: config.clone(),
            context,
            weights,
            ropes: Vec::new(),
            caches: Vec::new(),
            hidden: None,
            device: device.clone(),
        };
        decoder.set_ropes(false);
        decoder
    }

    /// Takes the short or the long frequencies, where a rotary embedding has both.
    pub fn set_ropes(&mut self, long: bool) {
        let tables = self.config.ropes.iter();
        self.ropes = tables.map(|rope| rope.table(self.context, long)).collect();
    }

    /// Runs a pass: writes its KV rows and leaves its hidden states for
    /// [`logits`](Self::logits) and [`scores`](Self::scores).
    pub fn run(&mut self, pass: &Pass) {
        self.hidden = None;
        self.reserve();
        let c = &self.config;
        let count = pass.len();
        let ids: Vec<i32> = pass.tokens.iter().map(|&id| id as i32).collect();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [count]), &self.device);
        let turns: Vec<Turn> = (0..self.ropes.len())
            .map(|rope| self.turn(pass, rope))
            .collect();
        let masks = Masks::new(c, pass, &self.device);

        let mut x = self.weights.embedding.clone().select(0, ids) * c.stream_scale();
        for (index, block) in self.weights.blocks.iter().enumerate() {
            let layer = c.layers[index];
            let turn = layer.rope.map(|rope| &turns[rope]);
            let mask = masks.of(layer.window);
            let attended = attend(c, block, &mut self.caches[index], pass, &x, turn, mask);
            x = x + post(c, attended, &block.attention_post_norm);
            let normed = before(c, &x, &block.feed_forward_norm);
            let gate = product(normed.clone(), &block.gate);
            let gate = match c.activation {
                Activation::Silu => silu(gate),
                Activation::Gelu => gelu_approximate(gate),
            };
            let active = gate * product(normed, &block.up);
            let down = product(active, &block.down);
            x = x + post(c, down, &block.feed_forward_post_norm);
        }
        self.hidden = Some(rms_norm(x, &self.weights.norm, c.stream_epsilon()));
    }

    /// Logits `[rows][vocabulary]` after the given tokens of the last pass.
    ///
    /// # Errors
    /// [`ModelError::Burn`] if reading back fails, [`ModelError::Order`] without a pass.
    pub async fn logits(&self, rows: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        let hidden = self.hidden.clone().ok_or(ModelError::Order(
            "no pass has run whose logits could be read",
        ))?;
        let ids: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [rows.len()]), &self.device);
        let states = hidden.select(0, ids);
        let logits = match &self.weights.head {
            Some(head) => product(states, head),
            None => states.matmul(self.weights.embedding.clone().transpose()),
        };
        let logits = softcap(logits, self.config.logit_softcap);
        let data = logits
            .into_data_async()
            .await
            .map_err(|error| ModelError::Burn(format!("{error:?}")))?;
        let flat: Vec<f32> = data
            .try_into_vec()
            .map_err(|error| ModelError::Burn(format!("{error:?}")))?;
        Ok(flat
            .chunks(self.config.vocabulary)
            .map(<[f32]>::to_vec)
            .collect())
    }

    /// Scores of `targets[i]` under the logits after token `rows[i]` of the last pass.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub async fn scores(
        &self,
        rows: &[usize],
        targets: &[u32],
        logprobs: bool,
    ) -> Result<Vec<TargetScore>, ModelError> {
        let logits = self.logits(rows).await?;
        Ok(logits
            .iter()
            .zip(targets)
            .map(|(row, &id)| TargetScore::of(row, id, logprobs))
            .collect())
    }

    /// Moves KV rows `from .. from + count` to `to ..`.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) {
        for Cache { keys, values } in &mut self.caches {
            for rows in [keys, values] {
                rows.inplace(|rows| {
                    let moved = rows.clone().narrow(1, from, count);
                    // A copy, so that the cache is written in place and not cloned whole.
                    let moved = Tensor::cat(vec![moved], 1) + 0.0;
                    let [heads, _, width] = rows.dims();
                    rows.slice_assign([0..heads, to..to + count, 0..width], moved)
                });
            }
        }
    }

    /// Frees the KV cache; the next pass makes it anew.
    pub fn release(&mut self) {
        self.caches.clear();
        self.hidden = None;
    }

    /// Allocates the KV cache once, for the whole context.
    fn reserve(&mut self) {
        let shape = [
            self.config.kv_heads,
            rows_of(self.context),
            self.config.head_dim,
        ];
        while self.caches.len() < self.config.layers.len() {
            self.caches.push(Cache {
                keys: Tensor::zeros(shape, &self.device),
                values: Tensor::zeros(shape, &self.device),
            });
        }
    }

    /// cos and sin of rotary embedding `rope` at the pass's positions.
    fn turn(&self, pass: &Pass, rope: usize) -> Turn {
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
            Tensor::from_data(
                TensorData::new(rows, [pass.len(), 1, rotary / 2]),
                &self.device,
            )
        };
        (gather(0), gather(1))
    }
}

/// Attention of one block with its output product: `[tokens, hidden]`.
fn attend(
    c: &Config,
    block: &Block<Matrix, Vector>,
    cache: &mut Cache,
    pass: &Pass,
    x: &Tensor<2>,
    turn: Option<&Turn>,
    mask: &Tensor<3, Bool>,
) -> Tensor<2> {
    let count = pass.len();
    let normed = before(c, x, &block.attention_norm);
    let heads = |linear: &Linear<Matrix, Vector>, norm: &Option<Vector>, heads: usize| {
        let mut x = product(normed.clone(), linear);
        if let (Some(norm), QkNorm::Whole) = (norm, c.qk_norm) {
            x = rms_norm(x, norm, c.norm_epsilon);
        }
        let x = x.reshape([count, heads, c.head_dim]);
        match norm {
            Some(norm) if c.qk_norm == QkNorm::PerHead => rms_norm(x, norm, c.norm_epsilon),
            _ => x,
        }
    };
    let mut query = heads(&block.query, &block.query_norm, c.heads);
    let mut key = heads(&block.key, &block.key_norm, c.kv_heads);
    let value = heads(&block.value, &None, c.kv_heads);
    if let Some(turn) = turn {
        query = rotate(query, turn);
        key = rotate(key, turn);
    }
    cache.append(pass, key.swap_dims(0, 1), value.swap_dims(0, 1));

    // Queries that share a KV head stand below each other: [kv_heads, group · tokens, head_dim].
    let group = c.heads / c.kv_heads;
    let query = query.swap_dims(0, 1);
    let query = query.reshape([c.kv_heads, group * count, c.head_dim]);
    let (keys, values) = cache.rows(pass.rows());
    let scores = query.matmul(keys.transpose()) * c.attention_scale;
    let scores = softcap(scores, c.attention_softcap);
    let scores = scores.mask_fill(mask.clone(), f32::NEG_INFINITY);
    let attended = softmax(scores, 2)
        .matmul(values)
        .reshape([c.heads, count, c.head_dim])
        .swap_dims(0, 1)
        .reshape([count, c.query_width()]);
    product(attended, &block.output)
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
    let product = x.matmul(linear.weight.clone().transpose());
    match &linear.bias {
        Some(bias) => product + bias.clone().unsqueeze(),
        None => product,
    }
}

/// `x / √(mean(x²) + ε) · weight` over the last dimension.
fn rms_norm<const D: usize>(x: Tensor<D>, weight: &Vector, epsilon: f32) -> Tensor<D> {
    let mean = x.clone().square().mean_dim(D - 1);
    x / (mean + epsilon).sqrt() * weight.clone().unsqueeze()
}

/// `cap · tanh(x / cap)`, where there is a cap.
fn softcap<const D: usize>(x: Tensor<D>, cap: Option<f32>) -> Tensor<D> {
    match cap {
        Some(cap) => (x / cap).tanh() * cap,
        None => x,
    }
}

/// Turns the first dimensions of each head by halves: (a, b) → (a cos − b sin, b cos + a sin).
fn rotate(x: Tensor<3>, (cos, sin): &Turn) -> Tensor<3> {
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

impl Cache {
    /// Writes the pass's keys and values, each `[kv_heads, tokens, head_dim]`.
    fn append(&mut self, pass: &Pass, key: Tensor<3>, value: Tensor<3>) {
        let [heads, count, width] = key.dims();
        let first = pass.first_row();
        let place = [0..heads, first..first + count, 0..width];
        self.keys
            .inplace(|rows| rows.slice_assign(place.clone(), key));
        self.values
            .inplace(|rows| rows.slice_assign(place.clone(), value));
    }

    /// The first `rows` keys and values.
    fn rows(&self, rows: usize) -> (Tensor<3>, Tensor<3>) {
        (
            self.keys.clone().narrow(1, 0, rows),
            self.values.clone().narrow(1, 0, rows),
        )
    }
}

/// True where a query must not look, `[1, group · tokens, rows]`, for each window layers have.
struct Masks(Vec<(Option<u32>, Tensor<3, Bool>)>);

impl Masks {
    fn new(c: &Config, pass: &Pass, device: &Device) -> Self {
        let mut masks: Vec<(Option<u32>, Tensor<3, Bool>)> = Vec::new();
        for layer in &c.layers {
            if masks.iter().all(|(window, _)| *window != layer.window) {
                let (tokens, rows) = (pass.len(), pass.rows());
                let hidden: Vec<bool> = (0..tokens)
                    .flat_map(|query| (0..rows).map(move |row| (query, row)))
                    .map(|(query, row)| !pass.sees(query, row, layer.window))
                    .collect();
                let hidden = TensorData::new(hidden, [1, tokens, rows]);
                let hidden = Tensor::<3, Bool>::from_data(hidden, device);
                masks.push((layer.window, hidden.repeat_dim(1, c.heads / c.kv_heads)));
            }
        }
        Self(masks)
    }

    fn of(&self, window: Option<u32>) -> &Tensor<3, Bool> {
        let found = self.0.iter().find(|(of, _)| *of == window);
        // One was made for every layer's window.
        &found.unwrap_or(&self.0[0]).1
    }
}

/// Keeps weights as f32 tensors on a burn device.
#[derive(Debug)]
pub struct BurnWeights<'a> {
    /// The device.
    pub device: &'a Device,
    /// What plain numbers are rounded to.
    pub quantise: Option<Format>,
}

/// A matrix that comes in.
#[derive(Debug)]
pub struct Numbers {
    format: Format,
    shape: [usize; 2],
    values: Vec<f32>,
}

impl Keep for BurnWeights<'_> {
    type Matrix = Matrix;
    type Vector = Vector;
    type Upload = Numbers;

    fn format(&self, stored: Format, cols: usize) -> Option<Format> {
        Some(crate::formats::quantised(stored, cols, self.quantise).unwrap_or(stored))
    }

    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<Numbers, ModelError> {
        Ok(Numbers {
            format,
            shape: [rows, cols],
            values: Vec::with_capacity(rows * cols),
        })
    }

    fn push(&self, upload: &mut Numbers, rows: &[u8]) -> Result<(), ModelError> {
        let begin = upload.values.len();
        let blocks = rows.len() / upload.format.block_bytes();
        let numbers = blocks * upload.format.block_elements();
        upload.values.resize(begin + numbers, 0.0);
        dequantise(upload.format, rows, &mut upload.values[begin..])
            .map_err(|error| ModelError::Burn(error.to_string()))
    }

    fn finish(&self, upload: Numbers) -> Result<Matrix, ModelError> {
        let data = TensorData::new(upload.values, upload.shape);
        Ok(Tensor::from_data(data, self.device))
    }

    fn vector(&self, values: Vec<f32>) -> Result<Vector, ModelError> {
        let length = values.len();
        Ok(Tensor::from_data(
            TensorData::new(values, [length]),
            self.device,
        ))
    }
}
