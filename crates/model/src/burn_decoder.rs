//! The decoder in burn tensor operations: the oracle of every kernel, and the
//! CPU path on burn's `flex` backend.

use burn::module::{Module, Param};
use burn::nn::{Linear, RmsNorm};
use burn::tensor::activation::{gelu_approximate, silu, softmax};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use conclave_kernels::rope_table;

use crate::config::{Activation, Config};
use crate::error::ModelError;
use crate::load::WeightSource;
use crate::pass::{Pass, TargetScore, rows_of};
use crate::rope::frequencies;

/// One block: attention and gated MLP, each behind its norm.
#[derive(Module, Debug)]
struct Block {
    attention_norm: RmsNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    query_norm: Option<RmsNorm>,
    key_norm: Option<RmsNorm>,
    output: Linear,
    feed_forward_norm: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// All weights of a decoder-only transformer.
#[derive(Module, Debug)]
struct Transformer {
    /// `[vocabulary, hidden]`.
    embedding: Param<Tensor<2>>,
    blocks: Vec<Block>,
    norm: RmsNorm,
    head: Linear,
}

/// Keys and values of one block, each `[kv_heads, rows, head_dim]`.
#[derive(Debug)]
struct Cache {
    keys: Tensor<3>,
    values: Tensor<3>,
}

/// A transformer with its KV cache on one burn device.
#[derive(Debug)]
pub struct BurnDecoder {
    config: Config,
    context: usize,
    transformer: Transformer,
    /// cos and sin, `[context, rotary_dim / 2, 2]`.
    rope: Vec<f32>,
    /// Empty while released.
    caches: Vec<Cache>,
    /// Final normed hidden states of the last pass, `[tokens, hidden]`.
    hidden: Option<Tensor<2>>,
    device: Device,
}

impl BurnDecoder {
    /// Loads every weight, dequantised to f32, onto `device`.
    ///
    /// # Errors
    /// [`ModelError::Tensor`] for a missing tensor or one of another shape.
    pub fn load(
        source: &WeightSource<'_>,
        config: &Config,
        context: usize,
        device: &Device,
    ) -> Result<Self, ModelError> {
        let loader = Loader {
            source,
            config,
            device,
        };
        let embedding = loader.matrix("token_embd.weight", config.vocabulary, config.hidden)?;
        let head = if source.has("output.weight") {
            loader.linear("output", config.vocabulary, config.hidden)?
        } else {
            Linear {
                weight: Param::from_tensor(embedding.clone().transpose()),
                bias: None,
            }
        };
        let transformer = Transformer {
            embedding: Param::from_tensor(embedding),
            blocks: (0..config.layers)
                .map(|layer| loader.block(layer))
                .collect::<Result<_, _>>()?,
            norm: loader.norm("output_norm", config.hidden)?,
            head,
        };
        Ok(Self {
            config: config.clone(),
            context,
            transformer,
            rope: rope_table(
                context,
                &frequencies(config, source.rope_factors(config)?.as_deref()),
                1.0,
            ),
            caches: Vec::new(),
            hidden: None,
            device: device.clone(),
        })
    }

    /// Runs a pass: writes its KV rows and leaves its hidden states for
    /// [`logits`](Self::logits) and [`scores`](Self::scores).
    pub fn run(&mut self, pass: &Pass) {
        self.hidden = None;
        let Config {
            hidden,
            heads,
            kv_heads,
            head_dim,
            ..
        } = self.config;
        let count = pass.len();
        if self.caches.is_empty() {
            let empty = || Tensor::zeros([kv_heads, rows_of(self.context), head_dim], &self.device);
            self.caches = (0..self.config.layers)
                .map(|_| Cache {
                    keys: empty(),
                    values: empty(),
                })
                .collect();
        }
        let ids: Vec<i32> = pass.tokens.iter().map(|&id| id as i32).collect();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [count]), &self.device);
        let (cos, sin) = self.rotation(pass);
        let hidden_from = hidden_mask(pass, heads / kv_heads, &self.device);

