//! Conclave's ensemble.
