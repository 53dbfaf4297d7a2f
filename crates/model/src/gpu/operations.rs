//! The decoder's operations as launches of our WGSL kernels.

use conclave_kernels::{
    Activation as GpuActivation, Append, Attention as GpuAttention, Buffer, Chosen, Columns, Fused,
    GatedHeads, GatedNorm, HeadNorm, Joined, Matrix, Norm as GpuNorm, NormOf, PostNorm, Projected,
    QkNorm as GpuQkNorm, RecurrentHeads, RecurrentPass, RecurrentTaps, Rotary, Rows, Taps, append,
    attention, convolve, embed, experts, gate_heads, gated, group_choices, join_experts, norm_add,
    product, recurrence_mix, recurrence_rule, rms_norm, route,
};

use super::caches::Cache;
use super::decoder::GpuDecoder;
use super::scratch::{channels, counts_of, heads, recurrence};
use super::weights::{Gate, Product};
use crate::cache::OTHER_CACHE;
use crate::config::{self, Activation, Gating, QkNorm, Rule};
use crate::error::ModelError;
use crate::fused::{FusedConvolution, FusedRecurrence};
use crate::operations::{
    Attention, HeadNorms, LayerInputs, Norm, Operations, Projection, Residual,
};
use crate::prefill::blocks_a_submit;
use crate::states::NO_STATE;
use crate::weights::{Experts, PerLayer};

/// Input of a run of launches: the rows of a pass, or a step of a draft.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    pub rows: Rows<'a>,
    /// Number of chunks into which the keys are divided.
    pub chunks: usize,
    pub ids: &'a Buffer,
    pub places: &'a Buffer,
    pub states: Option<RunStates<'a>>,
}

/// The recurrent states between which a step runs.
#[derive(Debug, Clone, Copy)]
pub struct RunStates<'a> {
    pub steps: &'a Buffer,
    pub runs: &'a Buffer,
    /// Number of runs.
    pub count: usize,
}

/// The launches of one step. The stream is `scratch.stream`.
#[derive(Debug)]
pub struct GpuPass<'a> {
    decoder: &'a GpuDecoder,
    step: Step<'a>,
    /// Number of blocks after which the recorded launches are submitted.
    flush_after: Option<usize>,
    branch: &'a Buffer,
}

impl<'a> GpuPass<'a> {
    /// A pass without launches.
    pub fn new(decoder: &'a GpuDecoder, step: Step<'a>) -> Self {
        let layers = decoder.config.layers.len();
        Self {
            decoder,
            step,
            flush_after: blocks_a_submit(decoder.parameters, layers, step.rows.count),
            branch: &decoder.scratch.mixed,
        }
    }

    /// Norm of a product's input. It may be fused into the product only in a draft's step: another
    /// pass of one token is rare, and would need bind groups that no earlier round has made.
    fn norm(&self, norm: Option<Norm<'a, Buffer>>) -> Option<GpuNorm<'a>> {
        norm.map(|norm| GpuNorm {
            weight: norm.weight,
            epsilon: norm.epsilon,
            scratch: &self.decoder.scratch.normed,
            inside: self.drafts(),
        })
    }

    /// Whether this is a draft's step.
    fn drafts(&self) -> bool {
        std::ptr::eq(self.step.rows.counts, &self.decoder.scratch.step)
    }

    /// `x · Wᵀ + bias`.
    fn multiply(&self, x: &Buffer, weights: &Product, out: &Buffer) -> Result<(), ModelError> {
        self.launch(x, weights, Fused::default(), out)
    }

    /// Runs the linear maps of a projection.
    fn project(
        &self,
        input: Projection<'_, Product, Buffer>,
        out: &Buffer,
    ) -> Result<(), ModelError> {
        let fused = Fused {
            norm: self.norm(input.norm),
            ..Fused::default()
        };
        self.launch(&self.decoder.scratch.stream, input.weights, fused, out)
    }

    /// Launches a product with its bias.
    fn launch(
        &self,
        x: &Buffer,
        weights: &Product,
        fused: Fused<'_>,
        out: &Buffer,
    ) -> Result<(), ModelError> {
        let fused = Fused {
            bias: weights.bias.as_ref(),
            ..fused
        };
        let matrices: Vec<&Matrix> = weights.matrices.iter().collect();
        let gpu = &self.decoder.gpu;
        Ok(product(gpu, x, self.step.rows, &matrices, fused, out)?)
    }

    /// Adds the norm of `scratch.branch_out` to the stream. Without a norm the product itself has
    /// been added already.
    fn add_normed(&self, residual: Residual<'_, Buffer>) -> Result<(), ModelError> {
        let (gpu, s) = (&self.decoder.gpu, &self.decoder.scratch);
        let Residual { norm, scale } = residual;
        let Some(norm) = norm else {
            return match scale {
                Some(_) => Err(ModelError::Order("no kernel scales a sum without a norm")),
                None => Ok(()),
            };
        };
        let norm = PostNorm {
            weight: norm.weight,
            epsilon: norm.epsilon,
            width: self.decoder.config.hidden,
            each: 1,
            scale,
        };
        Ok(norm_add(
            gpu,
            &s.branch_out,
            self.step.rows,
            norm,
            &s.stream,
        )?)
    }
}

impl Operations for GpuPass<'_> {
    type Layout = conclave_kernels::Gpu;

