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
    /// Format of its numbers.
    pub format: Format,
    /// Shape of the whole matrix, `[n, k]`.
    pub shape: [usize; 2],
    /// Range of the matrix's rows in it.
    pub rows: Range<usize>,
    /// The rows, if a CPU multiplies; otherwise they are in the planes.
    pub host: Option<Arc<conclave_cpu::Matrix>>,
}

/// Places of a pass's tokens, and the KV cache of one block.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Place of each token.
    pub places: Arc<Vec<Place>>,
    /// The heads of the attention and their caches.
    pub heads: Heads,
    /// The cache, if a CPU attends; otherwise it is in tensors.
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

/// Looks up the rows of `ids` `[m]` that lie in this share of a matrix, and writes them to their
/// rows of `out` `[m, k]`. The first share also writes zeros to all other rows. `out` is written in
/// place: no other tensor may share it.
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

/// Computes `x · Wᵀ` of `x` `[m, k]` and this share of a matrix, and writes it to the share's
/// columns of `out` `[m, n]`, in place as [`embed`] does.
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

/// Writes the keys and values of `qkv` `[m, heads + 2 · kv_heads, width]` in place to the rows of
/// the caches that the places name. Returns the queries, `[m, heads, width]`.
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

/// Attention of `query` `[m, heads, width]` for verifying in line: each token sees the rows of the
/// caches that its place names, those of the prefix and of its own candidate. Returns `[m, heads,
/// width]`.
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
