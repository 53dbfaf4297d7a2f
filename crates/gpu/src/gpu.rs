//! The one GPU device of a process or page, its memory and its reads.
//!
//! Its limits are WebGPU's minimum, and every error it reports is kept: refused work is an error of
//! the next [`Gpu::read`] or [`Gpu::sync`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use futures_channel::oneshot;

use crate::batch::{Batch, yield_now};
use crate::buffer::Ledger;
use crate::launch::{self, Shader, Use};
use crate::pipelines::{self, Kernel, Notes};
use crate::queue::Queue;
use crate::reports::{Heard, Reports};
use crate::{AdapterChoice, AdapterInfo, Buffer, Dispatch, GpuCounters, GpuError, adapter};

/// Limits of the device in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one buffer visible to a kernel.
    pub binding_bytes: u64,
    /// Bytes of one buffer.
    pub buffer_bytes: u64,
    /// Number of workgroups in one dimension of a dispatch.
    pub groups_per_dimension: u32,
}

struct Inner {
    device: wgpu::Device,
    queue: Mutex<Queue>,
    ledger: Arc<Ledger>,
    adapter: AdapterInfo,
    limits: Limits,
    subgroups: bool,
    reports: Reports,
    heard: Heard,
    zeros: Buffer,
    batch: Mutex<Option<Arc<Batch>>>,
}

/// A GPU device with its queue, shared by every member. Cloning is cheap.
#[derive(Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
    /// Records launches instead of running them.
    notes: Option<Notes>,
}

