//! What passes on the GPU write to: the KV cache and the activations, laid out once for the
//! largest pass, so that a pass makes nothing.

use conclave_kernels::{Buffer, Gpu};

use crate::config::{Config, QkNorm};
use crate::error::ModelError;
use crate::pass::{IN_LINE_ROWS, rows_of};

/// Tokens that run at once; a longer pass is run in turns.
pub(crate) const TOKENS: usize = 256;

/// Tokens of a pass, and rows of it that are judged, at most.
pub(crate) const ROWS: usize = IN_LINE_ROWS;

/// Bytes of logits held at once; more rows are taken in turns.
const LOGITS_BYTES: usize = 16 << 20;

/// Where a part of a buffer that kernels read may begin.
const ALIGNMENT: usize = 256;

/// Keys and values of one block, each `[rows, kv_heads, head_dim]`.
#[derive(Debug)]
pub(crate) struct Cache<B> {
    pub keys: B,
    pub values: B,
}

/// All that passes write to.
#[derive(Debug)]
pub(crate) struct Room<B = Buffer> {
    pub caches: Vec<Cache<B>>,
    pub scratch: Scratch<B>,
    /// Ids of a pass, `[ROWS]`.
    pub ids: B,
    /// Places of a pass, `[ROWS]`.
    pub places: B,
    /// Final normed hidden states of the last pass, `[ROWS, hidden]`.
    pub states: B,
    pub head: Head<B>,
}

/// Activations of `TOKENS` tokens.
#[derive(Debug)]
pub(crate) struct Scratch<B> {
    /// The residual stream, and its place after a sum.
    pub stream: [B; 2],
    pub normed: B,
    pub query: B,
    pub key: B,
    pub value: B,
    /// Queries and keys behind their norms.
    pub qk_normed: Option<[B; 2]>,
    pub attended: B,
    pub gate: B,
    pub up: B,
    pub active: B,
}

/// What the output product and the scores need. Rows are taken in turns of `at_once`; each turn
/// has a place of its own in `picked`, `targets` and `out`.
#[derive(Debug)]
pub(crate) struct Head<B> {
    pub at_once: usize,
    pub turns: usize,
    /// Which of the states are wanted, `[turns][at_once]`.
    pub picked: B,
    /// `[at_once, hidden]`.
    pub states: B,
    /// `[at_once, vocabulary]`.
    pub logits: B,
    /// `[turns][at_once]`.
    pub targets: B,
    /// `[turns][at_once, 2]`.
    pub out: B,
}

impl Room {
    /// Allocates it for a context of `context` tokens.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] where the memory does not suffice.
    pub fn allocate(gpu: &Gpu, config: &Config, context: usize) -> Result<Self, ModelError> {
        Room::lay_out(config, context, &mut |bytes| {
            // What exceeds the address space exceeds every limit.
            Ok(gpu.allocate(usize::try_from(bytes).unwrap_or(usize::MAX))?)
        })
    }
}

impl Room<()> {
    /// Bytes of the KV cache, and of all else.
    pub fn bytes(config: &Config, context: usize) -> [u64; 2] {
        let mut all: u64 = 0;
        let laid = Room::lay_out(config, context, &mut |bytes| {
            all = all.saturating_add(bytes);
            Ok(())
        });
        let caches = laid.map_or(0, |room: Room<()>| room.caches.len() as u64);
        let kv = (2 * caches).saturating_mul(cache_bytes(config, context));
        [kv, all.saturating_sub(kv)]
    }
}

impl<B> Room<B> {
    fn lay_out(
        c: &Config,
        context: usize,
        make: &mut dyn FnMut(u64) -> Result<B, ModelError>,
    ) -> Result<Self, ModelError> {
        let cache = cache_bytes(c, context);
        let mut caches = Vec::with_capacity(c.layers.len());
        for _ in &c.layers {
            let (keys, values) = (make(cache)?, make(cache)?);
            caches.push(Cache { keys, values });
        }
        let mut numbers = |rows: usize, width: usize| make(bytes_of(rows, width));
        let (query, kv, wide) = (c.query_width(), c.kv_width(), c.feed_forward);
        let scratch = Scratch {
            stream: [numbers(TOKENS, c.hidden)?, numbers(TOKENS, c.hidden)?],
            normed: numbers(TOKENS, c.hidden)?,
            query: numbers(TOKENS, query)?,
            key: numbers(TOKENS, kv)?,
            value: numbers(TOKENS, kv)?,
            qk_normed: match c.qk_norm {
                QkNorm::None => None,
                _ => Some([numbers(TOKENS, query)?, numbers(TOKENS, kv)?]),
            },
            attended: numbers(TOKENS, query)?,
            gate: numbers(TOKENS, wide)?,
            up: numbers(TOKENS, wide)?,
            active: numbers(TOKENS, wide)?,
        };
        let at_once = (LOGITS_BYTES / c.vocabulary.saturating_mul(4).max(1)).clamp(1, ROWS);
        let turns = ROWS.div_ceil(at_once);
        Ok(Self {
            caches,
            scratch,
            ids: numbers(ROWS, 1)?,
            places: numbers(ROWS, 4)?,
            states: numbers(ROWS, c.hidden)?,
            head: Head {
                at_once,
                turns,
                picked: numbers(turns, stride(at_once, 4) / 4)?,
                states: numbers(at_once, c.hidden)?,
                logits: numbers(at_once, c.vocabulary)?,
                targets: numbers(turns, stride(at_once, 4) / 4)?,
                out: numbers(turns, stride(at_once, 8) / 4)?,
            },
        })
    }
}

impl Head<Buffer> {
    /// The place of a turn among numbers of `bytes` bytes a row.
    pub fn turn(&self, all: &Buffer, turn: usize, bytes: usize) -> Result<Buffer, ModelError> {
        let at = turn * stride(self.at_once, bytes);
        Ok(all.part(at, self.at_once * bytes)?)
    }

    /// A number a row, each where its turn finds it.
    pub fn in_turns(&self, rows: &[u32]) -> Vec<u32> {
        let stride = stride(self.at_once, 4) / 4;
        let mut all = Vec::with_capacity(rows.len().div_ceil(self.at_once) * stride);
        for turn in rows.chunks(self.at_once) {
            all.resize(all.len().next_multiple_of(stride), 0);
            all.extend_from_slice(turn);
        }
        all
    }
}

/// Bytes from a turn's place to the next one's.
fn stride(at_once: usize, bytes: usize) -> usize {
    (at_once * bytes).next_multiple_of(ALIGNMENT)
}

/// Bytes of the keys, or the values, of one block.
fn cache_bytes(config: &Config, context: usize) -> u64 {
    bytes_of(rows_of(context), config.kv_width())
}

/// Bytes of f32 `[rows, width]`; sizes come from a file.
fn bytes_of(rows: usize, width: usize) -> u64 {
    4_u64
        .saturating_mul(rows as u64)
        .saturating_mul(width as u64)
}
