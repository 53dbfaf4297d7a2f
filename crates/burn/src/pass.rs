//! The decoder's operations by their equations, in burn tensors: an independent check of the fused
//! kernels. Products, embeddings, append and attention are [`operations`].

use std::sync::Arc;

use burn::tensor::activation::{gelu_approximate, sigmoid, silu};
use burn::tensor::{Int, Tensor, TensorData};
use conclave_kernels::Place;
use conclave_model::cache::OTHER_CACHE;
use conclave_model::config::{Activation, Config, QkNorm};
use conclave_model::fused::{FusedConvolution, FusedRecurrence, Unjoined};
use conclave_model::operations::{
    Attention, HeadNorms, LayerInputs, Norm, Operations, Projection, Residual,
};
use conclave_model::pass::Run;
use conclave_model::weights::{Experts, Linear, PerLayer};
use conclave_model::{ModelError, Pass};

use crate::cache::{Cache, KeysAndValues};
use crate::device::Burn;
use crate::experts;
use crate::operations::{self, Rows};
use crate::recurrence;
use crate::tensors::{Rotation, Vector, normed, product, rms_norm, rotate};
use crate::weights::Matrix;

/// Storage of the open core's weights.
pub type Layout = Unjoined<Matrix, Vector>;

/// The operations on one pass.
pub struct BurnPass<'a> {
    burn: &'a Burn,
    caches: &'a mut [Cache],
    ids: Tensor<1, Int>,
    /// cos and sin of each rotary embedding at the pass's positions.
    rotations: Vec<Rotation>,
    places: Arc<Vec<Place>>,
    /// Places of the tokens on the device, `[4 · tokens]`.
    on_device: Tensor<1, Int>,
    runs: &'a [Run],
    /// Inputs of all layers, `[tokens, layers, width]`.
    layer_inputs: Option<Tensor<3>>,
    /// The residual stream, `[tokens, hidden]`.
    stream: Option<Tensor<2>>,
    branch: Option<Tensor<2>>,
}

impl<'a> BurnPass<'a> {
    /// A pass that has run nothing yet.
    pub fn new(
        burn: &'a Burn,
        config: &Config,
        ropes: &[Vec<f32>],
        caches: &'a mut [Cache],
        pass: &'a Pass,
    ) -> Self {
        let tables = ropes.iter().zip(&config.ropes);
        let rotation = |(table, rope): (&Vec<f32>, &conclave_model::rope::Rope)| {
            rotation(burn, pass, table, rope.rotary_dim)
        };
        Self {
            burn,
            caches,
            ids: burn.ints(pass.tokens.iter().map(|&id| id as i32).collect()),
            rotations: tables.map(rotation).collect(),
            places: Arc::new(pass.places.clone()),
            on_device: burn.ints(bytemuck::cast_slice(&pass.places).to_vec()),
            runs: &pass.runs,
            layer_inputs: None,
            stream: None,
            branch: None,
        }
    }

    /// The residual stream at the end.
    ///
    /// # Errors
    /// [`ModelError::Order`] where nothing has run.
    pub fn into_stream(self) -> Result<Tensor<2>, ModelError> {
        self.stream.ok_or(NOTHING_RAN)
    }

    /// The stream, normalised where there is a norm.
    fn normalised(&self, norm: Option<Norm<'_, Vector>>) -> Result<Tensor<2>, ModelError> {
        let stream = self.stream.clone().ok_or(NOTHING_RAN)?;
        Ok(match norm {
            Some(norm) => rms_norm(stream, norm.weight, norm.epsilon),
            None => stream,
        })
    }

    /// Adds `made` to the stream.
    fn add_made(
        &mut self,
        made: Tensor<2>,
        residual: Residual<'_, Vector>,
    ) -> Result<(), ModelError> {
        let stream = self.stream.take().ok_or(NOTHING_RAN)?;
        let sum = stream
            + match residual.norm {
                Some(norm) => rms_norm(made, norm.weight, norm.epsilon),
                None => made,
            };
        self.stream = Some(match residual.scale {
            Some(scale) => sum * scale.clone().unsqueeze(),
            None => sum,
        });
        Ok(())
    }
}

