//! Attention over a cache: products with its keys, softmax over the rows visible to each token,
//! products with its values.

use std::ops::Range;

use crate::cache::{Cache, Keys, Numbers, Planes};
use crate::exp::{powers, scale};
use crate::lanes::{self, LANES, Lanes, Work};
use crate::threads;
use crate::tile::{MAX_ROWS, Tile};

/// The cache rows visible to a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Rows of the prefix.
    pub prefix: Range<usize>,
    /// Rows of its own candidate up to itself, after the prefix.
    pub own: Range<usize>,
}

/// Parameters of attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Number of query heads: a multiple of the cache's heads, which each serve as many of them.
    pub heads: usize,
    /// Factor on query · key.
    pub scale: f32,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f32>,
}

impl Attention {
    /// Attends from `queries` to `cache`, into `out`: both `[tokens, heads, width]`, a token for
    /// each entry of `seen`. `scratch` is reused for its memory.
    pub fn run(
        self,
        cache: &Cache,
        queries: &[f32],
        seen: &[Seen],
        scratch: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let whole = seen.len() * self.heads * cache.width();
        let sound = self.heads.is_multiple_of(cache.heads().max(1))
            && queries.len() == whole
            && out.len() == whole
            && seen.iter().all(|seen| seen.own.end <= cache.rows())
            && seen.iter().all(|seen| seen.prefix.end <= seen.own.start);
        debug_assert!(sound, "queries, rows and output of one shape");
        if !sound {
            return;
        }
        let rows: usize = seen
            .iter()
            .map(|seen| seen.prefix.len() + seen.own.len())
            .sum();
        let threads = threads::sharing(2 * rows * self.heads * cache.width());
        if threads == 1 {
            self.run_some(cache, 0..cache.heads(), (queries, out), seen, scratch);
        } else if seen.len() > 1 {
            // Each thread takes some tokens, with all heads.
            let each = seen.len().div_ceil(threads);
            let token = self.heads * cache.width();
            let parts = queries
                .chunks(each * token)
                .zip(out.chunks_mut(each * token));
            threads::each(parts.zip(seen.chunks(each)), |((queries, out), seen)| {
                let scratch = &mut Vec::new();
                self.run_some(cache, 0..cache.heads(), (queries, out), seen, scratch);
            });
        } else {
            let each = cache.heads().div_ceil(threads);
            let group = self.heads / cache.heads() * cache.width();
            let parts = queries
                .chunks(each * group)
                .zip(out.chunks_mut(each * group));
            threads::each(parts.enumerate(), |(part, (queries, out))| {
                let heads = part * each..cache.heads().min((part + 1) * each);
                self.run_some(cache, heads, (queries, out), seen, &mut Vec::new());
            });
        }
    }

    /// Attends with some heads of the cache, with each token's `queries` and `out` for them.
    fn run_some(
        self,
        cache: &Cache,
        heads: Range<usize>,
        (queries, out): (&[f32], &mut [f32]),
        seen: &[Seen],
        scratch: &mut Vec<f32>,
    ) {
        match cache.numbers() {
            Numbers::Integers(planes) => lanes::run(Run {
                attention: self,
                cache,
                heads,
                planes,
                queries,
                seen,
                scratch,
                parts: Vec::new(),
                out,
            }),
            Numbers::Floats(planes) => lanes::run(Run {
                attention: self,
                cache,
                heads,
                planes,
                queries,
                seen,
                scratch,
                parts: Vec::new(),
                out,
            }),
        }
    }
}

struct Run<'a, K: Keys> {
    attention: Attention,
    cache: &'a Cache,
    /// Heads of the cache.
    heads: Range<usize>,
    planes: &'a Planes<K, [K::Number; LANES]>,
    queries: &'a [f32],
    seen: &'a [Seen],
    scratch: &'a mut Vec<f32>,
    /// Queries in the form of products' input.
    parts: Vec<K::InputBlock>,
    out: &'a mut [f32],
}

impl<K: Keys> Work for Run<'_, K>
where
    [K::Number; LANES]: Tile<InputBlock = f32>,
{
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(mut self, lanes: L) {
        let group = self.attention.heads / self.cache.heads().max(1);
        let count = self.seen.len() * group;
        for head in self.heads.clone() {
            // Queries that share this head's keys, token by token.
            let mut query = 0;
            while query < count {
                match count - query {
                    1 => self.tile::<L, 1>(lanes, head, query),
                    2 => self.tile::<L, 2>(lanes, head, query),
                    3 => self.tile::<L, 3>(lanes, head, query),
                    _ => self.tile::<L, MAX_ROWS>(lanes, head, query),
                }
                query += MAX_ROWS;
            }
        }
    }
}