    fn begin_block(&mut self, layer: usize) -> Result<(), ModelError> {
        let flushes = |blocks| layer > 0 && layer.is_multiple_of(blocks);
        match self.flush_after.is_some_and(flushes) {
            true => Ok(self.decoder.gpu.flush()?),
            false => Ok(()),
        }
    }

    fn embed(&mut self, embedding: &Matrix, scale: f32) -> Result<(), ModelError> {
        let (gpu, count) = (&self.decoder.gpu, self.step.rows.count);
        let out = &self.decoder.scratch.stream;
        Ok(embed(gpu, self.step.ids, count, embedding, scale, out)?)
    }

    fn layer_inputs(
        &mut self,
        weights: &PerLayer<Matrix, Buffer>,
        of: LayerInputs,
    ) -> Result<(), ModelError> {
        let (gpu, s, rows) = (&self.decoder.gpu, &self.decoder.scratch, self.step.rows);
        let room = s.per_layer.as_ref().ok_or(NO_ROOM_FOR_INPUTS)?;
        let (ids, embedding) = (self.step.ids, &weights.embedding);
        embed(gpu, ids, rows.count, embedding, of.scale, &room.parts)?;
        let (matrices, fused) = ([&weights.projection], Fused::default());
        product(gpu, &s.stream, rows, &matrices, fused, &room.product)?;
        let norm = PostNorm {
            weight: &weights.norm,
            epsilon: of.epsilon,
            width: of.width,
            each: of.layers,
            scale: None,
        };
        Ok(norm_add(gpu, &room.product, rows, norm, &room.parts)?)
    }

    fn attend(
        &mut self,
        input: Projection<'_, Product, Buffer>,
        step: Attention<'_, Buffer>,
    ) -> Result<(), ModelError> {
        let (decoder, of) = (self.decoder, &step.of);
        let (gpu, s, rows) = (&decoder.gpu, &decoder.scratch, self.step.rows);
        self.project(input, &s.projected)?;
        let Some(Cache::Attention([keys, values])) = decoder.caches.get(step.cache) else {
            return Err(OTHER_CACHE);
        };
        let projected = match of.shares {
            Some(_) => Projected::Queries,
            None if of.gate => Projected::Gated,
            None => Projected::All,
        };
        let rope = Rotary {
            // A layer that rotates nothing reads no table; any will do.
            table: &decoder.ropes[step.rotary.map_or(0, |rotary| rotary.table)],
            context: decoder.context,
            rotary: step.rotary.map_or(0, |rotary| rotary.dimensions),
        };
        let heads = heads(of, decoder.context, decoder.exact);
        let (places, caches) = (self.step.places, [keys, values]);
        let appended = Append {
            qkv: &s.projected,
            tokens: rows.count,
            projected,
            norm: head_norms(step.norms, of),
            rope,
            places,
            heads,
            q: &s.query,
            caches,
        };
        append(gpu, appended)?;
        let attention_of = GpuAttention {
            q: &s.query,
            rows,
            chunks: self.step.chunks,
            places,
            heads,
            scores: step.scores,
            caches,
            partials: &s.partials,
            out: &s.mixed,
        };
        attention(gpu, attention_of)?;
        if !of.gate {
            self.branch = &s.mixed;
            return Ok(());
        }
        let width = of.head_dim;
        let gated = GatedHeads {
            heads: of.heads,
            width,
            row: [of.query_width(), 0],
            gate_row: [heads.gated_row(true), width],
            gate_apart: 2 * width,
            silu: false,
        };
        self.branch = &s.query;
        let (x, gates) = ((&s.mixed, rows.count), &s.projected);
        Ok(gate_heads(gpu, x, gated, gates, None, &s.query)?)
    }