impl Operations for BurnPass<'_> {
    type Layout = Layout;

    fn embed(&mut self, embedding: &Matrix, scale: f32) -> Result<(), ModelError> {
        self.stream = Some(embedding.rows(self.ids.clone()) * scale);
        Ok(())
    }

    fn layer_inputs(
        &mut self,
        weights: &PerLayer<Matrix, Vector>,
        of: LayerInputs,
    ) -> Result<(), ModelError> {
        let x = self.normalised(None)?;
        let [count, _] = x.dims();
        let split = |rows: Tensor<2>| rows.reshape([count, of.layers, of.width]);
        let product = split(weights.projection.product(x));
        let product = rms_norm(product, &weights.norm, of.epsilon);
        let rows = split(weights.embedding.rows(self.ids.clone()));
        self.layer_inputs = Some(product + rows * of.scale);
        Ok(())
    }

    fn attend(
        &mut self,
        input: Projection<'_, Vec<Linear<Matrix, Vector>>, Vector>,
        step: Attention<'_, Vector>,
    ) -> Result<(), ModelError> {
        let x = self.normalised(input.norm)?;
        let ([count, _], of, norms) = (x.dims(), &step.of, &step.norms);
        let (query, own) = input.weights.split_first().ok_or(OTHER_MIXER)?;
        let rotation = step.rotary.map(|rotary| &self.rotations[rotary.table]);
        let (query, gate) = match of.gate {
            false => {
                let query = product(x.clone(), query);
                let query = split_heads(query, of.heads, norms, norms.query);
                (query, None)
            }
            true => {
                let both = product(x.clone(), query);
                let both = both.reshape([count, of.heads, 2 * of.head_dim]);
                let query = both.clone().narrow(2, 0, of.head_dim);
                let gate = both.narrow(2, of.head_dim, of.head_dim);
                let query = match norms.query {
                    Some(norm) => rms_norm(query, norm, norms.epsilon),
                    None => query,
                };
                (query, Some(gate))
            }
        };
        let query = rotated(query, rotation, norms, norms.query);
        let new = match own {
            [key, value] => {
                let key = split_heads(product(x.clone(), key), of.kv_heads, norms, norms.key);
                let key = rotated(key, rotation, norms, norms.key);
                let value = product(x, value);
                let value = split_heads(value, of.kv_heads, norms, None);
                let value = match norms.values {
                    true => normed(value, norms.epsilon),
                    false => value,
                };
                Some([key, value])
            }
            [] => None,
            _ => return Err(OTHER_MIXER),
        };
        let Some(Cache::Attention(cache)) = self.caches.get_mut(step.cache) else {
            return Err(OTHER_CACHE);
        };
        let (heads, scores) = (cache.heads, step.scores);
        let rows = |host| Rows {
            places: self.places.clone(),
            heads,
            host,
        };
        let in_line = |tensors: [Tensor<2, Int>; 2], rows: Rows| {
            let places = &self.on_device;
            let query = match new.clone() {
                Some([key, value]) => {
                    let qkv = Tensor::cat(vec![query.clone(), key, value], 1);
                    operations::append(qkv, tensors.clone(), places.clone(), rows.clone())
                }
                None => query.clone(),
            };
            operations::attention(query, tensors, places.clone(), rows, scores)
        };
        let attended = match &mut cache.rows {
            KeysAndValues::Device(tensors) => in_line(tensors.clone(), rows(None)),
            KeysAndValues::Host(host) => {
                // On a host the cache is no tensor, and any two stand for it.
                let none = std::array::from_fn(|_| Tensor::zeros([1, 1], self.burn.device()));
                in_line(none, rows(Some(host.clone())))
            }
            KeysAndValues::Plain(cache) => {
                if let Some(new) = new {
                    cache.append(new, &self.places);
                }
                cache.attend(query, &self.places, heads, scores)
            }
        };
        let attended = match gate {
            Some(gate) => attended * sigmoid(gate),
            None => attended,
        };
        self.branch = Some(attended.reshape([count, of.query_width()]));
        Ok(())
    }

    fn convolve(
        &mut self,
        input: Projection<'_, Vec<Linear<Matrix, Vector>>, Vector>,
        convolution: &FusedConvolution<Vector>,
        layer: usize,
    ) -> Result<(), ModelError> {
        let x = self.normalised(input.norm)?;
        let [count, width] = x.dims();
        let bcx = product(x, alone(input.weights)?);
        let Some(Cache::Convolution(cache)) = self.caches.get_mut(layer) else {
            return Err(OTHER_CACHE);
        };
        let [b, c, x] = [0, 1, 2].map(|part| bcx.clone().narrow(1, part * width, width));
        let first = self.places.first().map_or(0, |place| place.row as usize);
        let place = [first..first + count, 0..width];
        cache.inplace(|rows| rows.slice_assign(place, b * x));
        let all = convolution.of.taps;
        let taps = convolution.taps.clone().reshape([width, all]);
        let mut sum = Tensor::zeros([count, width], self.burn.device());
        for tap in 0..all {
            let back = (all - 1 - tap) as u32;
            let rows = self.places.iter().map(|place| place.before(back));
            // A row before the text counts for nothing, whatever it has.
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
        if let Some(bias) = &convolution.bias {
            sum = sum + bias.clone().unsqueeze();
        }
        self.branch = Some(c * sum);
        Ok(())
    }

    fn recur(
        &mut self,
        input: Projection<'_, Vec<Linear<Matrix, Vector>>, Vector>,
        weights: &FusedRecurrence<Vector>,
        layer: usize,
        epsilon: f32,
    ) -> Result<(), ModelError> {
        let x = self.normalised(input.norm)?;
        let Some(Cache::Recurrence(states)) = self.caches.get_mut(layer) else {
            return Err(OTHER_CACHE);
        };
        let [input, gate, share @ .., decay] = &input.weights[..] else {
            return Err(OTHER_MIXER);
        };
        let qkv = product(x.clone(), input);
        let decay = product(x.clone(), decay);
        let share = share.first().map(|share| product(x.clone(), share));
        let made = recurrence::run(weights, states, qkv, share, decay, self.runs);
        let gate = silu(product(x, gate));
        self.branch = Some(recurrence::gate(weights, made, gate, epsilon));
        Ok(())
    }

    fn gate(
        &mut self,
        input: Projection<'_, [Linear<Matrix, Vector>; 2], Vector>,
        activation: Activation,
    ) -> Result<(), ModelError> {
        let x = self.normalised(input.norm)?;
        let [gate, up] = input.weights;
        self.branch = Some(activated(activation, product(x.clone(), gate)) * product(x, up));
        Ok(())
    }

    fn gate_layer_input(
        &mut self,
        gate: &Vec<Linear<Matrix, Vector>>,
        layer: usize,
        activation: Activation,
    ) -> Result<(), ModelError> {
        let x = self.normalised(None)?;
        let inputs = self.layer_inputs.clone().ok_or(NOTHING_RAN)?;
        let [count, _, width] = inputs.dims();
        let input = inputs.narrow(1, layer, 1).reshape([count, width]);
        self.branch = Some(activated(activation, product(x, alone(gate)?)) * input);
        Ok(())
    }

    fn add(
        &mut self,
        weights: &Vec<Linear<Matrix, Vector>>,
        residual: Residual<'_, Vector>,
    ) -> Result<(), ModelError> {
        let branch = self.branch.take().ok_or(NOTHING_RAN)?;
        self.add_made(product(branch, alone(weights)?), residual)
    }

    fn add_experts(
        &mut self,
        input: Projection<'_, Experts<Matrix, Vector>, Vector>,
        activation: Activation,
        residual: Residual<'_, Vector>,
    ) -> Result<(), ModelError> {
        let x = self.normalised(input.norm)?;
        let act = |gate| activated(activation, gate);
        self.add_made(experts::run(input.weights, x, act), residual)
    }
}

