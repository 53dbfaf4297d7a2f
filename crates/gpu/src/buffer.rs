//! A piece of GPU memory, and the account of all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::GpuError;

/// What every device binds parts of a buffer at multiples of.
pub(crate) const ALIGNMENT: usize = 256;

/// A piece of GPU memory, freed with its last clone. Clones and parts are the same memory.
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

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether both are the same memory, or parts of it.
    pub fn same(&self, other: &Buffer) -> bool {
        self.memory.id == other.memory.id
    }

    /// `bytes` bytes of it from `at` on, whole words; kernels take parts that begin at a
    /// multiple of 256.
    ///
    /// # Errors
    /// [`GpuError::Shape`] where it has no such part.
    pub fn part(&self, at: usize, bytes: usize) -> Result<Buffer, GpuError> {
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

    /// Where it begins in its memory.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn raw(&self) -> &wgpu::Buffer {
        &self.memory.raw
    }

    /// What a bind group has to know it by: its memory, and which part of it.
    pub(crate) fn key(&self) -> [u64; 2] {
        let part = (self.at / ALIGNMENT) as u64 * (1 << 32) + (self.bytes / 4) as u64;
        [self.memory.id, part]
    }

    /// Note that queued work uses it.
    pub(crate) fn mark(&self, submit: u64) {
        self.memory.used.store(submit, Ordering::Relaxed);
    }

    /// Whether work that waits for this submit uses it.
    pub(crate) fn waits_for(&self, submit: u64) -> bool {
        self.memory.used.load(Ordering::Relaxed) == submit
    }

    /// An error unless the buffer holds at least `words` 4-byte words: natively, nothing
    /// but this check keeps a kernel inside its buffers.
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
    /// The last submit with work on it.
    used: AtomicU64,
    ledger: Arc<Ledger>,
}

impl Drop for Memory {
    /// In a browser the memory would otherwise stay until the garbage is collected.
    fn drop(&mut self) {
        let waits = *self.used.get_mut() == self.ledger.submit();
        if !waits {
            self.raw.destroy();
        }
        self.ledger
            .close(self.id, self.bytes, || waits.then(|| self.raw.clone()));
    }
}

/// The account of a device's buffers.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The number of the submit to come.
    submit: AtomicU64,
    bytes: AtomicU64,
    opened: AtomicU64,
    gone: Mutex<Gone>,
}

/// Buffers nobody holds any more.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub ids: Vec<u64>,
    /// To be destroyed once the work that is queued on them is submitted.
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

    /// The number of the submit to come.
    pub fn submit(&self) -> u64 {
        self.submit.load(Ordering::Relaxed)
    }

    /// Bytes of live buffers.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Buffers made so far.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// A submit is on its way: what no longer has an owner may be destroyed.
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
