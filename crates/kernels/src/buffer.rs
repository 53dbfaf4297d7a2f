//! A piece of GPU memory.

use std::sync::atomic::{AtomicU64, Ordering};

use cubecl::server::Handle;

use crate::GpuError;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A piece of GPU memory, freed with its last clone. Clones are the same memory.
#[derive(Debug, Clone)]
pub struct Buffer {
    pub(crate) handle: Handle,
    bytes: usize,
    id: u64,
}

impl Buffer {
    pub(crate) fn new(handle: Handle, bytes: usize) -> Self {
        Self {
            handle,
            bytes,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether both are the same memory.
    pub fn same(&self, other: &Buffer) -> bool {
        self.id == other.id
    }

    /// An error unless the buffer holds at least `words` 4-byte words: natively, nothing
    /// but this check keeps a kernel inside its buffers.
    pub(crate) fn holds(
        &self,
        words: usize,
        kernel: &'static str,
        what: &'static str,
    ) -> Result<(), GpuError> {
        match words.checked_mul(4) {
            Some(needed) if needed <= self.bytes => Ok(()),
            _ => Err(GpuError::shape(
                kernel,
                format!("{what} has {} bytes, {words} words are needed", self.bytes),
            )),
        }
    }
}