impl Gpu {
    /// Opens the device. Make one for each process or page and clone it: several devices side by
    /// side run at a fraction of the speed of one. After a loss a new one may be made.
    pub async fn init(choice: AdapterChoice) -> Result<Self, GpuError> {
        let adapter = adapter::request(&choice).await?;
        let info = adapter.get_info();
        let offered = adapter.limits();
        // WebGPU's default limits, except for the sizes of buffers: a kernel that needs more fails
        // here instead of on a smaller device.
        let wanted = wgpu::Limits {
            max_buffer_size: offered.max_buffer_size.max(256 << 20),
            max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size.max(128 << 20),
            ..wgpu::Limits::default()
        };
        // Only alternative kernels use subgroups. wgpu 30 cannot request them in a browser.
        let optional = if cfg!(target_family = "wasm") {
            wgpu::Features::empty()
        } else {
            adapter.features() & wgpu::Features::SUBGROUP
        };
        let (device, queue) = adapter
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("conclave"),
                required_features: optional,
                required_limits: wanted,
                memory_hints: wgpu::MemoryHints::MemoryUsage,
                ..Default::default()
            })
            .await
            .map_err(|error| GpuError::NoDevice {
                adapter: info.name.clone(),
                reason: error.to_string(),
            })?;
        let granted = device.limits();
        let info = AdapterInfo::new(&info);
        #[cfg(target_family = "wasm")]
        let info = info.with_browser_info(&device);
        let reports = Reports::watch(&device);
        let ledger = Ledger::new();
        let queue = Queue::new(device.clone(), queue, ledger.clone());
        // New memory is zeroed.
        let zeros = queue.storage(64);
        Ok(Self {
            inner: Arc::new(Inner {
                device,
                queue: Mutex::new(queue),
                ledger,
                adapter: info,
                limits: Limits {
                    binding_bytes: granted.max_storage_buffer_binding_size,
                    buffer_bytes: granted.max_buffer_size,
                    groups_per_dimension: granted.max_compute_workgroups_per_dimension,
                },
                subgroups: !optional.is_empty(),
                heard: reports.listen(),
                reports,
                zeros,
                batch: Mutex::default(),
            }),
            notes: None,
        })
    }

    /// The adapter in use.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.inner.adapter
    }

    /// Limits of the device.
    pub fn limits(&self) -> Limits {
        self.inner.limits
    }

    /// Whether kernels may use subgroups.
    pub fn has_subgroups(&self) -> bool {
        self.inner.subgroups
    }

    /// The wgpu device.
    pub(crate) fn device(&self) -> &wgpu::Device {
        &self.inner.device
    }

    /// Reason of the device's loss, if lost.
    pub fn lost(&self) -> Option<String> {
        self.inner.reports.lost()
    }

    /// Destroys the device, as a driver reset would: later calls fail with
    /// [`GpuError::DeviceLost`].
    pub fn destroy(&self) {
        // Native wgpu calls back only at the next poll.
        self.inner.reports.lose(|| "destroyed on request".into());
        self.inner.device.destroy();
    }

    /// Operations so far.
    pub fn counters(&self) -> GpuCounters {
        self.queue().counters()
    }

    /// Bytes of live buffers.
    pub fn memory_in_use(&self) -> u64 {
        self.inner.ledger.bytes()
    }

    /// Bytes taken from the driver, where known (not in browsers): includes rounding, memory kept
    /// for the next buffers, and memory being freed.
    pub fn memory_reserved(&self) -> u64 {
        let report = self.inner.device.generate_allocator_report();
        report.map_or_else(
            || self.memory_in_use(),
            |report| report.total_reserved_bytes,
        )
    }

    /// A buffer of `bytes` bytes with unspecified content. The memory is freed after its last clone
    /// is dropped and the work queued on it has run.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer, GpuError> {
        self.check_size("a buffer", bytes)?;
        Ok(self.queue().storage(bytes))
    }

    /// A buffer with these numbers.
    pub fn upload<T: Pod>(&self, data: &[T]) -> Result<Buffer, GpuError> {
        let bytes = bytemuck::cast_slice::<T, u8>(data);
        self.check_size("uploaded data", bytes.len())?;
        let mut queue = self.queue();
        let buffer = queue.storage(bytes.len());
        queue.write(&buffer, 0, bytes);
        Ok(buffer)
    }

    /// Overwrites a buffer, which `data` must fill exactly.
    pub fn write<T: Pod>(&self, buffer: &Buffer, data: &[T]) -> Result<(), GpuError> {
        let bytes = bytemuck::cast_slice::<T, u8>(data);
        if bytes.len() != buffer.bytes() {
            return Err(GpuError::shape(
                "write",
                format!("{} bytes into a buffer of {}", bytes.len(), buffer.bytes()),
            ));
        }
        self.write_at(buffer, 0, bytes)
    }

    /// Overwrites a buffer's bytes from `at` on; `at` and the length are whole words.
    ///
    /// # Errors
    /// [`GpuError::Shape`] where they are not, or beyond its end.
    pub fn write_at(&self, buffer: &Buffer, at: usize, data: &[u8]) -> Result<(), GpuError> {
        self.check_lost()?;
        let after = (buffer.bytes().checked_sub(at)).and_then(|b| b.checked_sub(data.len()));
        if after.is_none() || !at.is_multiple_of(4) || !data.len().is_multiple_of(4) {
            let (length, bytes) = (data.len(), buffer.bytes());
            return Err(GpuError::shape(
                "write",
                format!("{length} bytes at {at} into a buffer of {bytes}"),
            ));
        }
        self.queue().write(buffer, at, data);
        Ok(())
    }

    /// A buffer with the concatenated contents of these.
    pub fn concat(&self, buffers: &[&Buffer]) -> Result<Buffer, GpuError> {
        let whole = self.allocate(buffers.iter().map(|buffer| buffer.bytes()).sum())?;
        let mut at = 0;
        for buffer in buffers {
            self.copy((buffer, 0), (&whole, at), buffer.bytes());
            at += buffer.bytes();
        }
        Ok(whole)
    }

    /// Queues a copy of all of a buffer to the beginning of another.
    ///
    /// # Errors
    /// [`GpuError::Shape`] where the target is smaller or the same buffer.
    pub fn copy_into(&self, from: &Buffer, to: &Buffer) -> Result<(), GpuError> {
        self.check_lost()?;
        if to.bytes() < from.bytes() || from.same(to) {
            let (bytes, room) = (from.bytes(), to.bytes());
            return Err(GpuError::shape(
                "copy",
                format!("{bytes} bytes into a buffer of {room}, which must be another one"),
            ));
        }
        self.copy((from, 0), (to, 0), from.bytes());
        Ok(())
    }

    /// Queues a copy of `bytes` bytes, whole words within both buffers.
    pub fn copy(&self, from: (&Buffer, usize), to: (&Buffer, usize), bytes: usize) {
        self.queue().copy(from, to, bytes);
    }

    /// Runs everything queued and reads these buffers back. Reads requested in one turn of the
    /// executor share a copy and a wait. Reports errors since the last read or sync.
    pub async fn read(&self, buffers: &[&Buffer]) -> Result<Vec<Vec<u8>>, GpuError> {
        if buffers.iter().all(|buffer| buffer.bytes() == 0) {
            self.sync().await?;
            return Ok(Vec::new());
        }
        self.check_lost()?;
        let (batch, mut at) = {
            // Under one lock, so that the batch closed below is the one joined by all who found it
            // open.
            let mut open = self.batch();
            let batch = open.get_or_insert_default();
            (batch.clone(), batch.join(buffers))
        };
        // Lets every ready task join first.
        yield_now().await;
        self.batch().take_if(|open| Arc::ptr_eq(open, &batch));
        batch.start(self)?;
        let bytes = batch.finish(self).await?;
        let data = buffers.iter().map(|buffer| {
            at += buffer.bytes();
            bytes[at - buffer.bytes()..at].to_vec()
        });
        Ok(data.collect())
    }

    /// The batch that reads join now.
    fn batch(&self) -> MutexGuard<'_, Option<Arc<Batch>>> {
        lock(&self.inner.batch)
    }

    /// Submits everything, with a copy of these buffers to mappable memory.
    pub(crate) fn copy_out(&self, buffers: &[&Buffer]) -> (Buffer, Option<wgpu::SubmissionIndex>) {
        self.queue().copy_out(buffers)
    }

    /// The first bytes of mapped memory, which is then released.
    pub(crate) fn take_mapped(
        &self,
        staging: Buffer,
        bytes: usize,
        mapped: Result<(), String>,
    ) -> Result<Vec<u8>, GpuError> {
        // Errors first: a refused copy still maps.
        self.check()?;
        let refused = |reason: String| GpuError::Refused { reason };
        mapped.map_err(refused)?;
        let range = staging.raw().slice(..bytes as u64);
        let view = range
            .get_mapped_range()
            .map_err(|error| refused(error.to_string()))?;
        let data = view.to_vec();
        drop(view);
        staging.raw().unmap();
        self.queue().put_staging(staging);
        Ok(data)
    }

    /// [`Self::read`] for buffers of `f32`.
    pub async fn read_f32(&self, buffers: &[&Buffer]) -> Result<Vec<Vec<f32>>, GpuError> {
        let data = self.read(buffers).await?;
        Ok(data
            .iter()
            .map(|bytes| bytemuck::pod_collect_to_vec(bytes))
            .collect())
    }

    /// Runs everything queued and waits for it. Reports errors since the last read or sync.
    pub async fn sync(&self) -> Result<(), GpuError> {
        self.check_lost()?;
        let (sender, receiver) = oneshot::channel();
        let index = self.queue().finish(move || {
            // The receiver may be gone.
            let _ = sender.send(());
        });
        self.poll(index)?;
        let done = receiver.await;
        self.check()?;
        done.map_err(|_| GpuError::Refused {
            reason: "the driver gave up a wait".into(),
        })
    }

    /// Starts everything queued without waiting for it.
    pub fn flush(&self) -> Result<(), GpuError> {
        self.check_lost()?;
        self.queue().submit();
        self.check()
    }

    /// Queues one launch. Buffers are bound in order from 0, then the parameters.
    ///
    /// # Errors
    /// [`GpuError::Shape`] for launches outside WebGPU's limits of workgroups or buffers, or an
    /// output that is also another argument.
    pub fn launch<P: Pod>(
        &self,
        shader: &'static Shader,
        buffers: &[Use<'_>],
        params: &P,
        groups: [u32; 3],
    ) -> Result<(), GpuError> {
        let params = *params;
        let dispatch = Dispatch {
            shader,
            params,
            groups,
        };
        self.run(&dispatch, buffers)
    }

    /// [`Self::launch`] of a [`Dispatch`].
    ///
    /// # Errors
    /// As [`Self::launch`].
    pub fn run<P: Pod>(&self, dispatch: &Dispatch<P>, buffers: &[Use<'_>]) -> Result<(), GpuError> {
        let &Dispatch { shader, groups, .. } = dispatch;
        self.check_lost()?;
        launch::check(shader, buffers, groups)?;
        if let Some(notes) = &self.notes {
            notes.note(shader, buffers);
            return Ok(());
        }
        (self.queue()).run(shader, buffers, dispatch.params(), groups)
    }

    /// Builds the pipelines of these kernels, concurrently where possible. Returns the kernels that
    /// the driver refused, with its messages.
    pub async fn build(&self, kernels: &[Kernel]) -> Vec<(&'static str, String)> {
        pipelines::build(self, kernels).await
    }

    /// Replaces a shader's WGSL on this device and drops its pipelines.
    #[cfg(feature = "faults")]
    pub fn alter(&self, shader: &'static Shader, text: String) {
        self.queue().bindings().alter(shader, text);
    }

    /// Frees the staging memory of reads.
    pub fn clear_staging(&self) {
        self.queue().clear_staging();
    }

    /// The same device, recording launches instead of running them.
    pub fn with_notes(&self, notes: Notes) -> Self {
        Self {
            inner: self.inner.clone(),
            notes: Some(notes),
        }
    }

    /// Sixteen zeros, bound for an absent optional input.
    pub fn zeros(&self) -> &Buffer {
        &self.inner.zeros
    }

    pub(crate) fn check_lost(&self) -> Result<(), GpuError> {
        self.inner.reports.check_lost()
    }

    /// Errors since the last check.
    fn check(&self) -> Result<(), GpuError> {
        self.inner.reports.check(&self.inner.heard)
    }

    /// The queue. After a panic some work may not have been submitted, but the state is sound.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.inner.queue)
    }

    /// Natively callbacks run only while polling the device; in a browser by themselves.
    pub(crate) fn poll(&self, index: Option<wgpu::SubmissionIndex>) -> Result<(), GpuError> {
        if cfg!(target_family = "wasm") {
            return Ok(());
        }
        let wait = wgpu::PollType::Wait {
            submission_index: index,
            timeout: None,
        };
        match self.inner.device.poll(wait) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.check()?;
                Err(GpuError::Refused {
                    reason: error.to_string(),
                })
            }
        }
    }

    fn check_size(&self, what: &'static str, bytes: usize) -> Result<(), GpuError> {
        self.check_lost()?;
        let bytes = bytes as u64;
        let limit = self.inner.limits.binding_bytes;
        if bytes > limit {
            return Err(GpuError::TooLarge { what, bytes, limit });
        }
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(GpuError::shape(
                "buffer",
                format!("{bytes} bytes; a buffer holds a positive number of 4-byte words"),
            ));
        }
        Ok(())
    }
}

/// Locks, also after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("adapter", &self.inner.adapter)
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}
