//! The operations on the CPU: the products and the attention of `conclave-cpu`.

use std::sync::PoisonError;

use burn::backend::Flex;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::TensorData;
use conclave_cpu::{Attention, CpuError, Input};
use conclave_kernels::{Place, Scores};

use crate::operations::{Operations, Rows, Share};

type Floats = FloatTensor<Flex>;
type Ints = IntTensor<Flex>;

impl Operations for Flex {
    fn embed(_: Floats, ids: Ints, _: Ints, share: Share) -> Floats {
        let [_, width] = share.shape;
        let ids = ids.to_contiguous();
        let ids: &[i32] = ids.storage();
        let mut rows = vec![0.0; ids.len() * width];
        if let Some(matrix) = &share.host {
            for (&id, row) in ids.iter().zip(rows.chunks_exact_mut(width)) {
                sound(matrix.row(id as usize, row));
            }
        }
        Floats::from_data(TensorData::new(rows, [ids.len(), width]))
    }

    fn product(_: Floats, x: Floats, _: Ints, share: Share) -> Floats {
        let [n, k] = share.shape;
        let x = x.to_contiguous();
        let mut input = Input::new();
        input.set(x.storage(), k);
        let mut out = vec![0.0; input.rows() * n];
        if let Some(matrix) = &share.host {
            sound(matrix.times(&input, 0..n, &mut out));
        }
        Floats::from_data(TensorData::new(out, [input.rows(), n]))
    }

    fn experts(_: Floats, x: Floats, chosen: Ints, _: Ints, share: Share, count: usize) -> Floats {
        let [all, k] = share.shape;
        let n = all / count;
        let (x, chosen) = (x.to_contiguous(), chosen.to_contiguous());
        let (x, chosen): (&[f32], &[i32]) = (x.storage(), chosen.storage());
        let each = chosen.len() / (x.len() / k);
        let (mut input, mut made) = (Input::new(), Vec::new());
        let mut out = Vec::with_capacity(chosen.len() * n);
        if let Some(matrix) = &share.host {
            for (choice, &expert) in chosen.iter().enumerate() {
                input.set(&x[choice / each * k..][..k], k);
                let first = expert as usize * n;
                sound(matrix.times_part(&input, first..first + n, &mut made));
                out.extend_from_slice(&made);
            }
        }
        Floats::from_data(TensorData::new(out, [chosen.len(), n]))
    }

    fn append(qkv: Floats, _: Ints, _: Ints, _: Ints, rows: Rows) -> Floats {
        let (heads, tokens) = (rows.heads, rows.places.len());
        let qkv = qkv.to_contiguous();
        let (query_width, kv_width) = (heads.heads * heads.width, heads.kv_heads * heads.width);
        let mut query = Vec::with_capacity(tokens * query_width);
        if let Some(cache) = &rows.host {
            let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
            let all: &[f32] = qkv.storage();
            for (row, place) in all.chunks_exact(heads.row()).zip(rows.places.iter()) {
                let (of_query, rest) = row.split_at(query_width);
                let (key, value) = rest.split_at(kv_width);
                query.extend_from_slice(of_query);
                cache.write(place.row as usize, key, value);
            }
        }
        Floats::from_data(TensorData::new(query, [tokens, heads.heads, heads.width]))
    }

    fn attention(query: Floats, _: Ints, _: Ints, _: Ints, rows: Rows, scores: Scores) -> Floats {
        let (heads, tokens) = (rows.heads, rows.places.len());
        let query = query.to_contiguous();
        let mut out = vec![0.0; tokens * heads.heads * heads.width];
        if let Some(cache) = &rows.host {
            let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
            let seen: Vec<_> = rows
                .places
                .iter()
                .map(|place| seen(place, scores))
                .collect();
            let attention = Attention {
                heads: heads.heads,
                scale: scores.scale,
                softcap: scores.softcap,
            };
            attention.run(&cache, query.storage(), &seen, &mut Vec::new(), &mut out);
        }
        Floats::from_data(TensorData::new(out, [tokens, heads.heads, heads.width]))
    }
}

/// The rows of a cache that a token sees.
fn seen(place: &Place, scores: Scores) -> conclave_cpu::Seen {
    let (prefix, own) = place.sees(scores.window);
    conclave_cpu::Seen { prefix, own }
}

/// # Panics
/// Where the CPU refuses the shapes, which a plan has checked: burn's operations have no other way
/// to fail.
fn sound(result: Result<(), CpuError>) {
    if let Err(refused) = result {
        panic!("{refused}");
    }
}
