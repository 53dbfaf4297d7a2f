//! The decoder in burn tensor operations.

use burn::tensor::Tensor;
use conclave_kernels::{Heads, Heard, Scores};
use conclave_model::config::{Config, Layer};
use conclave_model::forward::{forward, scores};
use conclave_model::fused::FusedWeights;
use conclave_model::memory::reads_heads;
use conclave_model::pass::{Pass, TargetScore};
use conclave_model::slots::{PREFIX, SLOTS};
use conclave_model::states::NO_STATE;
use conclave_model::weights::Weights;
use conclave_model::{Decoder, ModelError, Wait};

use crate::cache::{Cache, allocate, heads, move_rows};
use crate::device::Burn;
use crate::pass::{BurnPass, Layout};
use crate::tensors::{Vector, rms_norm};
use crate::weights::Matrix;

/// A transformer with its KV cache on one burn device.
#[derive(Debug)]
pub struct BurnDecoder {
    config: Config,
    context: usize,
    weights: FusedWeights<Layout>,
    /// Whether keys and values are f32.
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

impl BurnDecoder {
    /// Makes a decoder with an empty KV cache.
    ///
    /// # Errors
    /// [`ModelError`] if the device refuses the cache or the rotary tables.
    pub fn new(
        weights: Weights<Matrix, Vector>,
        config: &Config,
        context: usize,
        burn: &Burn,
    ) -> Result<Self, ModelError> {
        let exact = weights.matrices().all(Matrix::is_exact);
        let mut decoder = Self {
            config: config.clone(),
            context,
            weights: FusedWeights::new(&Layout::default(), weights)?,
            exact,
            ropes: Vec::new(),
            caches: Vec::new(),
            states: Tensor::zeros([SLOTS, config.hidden], burn.device()),
            burn: burn.clone(),
            heard: burn.listen(),
        };
        decoder.rotate_by(false);
        Ok(decoder)
    }

    /// Makes the tables of the short or the long frequencies.
    fn rotate_by(&mut self, long: bool) {
        let tables = self.config.ropes.iter();
        self.ropes = tables.map(|rope| rope.table(self.context, long)).collect();
    }

    /// Heads and scores of the attentions that kernels compute.
    pub fn attentions(&self) -> Vec<(Heads, Scores)> {
        let c = &self.config;
        let mut all: Vec<(Heads, Scores)> = Vec::new();
        for of in c
            .attentions()
            .filter(|of| self.burn.binding().is_some() && reads_heads(of))
        {
            let heads = heads(of, self.context, self.exact);
            let scores = Scores {
                window: None,
                ..scores(c, of)
            };
            if all.iter().all(|(known, _)| *known != heads) {
                all.push((heads, scores));
            }
        }
        all
    }

    /// Allocates the KV cache once.
    fn reserve(&mut self) {
        let missing = self.config.layers.iter().skip(self.caches.len());
        let (burn, config) = (&self.burn, &self.config);
        let allocate =
            |layer: &Layer| allocate(burn, config, &layer.mixer, self.context, self.exact);
        self.caches.extend(missing.map(allocate));
    }

    /// Refuses a pass that begins from a recurrent state that no pass has left.
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

    /// Normed hidden states of these slots, `[slots, hidden]`.
    fn normed(&self, slots: &[usize]) -> Tensor<2> {
        let norm = self.weights.output(&self.config).norm;
        let ids: Vec<i32> = slots.iter().map(|&slot| slot as i32).collect();
        let states = self.states.clone().select(0, self.burn.ints(ids));
        rms_norm(states, norm.weight, norm.epsilon)
    }

    /// Logits of the states in these slots, `[slots, vocabulary]`.
    fn logits_of(&self, slots: &[usize]) -> Tensor<2> {
        let output = self.weights.output(&self.config);
        let logits = output.weight.product(self.normed(slots));
        let logits = match output.bias {
            Some(bias) => logits + bias.clone().unsqueeze(),
            None => logits,
        };
        match output.softcap {
            Some(cap) => (logits / cap).tanh() * cap,
            None => logits,
        }
    }

    /// Reads a tensor back. Errors of earlier launches surface here.
    async fn read<const D: usize>(&self, tensor: Tensor<D>) -> Result<Vec<f32>, ModelError> {
        self.burn.read(tensor, &self.heard).await
    }
}

impl Decoder for BurnDecoder {
    fn run(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError> {
        self.burn.check(&self.heard)?;
        self.reserve();
        self.check_states(pass)?;
        let (c, caches) = (&self.config, &mut self.caches);
        let mut operations = BurnPass::new(&self.burn, c, &self.ropes, caches, pass);
        forward(&mut operations, c, &self.weights)?;
        let x = operations.into_stream()?;
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

    fn hidden<'a>(&'a mut self, slots: &'a [usize]) -> Wait<'a, Vec<Vec<f32>>> {
        Box::pin(async move {
            let flat = self.read(self.normed(slots)).await?;
            let rows = flat.chunks(self.config.hidden);
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
            move_rows(cache, from, to, count);
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
