//! Verify in line in tensor operations alone, on a cache of f32: for heads of a width that the
//! kernels do not read.

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use conclave_kernels::{Heads, Place, Scores};

/// Keys and values of one block, each `[kv_heads, rows, width]`.
#[derive(Debug)]
pub struct PlainCache([Tensor<3>; 2]);

impl PlainCache {
    /// Room for the rows of `heads`.
    pub fn new(heads: Heads, device: &Device) -> Self {
        let shape = [heads.kv_heads, heads.capacity, heads.width];
        Self(std::array::from_fn(|_| Tensor::zeros(shape, device)))
    }

    /// Moves rows `from .. from + count` to `to ..`.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) {
        for rows in &mut self.0 {
            // A copy, so that the cache is written in place and not cloned whole.
            let moved = rows.clone().narrow(1, from, count) + 0.0;
            write(rows, to, moved);
        }
    }

    /// Writes keys and values, each `[m, kv_heads, width]`, to the rows that the places name.
    pub fn append(&mut self, new: [Tensor<3>; 2], places: &[Place]) {
        let first = places.first().map_or(0, |place| place.row as usize);
        for (rows, new) in self.0.iter_mut().zip(new) {
            write(rows, first, new.swap_dims(0, 1));
        }
    }

    /// Attention of each token of `query` to the rows that its place names. `query` and the result
    /// are `[m, heads, width]`.
    pub fn attend(
        &self,
        query: Tensor<3>,
        places: &[Place],
        heads: Heads,
        scores: Scores,
    ) -> Tensor<3> {
        let Heads {
            heads: all,
            kv_heads,
            width,
            ..
        } = heads;
        let [m, _, _] = query.dims();
        let end = places.last().map_or(0, |place| place.row as usize + 1);
        let [keys, values] = self.0.each_ref().map(|rows| rows.clone().narrow(1, 0, end));
        // Queries that share a key head stand below each other: [kv_heads, group · m, width].
        let group = all / kv_heads;
        let query = query.swap_dims(0, 1);
        let query = query.reshape([kv_heads, group * m, width]);
        let found = query.matmul(keys.transpose()) * scores.scale;
        let found = match scores.softcap {
            Some(cap) => (found / cap).tanh() * cap,
            None => found,
        };
        let unseen = unseen(places, end, scores.window, &found.device());
        let found = found.mask_fill(unseen.clone().repeat_dim(1, group), f32::NEG_INFINITY);
        // Rows of earlier candidates that no query sees may hold NaN, and 0 · NaN is NaN.
        let idle = unseen.clone().all_dim(1).swap_dims(1, 2);
        let values = values.mask_fill(idle.expand([kv_heads, end, width]), 0.0);
        let attended = softmax(found, 2).matmul(values);
        attended.reshape([all, m, width]).swap_dims(0, 1)
    }
}

/// Writes rows `[kv_heads, count, width]` from row `first` on.
fn write(rows: &mut Tensor<3>, first: usize, new: Tensor<3>) {
    let [heads, count, width] = new.dims();
    let place = [0..heads, first..first + count, 0..width];
    rows.inplace(|rows| rows.slice_assign(place, new));
}

/// Mask of the rows that a query does not see, `[1, m, rows]`.
fn unseen(places: &[Place], rows: usize, window: Option<u32>, device: &Device) -> Tensor<3, Bool> {
    let unseen: Vec<bool> = places
        .iter()
        .flat_map(|place| {
            let (prefix, own) = place.sees(window);
            (0..rows).map(move |row| !prefix.contains(&row) && !own.contains(&row))
        })
        .collect();
    Tensor::from_data(TensorData::new(unseen, [1, places.len(), rows]), device)
}
