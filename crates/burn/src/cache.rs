//! A layer's memory of earlier tokens, on burn's devices.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Int, Tensor};
use conclave_kernels::Heads;
use conclave_model::config::{self, Mixer};
use conclave_model::memory::reads_heads;
use conclave_model::pass::rows_of;
use conclave_model::{Config, cache};

use crate::device::Burn;
use crate::plain::PlainCache;

/// A layer's cache: keys and values; inputs of a convolution `[rows, hidden]`; or states of a
/// recurrence by slot, `None` until a pass leaves one there.
pub type Cache = cache::Cache<AttentionCache, Tensor<2>, Vec<Option<RecurrentState>>>;

/// Keys and values of an attention.
#[derive(Debug)]
pub struct AttentionCache {
    pub heads: Heads,
    pub rows: KeysAndValues,
}

/// State of a recurrence.
#[derive(Debug, Clone)]
pub struct RecurrentState {
    /// Last inputs of the convolution, the oldest first, `[taps − 1, channels]`.
    pub inputs: Tensor<2>,
    /// A matrix for each value head, `[value_heads, key_width, value_width]`.
    pub memory: Tensor<3>,
}

/// Keys and values of one block.
#[derive(Debug)]
pub enum KeysAndValues {
    /// On the device: keys, then values, each `[rows, words of a row]`.
    Device([Tensor<2, Int>; 2]),
    /// On the CPU, in conclave-cpu's format.
    Host(Arc<Mutex<conclave_cpu::Cache>>),
    /// In plain tensors, if no kernel reads heads of the model's width.
    Plain(PlainCache),
}

/// The heads of an attention and their cache, for a context of `context` tokens.
pub fn heads(of: &config::Attention, context: usize, exact: bool) -> Heads {
    Heads {
        heads: of.heads,
        kv_heads: of.kv_heads,
        width: of.head_dim,
        capacity: rows_of(context),
        exact,
    }
}

/// Room for the whole context of one layer.
pub fn allocate(burn: &Burn, config: &Config, mixer: &Mixer, context: usize, exact: bool) -> Cache {
    let device = burn.device();
    let of = match mixer {
        Mixer::Attention(of) if of.shares.is_some() => return Cache::Shared,
        Mixer::Attention(of) => of,
        Mixer::Convolution(_) => {
            let shape = [rows_of(context), config.hidden];
            return Cache::Convolution(Tensor::zeros(shape, device));
        }
        Mixer::Recurrence(_) => return Cache::Recurrence(Vec::new()),
    };
    let heads = heads(of, context, exact);
    let rows = match burn.binding() {
        Some(_) if !reads_heads(of) => KeysAndValues::Plain(PlainCache::new(heads, device)),
        Some(_) => KeysAndValues::Device(std::array::from_fn(|_| {
            Tensor::zeros([heads.capacity, heads.row_words()], device)
        })),
        None => KeysAndValues::Host(Arc::new(Mutex::new(conclave_cpu::Cache::new(
            heads.capacity,
            heads.kv_heads,
            heads.width,
            heads.exact,
        )))),
    };
    Cache::Attention(AttentionCache { heads, rows })
}

/// Moves rows `from .. from + count` of a layer to `to ..`.
pub fn move_rows(cache: &mut Cache, from: usize, to: usize, count: usize) {
    let keys_and_values = match cache {
        Cache::Attention(cache) => &mut cache.rows,
        Cache::Convolution(rows) => {
            rows.inplace(|rows| {
                let [_, width] = rows.dims();
                // A copy, so that the cache is written in place and not cloned whole.
                let moved = rows.clone().narrow(0, from, count) + 0.0;
                rows.slice_assign([to..to + count, 0..width], moved)
            });
            return;
        }
        Cache::Recurrence(_) | Cache::Shared => return,
    };
    match keys_and_values {
        KeysAndValues::Host(host) => {
            let mut host = host.lock().unwrap_or_else(PoisonError::into_inner);
            host.move_rows(from, to, count);
        }
        KeysAndValues::Plain(cache) => cache.move_rows(from, to, count),
        KeysAndValues::Device(tensors) => {
            for rows in tensors {
                rows.inplace(|rows| {
                    let [_, width] = rows.dims();
                    let moved = rows.clone().narrow(0, from, count);
                    // Likewise.
                    let moved = moved + 0;
                    rows.slice_assign([to..to + count, 0..width], moved)
                });
            }
        }
    }
}
