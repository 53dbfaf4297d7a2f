//! Conclave's model.