impl<K: Keys> Run<'_, K>
where
    [K::Number; LANES]: Tile<InputBlock = f32>,
{
    /// Attends from `T` queries that share a head of the cache.
    #[inline(always)]
    fn tile<L: Lanes, const T: usize>(&mut self, l: L, head: usize, first: usize) {
        let (cache, width) = (self.cache, self.cache.width());
        let group = self.attention.heads / cache.heads();
        let seen: [&Seen; T] = std::array::from_fn(|t| &self.seen[(first + t) / group]);
        let at: [usize; T] = std::array::from_fn(|t| {
            let (token, of_group) = ((first + t) / group, (first + t) % group);
            let head = head - self.heads.start;
            ((token * self.heads.len() + head) * group + of_group) * width
        });
        let begin = seen.map(|seen| {
            if seen.prefix.is_empty() {
                seen.own.start
            } else {
                seen.prefix.start
            }
        });
        let begin = begin.into_iter().min().unwrap_or(0) / LANES;
        let end = seen.map(|seen| seen.own.end).into_iter().max().unwrap_or(0);
        let end = end.div_ceil(LANES).max(begin);
        let rows = (end - begin) * LANES;

        self.scratch.clear();
        self.scratch.resize(2 * T * rows, 0.0);
        let (all, scaled) = self.scratch.split_at_mut(T * rows);
        self.parts.clear();
        for at in at {
            K::parts(&self.queries[at..][..width], &mut self.parts);
        }
        let each = self.parts.len() / T;
        let queries = std::array::from_fn(|t| &self.parts[t * each..][..each]);
        for eight in begin..end {
            let keys = self.planes.keys(cache.shape(), head, eight);
            let sums = K::products::<L, T>(l, keys, queries);
            for (t, sums) in sums.into_iter().enumerate() {
                let to = &mut all[t * rows + (eight - begin) * LANES..];
                if let Some(to) = to.first_chunk_mut() {
                    l.store(sums, to);
                }
            }
        }
        let seen = seen.map(|seen| seen.from(begin * LANES));
        let mut factors = [0.0; T];
        let scores = all.chunks_exact_mut(rows.max(1));
        for ((scores, seen), factor) in scores.zip(&seen).zip(&mut factors) {
            *factor = self.attention.softmax(l, scores, seen);
        }
        for eight in 0..width.div_ceil(LANES) {
            let values = self.planes.values(cache.shape(), head, eight);
            let values = &values[begin * LANES..][..rows];
            let weights = match self.planes.value_scales(cache.shape(), head, eight) {
                [] => &*all,
                scales => {
                    let from = all.chunks_exact(rows.max(1));
                    let to = scaled.chunks_exact_mut(rows.max(1));
                    for ((from, to), seen) in from.zip(to).zip(&seen) {
                        let eights = to.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0);
                        for ((to, from), scales) in eights.zip(&scales[begin..]) {
                            l.store(l.mul(l.load(from), l.load_bf16(scales)), to);
                        }
                        // A broken row's scale is NaN, also for those that do not see it.
                        seen.hide_others(to);
                    }
                    &*scaled
                }
            };
            let weights = std::array::from_fn(|t| &weights[t * rows..][..rows]);
            let sums = <[K::Number; LANES]>::products::<L, T>(l, values, weights);
            for (t, sums) in sums.into_iter().enumerate() {
                let mut lanes = [0.0; LANES];
                l.store(l.mul(sums, l.floats(factors[t])), &mut lanes);
                let from = eight * LANES;
                let to = &mut self.out[at[t] + from..at[t] + width.min(from + LANES)];
                to.copy_from_slice(&lanes[..to.len()]);
            }
        }
    }
}

impl Attention {
    /// Turns scores into softmax weights, zero for invisible rows. Returns the factor still to be
    /// applied to the sum of weighted values.
    #[inline(always)]
    fn softmax<L: Lanes>(self, l: L, scores: &mut [f32], seen: &Seen) -> f32 {
        let Seen { prefix, own } = seen;
        // Together, as in a text of their own: a sum's rounding depends on the lane of each number,
        // and must not depend on where a prefix ends and where its candidate's rows lie.
        scores.copy_within(own.clone(), prefix.end);
        let together = prefix.start..prefix.end + own.len();
        let top = scale(l, &mut scores[together.clone()], self.scale, self.softcap);
        let sum = powers(l, &mut scores[together.clone()], top);
        scores.copy_within(prefix.end..together.end, own.start);
        seen.hide_others(scores);
        1.0 / sum
    }
}

impl Seen {
    /// The same, counting rows from `first`.
    #[inline(always)]
    fn from(&self, first: usize) -> Self {
        let from = |rows: &Range<usize>| rows.start.max(first) - first..rows.end.max(first) - first;
        Self {
            prefix: from(&self.prefix),
            own: from(&self.own),
        }
    }

    /// Zeroes the weights of invisible rows.
    #[inline(always)]
    fn hide_others(&self, weights: &mut [f32]) {
        weights[..self.prefix.start].fill(0.0);
        weights[self.prefix.end..self.own.start].fill(0.0);
        weights[self.own.end..].fill(0.0);
    }
}
