//! The caches of a decoder on the GPU: keys and values, rows of convolutions, recurrent states.

use conclave_kernels::Buffer;

use super::decoder::GpuDecoder;
use super::scratch::{channels, heads, recurrence};
use crate::cache;
use crate::config::{Layer, Mixer};
use crate::decoder::{Decoder, Part};
use crate::error::ModelError;
use crate::pass::Run;
use crate::states::COUNTED;

/// A layer's cache: keys and values, rows of a convolution, states of a recurrence.
pub type Cache = cache::Cache<[Buffer; 2], Buffer, States>;

/// Recurrent states by slot.
#[derive(Debug)]
pub struct States {
    pub buffer: Buffer,
    /// Slots there is room for.
    pub slots: usize,
}

impl GpuDecoder {
    /// Room for the whole context of one layer.
    fn cache(&self, layer: &Layer) -> Result<Cache, ModelError> {
        let gpu = &self.gpu;
        Ok(match &layer.mixer {
            Mixer::Attention(of) if of.shares.is_some() => Cache::Shared,
            Mixer::Attention(of) => {
                let bytes = heads(of, self.context, self.exact).cache_bytes();
                Cache::Attention([gpu.allocate(bytes)?, gpu.allocate(bytes)?])
            }
            Mixer::Convolution(_) => {
                let channels = channels(&self.config, self.context, self.exact);
                Cache::Convolution(gpu.allocate(channels.cache_bytes())?)
            }
            Mixer::Recurrence(of) => {
                let of = recurrence(of, COUNTED);
                Cache::Recurrence(States {
                    buffer: gpu.allocate(4 * COUNTED * of.state())?,
                    slots: COUNTED,
                })
            }
        })
    }

    /// Words of a row in each cache of a layer, and how many caches it has.
    pub(super) fn row_words(&self, layer: &Layer) -> (usize, usize) {
        match &layer.mixer {
            Mixer::Attention(of) if of.shares.is_some() => (0, 0),
            Mixer::Attention(of) => (heads(of, self.context, self.exact).row_words(), 2),
            Mixer::Convolution(_) => {
                let channels = channels(&self.config, self.context, self.exact);
                (channels.heads().row_words(), 1)
            }
            Mixer::Recurrence(_) => (0, 0),
        }
    }

    /// Buffers of a part of a text's footprint, layer by layer.
    pub(super) fn parts(&self, part: Part) -> Result<Vec<Buffer>, ModelError> {
        let mut parts = Vec::new();
        for (cache, layer) in self.caches.iter().zip(&self.config.layers) {
            let bytes = |rows: usize| 4 * rows * self.row_words(layer).0;
            match (cache, part, &layer.mixer) {
                (Cache::Attention(caches), Part::Rows(rows), _) => {
                    for cache in caches {
                        parts.push(cache.part(0, bytes(rows))?);
                    }
                }
                (Cache::Convolution(cache), Part::Rows(rows), _) => {
                    parts.push(cache.part(0, bytes(rows))?);
                }
                (Cache::Recurrence(states), Part::State(slot), Mixer::Recurrence(of)) => {
                    let bytes = 4 * of.state();
                    parts.push(states.buffer.part(slot * bytes, bytes)?);
                }
                _ => {}
            }
        }
        Ok(parts)
    }

    /// Allocates the KV cache once, for the whole context.
    pub(super) fn reserve(&mut self) -> Result<(), ModelError> {
        if self.caches.len() == self.config.layers.len() {
            return Ok(());
        }
        for layer in &self.config.layers[self.caches.len()..] {
            let cache = self.cache(layer)?;
            self.caches.push(cache);
        }
        // Moves no row, so that bind groups and pipelines are made before the first winner moves.
        self.move_rows(0, 0, 0)
    }

    /// Makes room for the states that these runs leave.
    pub(super) fn make_room(&mut self, runs: &[Run]) -> Result<(), ModelError> {
        let needed = runs.iter().map(|run| run.to + 1).max().unwrap_or_default();
        for (cache, layer) in self.caches.iter_mut().zip(&self.config.layers) {
            if let (Cache::Recurrence(states), Mixer::Recurrence(of)) = (cache, &layer.mixer)
                && states.slots < needed
            {
                let buffer = self.gpu.allocate(4 * needed * of.state())?;
                self.gpu.copy_into(&states.buffer, &buffer)?;
                *states = States {
                    buffer,
                    slots: needed,
                };
            }
        }
        Ok(())
    }
}
