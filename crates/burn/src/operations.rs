//! Operations that burn lacks, each a function of tensors and settings.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Int, Tensor};
use conclave_kernels::{Format, Heads, Place, Scores};

/// Some rows of a quantised matrix.
#[derive(Debug, Clone)]
pub struct Share {
    /// How its numbers are stored.
    pub format: Format,
    /// The whole matrix's, `[n, k]`.
    pub shape: [usize; 2],
    /// Which of its rows these are.
    pub rows: Range<usize>,
    /// The rows, where a CPU multiplies; elsewhere planes hold them.
    pub host: Option<Arc<conclave_cpu::Matrix>>,
}

/// Where the tokens of a pass stand, and the KV cache of one block.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Place of each token.
    pub places: Arc<Vec<Place>>,
    /// The heads of the attention and their caches.
    pub heads: Heads,
    /// The cache, where a CPU attends; elsewhere tensors hold it.
    pub host: Option<Arc<Mutex<conclave_cpu::Cache>>>,
}

/// The operations below on a backend of burn.
#[backend_extension(Cube, Flex)]
pub trait Operations: Backend {
    /// [`embed`].
    fn embed(
        out: FloatTensor<Self>,
        ids: IntTensor<Self>,
        planes: IntTensor<Self>,
        share: Share,
    ) -> FloatTensor<Self>;

    /// [`product`].
    fn product(
        out: FloatTensor<Self>,
        x: FloatTensor<Self>,
        planes: IntTensor<Self>,
        share: Share,
    ) -> FloatTensor<Self>;

    /// [`experts`].
    fn experts(
        out: FloatTensor<Self>,
        x: FloatTensor<Self>,
        chosen: IntTensor<Self>,
        planes: IntTensor<Self>,
        share: Share,
        count: usize,
    ) -> FloatTensor<Self>;

    /// [`append`].
    fn append(
        qkv: FloatTensor<Self>,
        keys: IntTensor<Self>,
        values: IntTensor<Self>,
        places: IntTensor<Self>,
        rows: Rows,
    ) -> FloatTensor<Self>;

    /// [`attention`].
    fn attention(
        query: FloatTensor<Self>,
        keys: IntTensor<Self>,
        values: IntTensor<Self>,
        places: IntTensor<Self>,
        rows: Rows,
        scores: Scores,
    ) -> FloatTensor<Self>;
}

/// The rows of `ids` `[m]` that lie in this share of a matrix, into their rows of `out` `[m, k]`;
/// of the first share, zeros into the others. `out` is written in place: no other tensor may share
/// it.
pub fn embed(
    out: Tensor<2>,
    ids: Tensor<1, Int>,
    planes: Tensor<1, Int>,
    share: Share,
) -> Tensor<2> {
    let [out, ids, planes] = [
        out.into_dispatch(),
        ids.into_dispatch(),
        planes.into_dispatch(),
    ];
    Tensor::from_dispatch(Dispatch::embed(out, ids, planes, share))
}

/// `x · Wᵀ` of `x` `[m, k]` and this share of a matrix, into its columns of `out` `[m, n]`,
/// which is written in place as [`embed`]'s is.
pub fn product(out: Tensor<2>, x: Tensor<2>, planes: Tensor<1, Int>, share: Share) -> Tensor<2> {
    let [out, x, planes] = [
        out.into_dispatch(),
        x.into_dispatch(),
        planes.into_dispatch(),
    ];
    Tensor::from_dispatch(Dispatch::product(out, x, planes, share))
}

/// Computes `x · Wᵀ` for each of the `chosen` experts. W is the part of the expert's rows that
/// lies in this share of the matrix `[count · n, k]`, which holds `count` experts. The results go
/// to the columns of these rows in `out` `[choices, n]`, which is written in place as by [`embed`].
/// x has a row for each choice, or fewer rows that each serve an equal number of choices.
pub fn experts(
    out: Tensor<2>,
    x: Tensor<2>,
    chosen: Tensor<1, Int>,
    planes: Tensor<1, Int>,
    share: Share,
    count: usize,
) -> Tensor<2> {
    let [out, x] = [out.into_dispatch(), x.into_dispatch()];
    let [chosen, planes] = [chosen.into_dispatch(), planes.into_dispatch()];
    Tensor::from_dispatch(Dispatch::experts(out, x, chosen, planes, share, count))
}

/// Writes the keys and values of `qkv` `[m, heads + 2 · kv_heads, width]` to the rows of the
/// caches that the places name, in place, and gives its queries, `[m, heads, width]`.
pub fn append(
    qkv: Tensor<3>,
    [keys, values]: [Tensor<2, Int>; 2],
    places: Tensor<1, Int>,
    rows: Rows,
) -> Tensor<3> {
    let [keys, values, places] = [
        keys.into_dispatch(),
        values.into_dispatch(),
        places.into_dispatch(),
    ];
    Tensor::from_dispatch(Dispatch::append(
        qkv.into_dispatch(),
        keys,
        values,
        places,
        rows,
    ))
}

/// Verify in line: attention of `query` `[m, heads, width]` to the rows of the caches that each
/// token's place lets it see, the prefix and its own candidate; `[m, heads, width]`.
pub fn attention(
    query: Tensor<3>,
    [keys, values]: [Tensor<2, Int>; 2],
    places: Tensor<1, Int>,
    rows: Rows,
    scores: Scores,
) -> Tensor<3> {
    let [keys, values, places] = [
        keys.into_dispatch(),
        values.into_dispatch(),
        places.into_dispatch(),
    ];
    Tensor::from_dispatch(Dispatch::attention(
        query.into_dispatch(),
        keys,
        values,
        places,
        rows,
        scores,
    ))
}
