//! Conclave's kernels.
