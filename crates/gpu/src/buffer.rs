//! GPU memory, and the accounting of all buffers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::GpuError;

/// Alignment of bound parts of a buffer on every device.
pub(crate) const ALIGNMENT: usize = 256;

/// A piece of GPU memory, freed with its last clone. Clones and parts share the memory.
#[derive(Debug, Clone)]
pub struct Buffer {
    memory: Arc<Memory>,
    at: usize,
    bytes: usize,
}

impl Buffer {
    pub(crate) fn new(raw: wgpu::Buffer, bytes: usize, ledger: &Arc<Ledger>) -> Self {
        let id = ledger.open(bytes);
        let memory = Memory {
            raw,
            id,
            bytes,
            used: AtomicU64::new(0),
            ledger: ledger.clone(),
        };
        Self {
            memory: Arc::new(memory),
            at: 0,
            bytes,
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether both share memory.
    pub fn same(&self, other: &Self) -> bool {
        self.memory.id == other.memory.id
    }

    /// The part of `bytes` bytes from `at` on, in whole words; for kernels `at` must be a multiple
    /// of 256.
    ///
    /// # Errors
    /// [`GpuError::Shape`] if out of range.
    pub fn part(&self, at: usize, bytes: usize) -> Result<Self, GpuError> {
        let whole = at.is_multiple_of(4) && bytes.is_multiple_of(4) && bytes > 0;
        match at.checked_add(bytes) {
            Some(end) if end <= self.bytes && whole => Ok(Self {
                memory: self.memory.clone(),
                at: self.at + at,
                bytes,
            }),
            _ => Err(GpuError::shape(
                "buffer",
                format!("{bytes} bytes at {at} of a buffer of {}", self.bytes),
            )),
        }
    }

    /// Offset in its memory.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn raw(&self) -> &wgpu::Buffer {
        &self.memory.raw
    }

    /// Identity for bind groups: the memory, and the part of it.
    pub(crate) fn key(&self) -> [u64; 2] {
        let part = (self.at / ALIGNMENT) as u64 * (1 << 32) + (self.bytes / 4) as u64;
        [self.memory.id, part]
    }

    /// Marks it as used by queued work.
    pub(crate) fn mark(&self, submit: u64) {
        self.memory.used.store(submit, Ordering::Relaxed);
    }

    /// Whether work waiting for this submit uses it.
    pub(crate) fn waits_for(&self, submit: u64) -> bool {
        self.memory.used.load(Ordering::Relaxed) == submit
    }

    /// Checks that the buffer holds at least `words` 4-byte words: natively, only this check keeps
    /// a kernel inside its buffers.
    ///
    /// # Errors
    /// [`GpuError::Shape`] where it is smaller.
    pub fn holds(
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

/// One buffer of the device.
#[derive(Debug)]
struct Memory {
    raw: wgpu::Buffer,
    id: u64,
    bytes: usize,
    /// Number of the last submit with work on it.
    used: AtomicU64,
    ledger: Arc<Ledger>,
}

impl Drop for Memory {
    /// In a browser the memory would otherwise stay until garbage collection.
    fn drop(&mut self) {
        let waits = *self.used.get_mut() == self.ledger.submit();
        if !waits {
            self.raw.destroy();
        }
        self.ledger
            .close(self.id, self.bytes, || waits.then(|| self.raw.clone()));
    }
}

/// Accounting of a device's buffers.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Number of the next submit.
    submit: AtomicU64,
    bytes: AtomicU64,
    opened: AtomicU64,
    gone: Mutex<Gone>,
}

/// Buffers without owners.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub ids: Vec<u64>,
    /// To be destroyed once the work queued on them is submitted.
    pub queued: Vec<wgpu::Buffer>,
}

impl Ledger {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            submit: AtomicU64::new(1),
            bytes: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            gone: Mutex::default(),
        })
    }

    /// Number of the next submit.
    pub fn submit(&self) -> u64 {
        self.submit.load(Ordering::Relaxed)
    }

    /// Bytes of live buffers.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of buffers made so far.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Counts a submit and returns the buffers to destroy.
    pub fn submitted(&self) -> Gone {
        self.submit.fetch_add(1, Ordering::Relaxed);
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut gone)
    }

    fn open(&self, bytes: usize) -> u64 {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.opened.fetch_add(1, Ordering::Relaxed)
    }

    fn close(&self, id: u64, bytes: usize, queued: impl FnOnce() -> Option<wgpu::Buffer>) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.ids.push(id);
        gone.queued.extend(queued());
    }
}
