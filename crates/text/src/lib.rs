//! Conclave's text.
