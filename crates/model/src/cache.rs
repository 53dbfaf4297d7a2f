//! A layer's memory of the tokens before, whatever a backend keeps it in.

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
    /// None: the layer attends to another's.
    Shared,
}

/// Caches are made from the layers that the blocks are planned by.
pub const OTHER_CACHE: ModelError = ModelError::Order("a block's cache is another block's");
