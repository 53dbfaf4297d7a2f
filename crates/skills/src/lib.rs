//! Conclave's skills.
