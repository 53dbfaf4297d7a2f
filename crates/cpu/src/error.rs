//! Errors of matrices.

use conclave_weights::Format;
use thiserror::Error;

/// Reason why a matrix cannot be stored or multiplied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CpuError {
    /// A format that no product reads.
    #[error("the CPU's products do not read {0}; convert it first")]
    Format(Format),
    /// Rows that are not whole blocks.
    #[error("rows of {cols} numbers are no whole blocks of {format}; convert them to F32")]
    Cols {
        /// The format.
        format: Format,
        /// Numbers in a row.
        cols: usize,
    },
    /// More or fewer bytes than the matrix's rows have.
    #[error("a matrix of {expected} bytes was given {found}")]
    Bytes {
        /// Bytes of all its rows.
        expected: usize,
        /// Bytes received so far.
        found: usize,
    },
    /// Sizes beyond what this machine can address.
    #[error("{rows} rows of {cols} numbers are more than this machine can address")]
    TooLarge {
        /// Rows.
        rows: usize,
        /// Numbers in a row.
        cols: usize,
    },
    /// Rows of input or output that do not fit the matrix.
    #[error("{what} has {found} numbers where {expected} belong")]
    Shape {
        /// The mismatched quantity.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The size required.
        expected: usize,
    },
}