    fn convolve(
        &mut self,
        input: Projection<'_, Product, Buffer>,
        convolution: &FusedConvolution<Buffer>,
        layer: usize,
    ) -> Result<(), ModelError> {
        let decoder = self.decoder;
        let (gpu, s, count) = (&decoder.gpu, &decoder.scratch, self.step.rows.count);
        self.project(input, &s.projected)?;
        let Some(Cache::Convolution(cache)) = decoder.caches.get(layer) else {
            return Err(OTHER_CACHE);
        };
        let taps = Taps {
            weight: &convolution.taps,
            count: convolution.of.taps,
            bias: convolution.bias.as_ref(),
        };
        let channels = channels(&decoder.config, decoder.context, decoder.exact);
        let (x, places) = ((&s.projected, count), self.step.places);
        self.branch = &s.mixed;
        Ok(convolve(gpu, x, taps, places, (cache, channels), &s.mixed)?)
    }

    fn recur(
        &mut self,
        input: Projection<'_, Product, Buffer>,
        weights: &FusedRecurrence<Buffer>,
        layer: usize,
        epsilon: f32,
    ) -> Result<(), ModelError> {
        let decoder = self.decoder;
        let (gpu, s, count) = (&decoder.gpu, &decoder.scratch, self.step.rows.count);
        self.project(input, &s.projected)?;
        let Some(Cache::Recurrence(states)) = decoder.caches.get(layer) else {
            return Err(OTHER_CACHE);
        };
        let of = recurrence(&weights.of, states.slots);
        let of_run = self.step.states.ok_or(NO_STATE)?;
        let (steps, runs) = (of_run.steps, (of_run.runs, of_run.count));
        let taps = RecurrentTaps {
            weight: &weights.taps,
            bias: weights.taps_bias.as_ref(),
        };
        let heads = RecurrentHeads {
            bias: &weights.decay_bias,
            rate: &weights.decay_rate,
            skip: weights.skip.as_ref(),
        };
        let (projected, mixed) = (&s.projected, &s.query);
        let pass = RecurrentPass {
            projected,
            tokens: count,
            of,
            states: &states.buffer,
        };
        recurrence_mix(gpu, &pass, steps, taps, mixed)?;
        recurrence_rule(gpu, &pass, runs, heads, mixed)?;
        let [heads, width] = weights.of.normed();
        let [.., values] = of.parts();
        let gated = GatedHeads {
            heads,
            width,
            row: [of.channels(), values],
            gate_row: [of.row(), of.channels()],
            gate_apart: width,
            silu: true,
        };
        let norm = GatedNorm {
            weight: &weights.norm,
            epsilon,
            after_gate: weights.of.rule == Rule::StateSpace,
        };
        self.branch = &s.mixed;
        let (x, norm) = ((mixed, count), Some(norm));
        Ok(gate_heads(gpu, x, gated, projected, norm, &s.mixed)?)
    }

    fn gate(
        &mut self,
        input: Projection<'_, Gate, Buffer>,
        activation: Activation,
    ) -> Result<(), ModelError> {
        let (gpu, s) = (&self.decoder.gpu, &self.decoder.scratch);
        let activation = kernel_activation(activation);
        let norm = self.norm(input.norm);
        self.branch = &s.active;
        match (input.weights, &s.apart) {
            (Gate::Stacked(gate), _) => {
                let fused = Fused {
                    norm,
                    gate: Some(activation),
                    ..Fused::default()
                };
                self.launch(&s.stream, gate, fused, &s.active)
            }
            (Gate::Apart([gate, up]), Some([gates, ups])) => {
                let fused = Fused {
                    norm,
                    ..Fused::default()
                };
                self.launch(&s.stream, gate, fused, gates)?;
                self.launch(&s.stream, up, fused, ups)?;
                let width = up.width();
                let ups = Columns {
                    of: ups,
                    across: width,
                    first: 0,
                };
                let shape = [self.step.rows.count, width];
                Ok(gated(gpu, gates, ups, activation, shape, &s.active)?)
            }
            (Gate::Apart(_), None) => {
                Err(ModelError::Order("there is no room for gate and up apart"))
            }
        }
    }

    fn gate_layer_input(
        &mut self,
        gate: &Product,
        layer: usize,
        activation: Activation,
    ) -> Result<(), ModelError> {
        let (gpu, s) = (&self.decoder.gpu, &self.decoder.scratch);
        let room = s.per_layer.as_ref().ok_or(NO_ROOM_FOR_INPUTS)?;
        self.multiply(&s.stream, gate, &room.gate)?;
        let width = gate.width();
        let part = Columns {
            of: &room.parts,
            across: self.decoder.config.layers.len() * width,
            first: layer * width,
        };
        let shape = [self.step.rows.count, width];
        let activation = kernel_activation(activation);
        self.branch = &s.active;
        Ok(gated(gpu, &room.gate, part, activation, shape, &s.active)?)
    }

