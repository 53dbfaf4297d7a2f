//! A layer's memory of earlier tokens, generic over the backend's storage.

use crate::error::ModelError;

/// A layer's cache: keys and values as `A`, rows of a convolution as `C`, states of a recurrence
/// as `R`.
#[derive(Debug)]
pub enum Cache<A, C, R> {
    /// Keys and values.
    Attention(A),
    /// Inputs of a convolution.
    Convolution(C),
    /// States of a recurrence.
    Recurrence(R),
    /// No cache: the layer attends to the keys and values of another.
    Shared,
}

/// Error for a block whose cache is of another kind than its mixer; caches and blocks are made from
/// the same layers.
pub const OTHER_CACHE: ModelError = ModelError::Order("a block's cache is another block's");