        let mut x = self.transformer.embedding.val().select(0, ids) * self.config.embedding_scale;
        for (block, cache) in self.transformer.blocks.iter().zip(&mut self.caches) {
            let normed = block.attention_norm.forward(x.clone());
            let split = |x: Tensor<2>, heads: usize| x.reshape([count, heads, head_dim]);
            let mut query = split(block.query.forward(normed.clone()), heads);
            let mut key = split(block.key.forward(normed.clone()), kv_heads);
            let value = split(block.value.forward(normed), kv_heads);
            if let Some(norm) = &block.query_norm {
                query = norm.forward(query);
            }
            if let Some(norm) = &block.key_norm {
                key = norm.forward(key);
            }
            let query = rotate(query, &cos, &sin).swap_dims(0, 1);
            let key = rotate(key, &cos, &sin).swap_dims(0, 1);
            cache.append(pass, key, value.swap_dims(0, 1));

            // Queries that share a KV head stand below each other: [kv_heads, group · tokens, head_dim].
            let query = query.reshape([kv_heads, heads / kv_heads * count, head_dim]);
            let (keys, values) = cache.rows(pass.rows());
            let scores = query.matmul(keys.transpose()) * self.config.attention_scale;
            let scores = scores.mask_fill(hidden_from.clone(), f32::NEG_INFINITY);
            let attended = softmax(scores, 2)
                .matmul(values)
                .reshape([heads, count, head_dim])
                .swap_dims(0, 1)
                .reshape([count, heads * head_dim]);
            x = x + block.output.forward(attended);

            let normed = block.feed_forward_norm.forward(x.clone());
            let gate = block.gate.forward(normed.clone());
            let gate = match self.config.activation {
                Activation::Silu => silu(gate),
                Activation::Gelu => gelu_approximate(gate),
            };
            x = x + block.down.forward(gate * block.up.forward(normed));
        }
        self.hidden = Some(self.transformer.norm.forward(x.reshape([count, hidden])));
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
        let logits = self.transformer.head.forward(hidden.select(0, ids));
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
    ) -> Result<Vec<TargetScore>, ModelError> {
        let logits = self.logits(rows).await?;
        Ok(logits
            .iter()
            .zip(targets)
            .map(|(row, &id)| TargetScore::of(row, id))
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

    /// cos and sin at the pass's positions, each `[tokens, 1, rotary_dim / 2]`.
    fn rotation(&self, pass: &Pass) -> (Tensor<3>, Tensor<3>) {
        let rotary = self.config.rotary_dim;
        let gather = |part: usize| {
            let rows: Vec<f32> = pass
                .places
                .iter()
                .flat_map(|place| &self.rope[place.position as usize * rotary..][..rotary])
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

/// Rotates the first `rotary_dim` of each head by halves: (a, b) → (a cos − b sin, b cos + a sin).
fn rotate(x: Tensor<3>, cos: &Tensor<3>, sin: &Tensor<3>) -> Tensor<3> {
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

/// True where a query must not look, `[1, group · tokens, rows]`.
fn hidden_mask(pass: &Pass, group: usize, device: &Device) -> Tensor<3, Bool> {
    let rows = pass.rows();
    let mask: Vec<bool> = (0..pass.len())
        .flat_map(|query| (0..rows).map(move |row| !pass.sees(query, row)))
        .collect();
    let mask = Tensor::<3, Bool>::from_data(TensorData::new(mask, [1, pass.len(), rows]), device);
    mask.repeat_dim(1, group)
}

/// Makes burn modules out of a file's tensors.
struct Loader<'a> {
    source: &'a WeightSource<'a>,
    config: &'a Config,
    device: &'a Device,
}

impl Loader<'_> {
    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Tensor<2>, ModelError> {
        let values = self.source.values(name, rows, columns)?;
        Ok(Tensor::from_data(
            TensorData::new(values, [rows, columns]),
            self.device,
        ))
    }

    fn vector(&self, name: &str, length: usize) -> Result<Tensor<1>, ModelError> {
        let values = self.source.values(name, 1, length)?;
        Ok(Tensor::from_data(
            TensorData::new(values, [length]),
            self.device,
        ))
    }

    /// `name.weight` `[outputs, inputs]`, and `name.bias` where the file has one.
    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear, ModelError> {
        let weight = self.matrix(&format!("{name}.weight"), outputs, inputs)?;
        let bias = format!("{name}.bias");
        Ok(Linear {
            weight: Param::from_tensor(weight.transpose()),
            bias: if self.source.has(&bias) {
                Some(Param::from_tensor(self.vector(&bias, outputs)?))
            } else {
                None
            },
        })
    }

    fn norm(&self, name: &str, width: usize) -> Result<RmsNorm, ModelError> {
        let gamma = self.vector(&format!("{name}.weight"), width)? + self.config.norm_offset;
        Ok(RmsNorm {
            gamma: Param::from_tensor(gamma),
            epsilon: f64::from(self.config.norm_epsilon),
        })
    }

    fn optional_norm(&self, name: &str, width: usize) -> Result<Option<RmsNorm>, ModelError> {
        if self.source.has(&format!("{name}.weight")) {
            self.norm(name, width).map(Some)
        } else {
            Ok(None)
        }
    }

    fn block(&self, layer: usize) -> Result<Block, ModelError> {
        let c = self.config;
        let name = |part: &str| format!("blk.{layer}.{part}");
        Ok(Block {
            attention_norm: self.norm(&name("attn_norm"), c.hidden)?,
            query: self.linear(&name("attn_q"), c.query_width(), c.hidden)?,
            key: self.linear(&name("attn_k"), c.kv_width(), c.hidden)?,
            value: self.linear(&name("attn_v"), c.kv_width(), c.hidden)?,
            query_norm: self.optional_norm(&name("attn_q_norm"), c.head_dim)?,
            key_norm: self.optional_norm(&name("attn_k_norm"), c.head_dim)?,
            output: self.linear(&name("attn_output"), c.hidden, c.query_width())?,
            feed_forward_norm: self.norm(&name("ffn_norm"), c.hidden)?,
            gate: self.linear(&name("ffn_gate"), c.feed_forward, c.hidden)?,
            up: self.linear(&name("ffn_up"), c.feed_forward, c.hidden)?,
            down: self.linear(&name("ffn_down"), c.hidden, c.feed_forward)?,
        })
    }
}