    fn add(&mut self, weights: &Product, residual: Residual<'_, Buffer>) -> Result<(), ModelError> {
        let s = &self.decoder.scratch;
        match residual.norm {
            Some(_) => self.multiply(self.branch, weights, &s.branch_out)?,
            None => {
                let fused = Fused {
                    adds: true,
                    ..Fused::default()
                };
                self.launch(self.branch, weights, fused, &s.stream)?;
            }
        }
        self.add_normed(residual)
    }

    fn add_experts(
        &mut self,
        input: Projection<'_, Experts<Matrix, Buffer>, Buffer>,
        activation: Activation,
        residual: Residual<'_, Buffer>,
    ) -> Result<(), ModelError> {
        let (gpu, s) = (&self.decoder.gpu, &self.decoder.scratch);
        let (rows, hidden) = (self.step.rows, self.decoder.config.hidden);
        let room = s.experts.as_ref();
        let room = room.ok_or(ModelError::Order("there is no room for experts"))?;
        let x = match input.norm {
            Some(Norm { weight, epsilon }) => {
                rms_norm(
                    gpu,
                    &s.stream,
                    weight,
                    epsilon,
                    [rows.count, hidden],
                    &s.normed,
                )?;
                &s.normed
            }
            None => &s.stream,
        };
        let (weights, of) = (input.weights, &input.weights.of);
        let (router, fused) = ([&weights.router], Fused::default());
        product(gpu, x, rows, &router, fused, &room.logits)?;
        let counts = counts_of(of);
        let (sigmoid, bias) = (of.gating == Gating::Sigmoid, weights.choice_bias.as_ref());
        let found = [&room.chosen, &room.scores];
        route(gpu, (&room.logits, rows), counts, sigmoid, bias, found)?;
        // All passes are launched alike, so that none binds what no pass before it did.
        let grouped = gpu.choices().groups() && !self.drafts();
        if grouped {
            group_choices(gpu, &room.chosen, rows, counts, &room.groups)?;
        }
        let chosen = Chosen {
            rows,
            of: counts,
            experts: &room.chosen,
            groups: grouped.then_some(&room.groups),
        };
        let [gates, ups] = &room.gated;
        experts(gpu, (x, false), chosen, &weights.gate, gates)?;
        experts(gpu, (x, false), chosen, &weights.up, ups)?;
        let ups = Columns {
            of: ups,
            across: of.width,
            first: 0,
        };
        let shape = [rows.count * of.used, of.width];
        gated(
            gpu,
            gates,
            ups,
            kernel_activation(activation),
            shape,
            &s.active,
        )?;
        experts(gpu, (&s.active, true), chosen, &weights.down, &room.made)?;
        let adds = residual.norm.is_none();
        let joined = Joined {
            used: of.used,
            width: hidden,
            normalised: of.normalised.then_some(config::Experts::EPSILON),
            scale: of.scale,
            adds,
        };
        let out = if adds { &s.stream } else { &s.branch_out };
        join_experts(gpu, &room.made, &room.scores, rows, joined, out)?;
        self.add_normed(residual)
    }
}

/// Error for scratch memory that was laid out by another configuration than the weights'.
const NO_ROOM_FOR_INPUTS: ModelError = ModelError::Order("there is no room for parts of layers");

fn kernel_activation(activation: Activation) -> GpuActivation {
    match activation {
        Activation::Silu => GpuActivation::Silu,
        Activation::Gelu => GpuActivation::Gelu,
    }
}

/// The norms for the append kernel. A layer without keys binds the queries' norm in place of
/// theirs.
fn head_norms<'a>(
    norms: HeadNorms<'a, Buffer>,
    of: &config::Attention,
) -> Option<GpuQkNorm<&'a Buffer>> {
    let key = match of.shares {
        Some(_) => norms.query,
        None => norms.key,
    };
    Some(GpuQkNorm {
        query: norms.query?,
        key: key?,
        of: HeadNorm {
            epsilon: norms.epsilon,
            over: match norms.kind {
                QkNorm::None | QkNorm::PerHead => NormOf::Head,
                QkNorm::Whole => NormOf::AllHeads,
                QkNorm::Rotated => NormOf::RotatedHead,
            },
            values: norms.values,
        },
    })
}
