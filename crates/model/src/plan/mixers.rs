//! Plans of the mixers.

use std::ops::Range;

use super::names::{
    CONVOLUTION, CONVOLUTION_IN, CONVOLUTION_OUT, DELTA_BETA, DELTA_DECAY, DELTA_DECAY_BIAS,
    DELTA_DECAY_RATE, DELTA_GATE, DELTA_IN, DELTA_NORM, DELTA_OUT, DELTA_TAPS, KEY, KEY_NORM, Name,
    OUTPUT, QKV, QUERY, QUERY_NORM, SPACE_DECAY_BIAS, SPACE_DECAY_RATE, SPACE_IN, SPACE_NORM,
    SPACE_OUT, SPACE_SKIP, SPACE_TAPS, VALUE,
};
use super::{MatrixPart, Order, Planner, Stacked, VectorPart};
use crate::config::{self, Bias, QkNorm, Rule};
use crate::error::ModelError;
use crate::weights::{Attention, Convolution, KeysAndValues, Recurrence};

impl Planner<'_> {
    pub(super) fn attention(
        &self,
        layer: usize,
        of: config::Attention,
    ) -> Result<Attention<MatrixPart, VectorPart>, ModelError> {
        let c = self.config;
        let (query, kv) = (of.query_width(), of.kv_width());
        let pairs = self.pairs(of);
        let norm = |name: Name, whole: usize| {
            let width = match c.qk_norm {
                QkNorm::None => return Ok(None),
                QkNorm::PerHead | QkNorm::Rotated => of.head_dim,
                QkNorm::Whole => whole,
            };
            let mut part = self.norm(self.names.inside(layer, name), width)?;
            // A converter that permutes the rows of queries permutes their norm as well.
            part.order = pairs;
            Ok::<_, ModelError>(Some(part))
        };
        let sizes = [of.query_rows(), kv, kv];
        let heads = |which, order| {
            let stacked = Stacked {
                names: &[QUERY, KEY, VALUE],
                fused: QKV,
                sizes: &sizes,
            };
            self.part(layer, stacked, which, order, c.qkv_bias)
        };
        Ok(Attention {
            of,
            query: heads(0, pairs)?,
            query_norm: norm(QUERY_NORM, query)?,
            own: match of.shares {
                None => Some(KeysAndValues {
                    key: heads(1, pairs)?,
                    key_norm: norm(KEY_NORM, kv)?,
                    value: heads(2, Order::Stored)?,
                }),
                Some(_) => None,
            },
            output: self.linear(layer, OUTPUT, [c.hidden, query], c.output_bias)?,
        })
    }

    pub(super) fn convolution(
        &self,
        layer: usize,
        of: config::Convolution,
    ) -> Result<Convolution<MatrixPart, VectorPart>, ModelError> {
        let hidden = self.config.hidden;
        let taps = self.names.inside(layer, CONVOLUTION);
        Ok(Convolution {
            of,
            input: self.linear(layer, CONVOLUTION_IN, [3 * hidden, hidden], Bias::Where)?,
            taps: self.numbers(format!("{taps}.weight"), [hidden, of.taps])?,
            bias: self.vector_if_there(format!("{taps}.bias"), hidden)?,
            output: self.linear(layer, CONVOLUTION_OUT, [hidden; 2], Bias::Where)?,
        })
    }

    pub(super) fn recurrence(
        &self,
        layer: usize,
        of: config::Recurrence,
    ) -> Result<Recurrence<MatrixPart, VectorPart>, ModelError> {
        match of.rule {
            Rule::Delta => self.delta_net(layer, of),
            Rule::StateSpace => self.state_space(layer, of),
        }
    }

    fn delta_net(
        &self,
        layer: usize,
        of: config::Recurrence,
    ) -> Result<Recurrence<MatrixPart, VectorPart>, ModelError> {
        let hidden = self.config.hidden;
        let of_stream = |name, rows| self.linear(layer, name, [rows, hidden], Bias::Never);
        let vector = |name, length| {
            let name = self.names.inside(layer, name);
            self.vector(name, 0..length, length)
        };
        let taps = self.names.inside(layer, DELTA_TAPS);
        Ok(Recurrence {
            of,
            input: of_stream(DELTA_IN, of.channels())?,
            gate: of_stream(DELTA_GATE, of.values())?,
            share: Some(of_stream(DELTA_BETA, of.value_heads)?),
            decay: of_stream(DELTA_DECAY, of.value_heads)?,
            decay_bias: vector(DELTA_DECAY_BIAS, of.value_heads)?,
            decay_rate: self.rate(vector(DELTA_DECAY_RATE, of.value_heads)?),
            taps: self.numbers(taps, [of.channels(), of.taps])?,
            taps_bias: None,
            skip: None,
            // Its weight is stored whole, whatever other norms lack of theirs.
            norm: vector(DELTA_NORM, of.value_width)?,
            output: self.linear(layer, DELTA_OUT, [hidden, of.values()], Bias::Never)?,
        })
    }

    fn state_space(
        &self,
        layer: usize,
        of: config::Recurrence,
    ) -> Result<Recurrence<MatrixPart, VectorPart>, ModelError> {
        let hidden = self.config.hidden;
        let after_gate = of.values() + of.channels();
        let all = after_gate + of.value_heads;
        let input = |range: Range<usize>| {
            let mut part = self.linear(layer, SPACE_IN, [all, hidden], Bias::Where)?;
            part.weight.rows = range.start as u64..range.end as u64;
            if let Some(bias) = &mut part.bias {
                bias.numbers = range;
            }
            Ok::<_, ModelError>(part)
        };
        let list = |name, count| self.list(self.names.inside(layer, name), count);
        let taps = self.names.inside(layer, SPACE_TAPS);
        Ok(Recurrence {
            of,
            input: input(of.values()..after_gate)?,
            gate: input(0..of.values())?,
            share: None,
            decay: input(after_gate..all)?,
            decay_bias: list(SPACE_DECAY_BIAS, of.value_heads)?,
            decay_rate: self.rate(list(SPACE_DECAY_RATE, of.value_heads)?),
            taps: self.numbers(format!("{taps}.weight"), [of.channels(), of.taps])?,
            taps_bias: self.vector_if_there(format!("{taps}.bias"), of.channels())?,
            skip: Some(list(SPACE_SKIP, of.value_heads)?),
            norm: list(SPACE_NORM, of.values())?,
            output: self.linear(layer, SPACE_OUT, [hidden, of.values()], Bias::Where)?,
        })
    }

    /// Rates of the decays, which are below 0. GGUF stores the rates themselves, a folder
    /// ln(−rate).
    fn rate(&self, stored: VectorPart) -> VectorPart {
        match self.names.gguf {
            true => stored,
            false => VectorPart {
                logarithm: true,
                scale: -1.0,
                ..stored
            },
        }
    }

    /// The order of query and key rows.
    fn pairs(&self, of: config::Attention) -> Order {
        let rope = self.config.ropes.get(of.rope.unwrap_or(0));
        match (self.config.interleaved, rope) {
            (true, Some(rope)) => Order::Pairs {
                width: of.head_dim,
                turning: rope.rotary_dim,
            },
            _ => Order::Stored,
        }
    }
}
