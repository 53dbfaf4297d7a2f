//! Conclave's weights.