/// Error for an operation that is called before the one whose result it reads.
const NOTHING_RAN: ModelError = ModelError::Order("an operation came before the one it follows");

/// Error for a projection of another kind than its mixer's.
const OTHER_MIXER: ModelError = ModelError::Order("a block's projection is another mixer's");

/// The one linear map of a product.
fn alone(weights: &[Linear<Matrix, Vector>]) -> Result<&Linear<Matrix, Vector>, ModelError> {
    match weights {
        [one] => Ok(one),
        _ => Err(OTHER_MIXER),
    }
}

fn activated(activation: Activation, gate: Tensor<2>) -> Tensor<2> {
    match activation {
        Activation::Silu => silu(gate),
        Activation::Gelu => gelu_approximate(gate),
    }
}

/// Splits a product into heads `[tokens, heads, width]`, and applies the norm that comes before the
/// rotation.
fn split_heads(
    x: Tensor<2>,
    heads: usize,
    norms: &HeadNorms<'_, Vector>,
    weight: Option<&Vector>,
) -> Tensor<3> {
    let [count, width] = x.dims();
    let shape = [count, heads, width / heads];
    match (weight, norms.kind) {
        (Some(weight), QkNorm::Whole) => rms_norm(x, weight, norms.epsilon).reshape(shape),
        (Some(weight), QkNorm::PerHead) => rms_norm(x.reshape(shape), weight, norms.epsilon),
        _ => x.reshape(shape),
    }
}

/// Rotates heads, and applies the norm that comes after the rotation.
fn rotated(
    x: Tensor<3>,
    rotation: Option<&Rotation>,
    norms: &HeadNorms<'_, Vector>,
    weight: Option<&Vector>,
) -> Tensor<3> {
    let x = match rotation {
        Some(rotation) => rotate(x, rotation),
        None => x,
    };
    match weight {
        Some(weight) if norms.kind == QkNorm::Rotated => rms_norm(x, weight, norms.epsilon),
        _ => x,
    }
}

/// cos and sin of a rotary embedding at the pass's positions.
fn rotation(burn: &Burn, pass: &Pass, table: &[f32], rotary: usize) -> Rotation {
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
        Tensor::from_data(data, burn.device())
    };
    (gather(0), gather(1))
}
