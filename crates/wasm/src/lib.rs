//! Conclave's wasm.
