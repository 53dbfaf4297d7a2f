//! What can be wrong with a matrix.

use conclave_weights::Format;
use thiserror::Error;

/// Why a matrix cannot be kept or multiplied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CpuError {
    /// No product reads this format.
    #[error("the CPU's products do not read {0}; convert it first")]
    Format(Format),
    /// Rows are no whole blocks.
    #[error("rows of {cols} numbers are no whole blocks of {format}; convert them to F32")]
    Cols {
        /// The format.
        format: Format,
        /// Numbers in a row.
        cols: usize,
    },
    /// More or fewer bytes came than the rows of the matrix have.
    #[error("a matrix of {expected} bytes was given {found}")]
    Bytes {
        /// Bytes of all its rows.
        expected: usize,
        /// Bytes that came, as far as they were counted.
        found: usize,
    },
    /// The sizes are more than this machine can address.
    #[error("{rows} rows of {cols} numbers are more than this machine can address")]
    TooLarge {
        /// Rows.
        rows: usize,
        /// Numbers in a row.
        cols: usize,
    },
    /// Rows of input or output do not fit the matrix.
    #[error("{what} has {found} numbers where {expected} belong")]
    Shape {
        /// What does not fit.
        what: &'static str,
        /// What it has.
        found: usize,
        /// What it should have.
        expected: usize,
    },
}
