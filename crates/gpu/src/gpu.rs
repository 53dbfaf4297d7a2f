//! The one GPU device of a process or page, its memory and its reads.
//!
//! Its limits are what every WebGPU device has, and every error it reports is heard: work
//! that was refused is an error of the next [`Gpu::read`] or [`Gpu::sync`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use futures_channel::oneshot;

use crate::batch::{Batch, others_first};
use crate::buffer::Ledger;
use crate::launch::{self, Shader, Use};
use crate::pipelines::{self, Kernel, Notes};
use crate::queue::Queue;
use crate::reports::{Heard, Reports};
use crate::{AdapterChoice, AdapterInfo, Buffer, Dispatch, GpuCounters, GpuError, adapter};

/// What the device in use can bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one buffer that a kernel can see.
    pub binding_bytes: u64,
    /// Bytes of one buffer.
    pub buffer_bytes: u64,
    /// Workgroups in one dimension of a dispatch.
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
    /// Where launches are only noted.
    notes: Option<Notes>,
}

impl Gpu {
    /// Open the device. Make one per process or page and clone it: several devices side
    /// by side run at a fraction of the speed of one. A new one may be made after the
    /// old one was lost.
    pub async fn init(choice: AdapterChoice) -> Result<Self, GpuError> {
        let adapter = adapter::request(&choice).await?;
        let info = adapter.get_info();
        let offered = adapter.limits();
        // WebGPU's defaults are what every device has; only buffers may be larger. So a
        // kernel that asks for more fails here, not on somebody else's phone.
        let wanted = wgpu::Limits {
            max_buffer_size: offered.max_buffer_size.max(256 << 20),
            max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size.max(128 << 20),
            ..wgpu::Limits::default()
        };
        // Only twins of kernels use them. wgpu 30 can't ask a browser for any.
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
        let info = info.of_browser(&device);
        let reports = Reports::watch(&device);
        let ledger = Ledger::new();
        let queue = Queue::new(device.clone(), queue, ledger.clone());
        // Memory is made of zeros.
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

    /// What the device can bind.
    pub fn limits(&self) -> Limits {
        self.inner.limits
    }

    /// Whether kernels may use subgroups on it.
    pub fn has_subgroups(&self) -> bool {
        self.inner.subgroups
    }

    /// The device itself.
    pub(crate) fn device(&self) -> &wgpu::Device {
        &self.inner.device
    }

    /// Why the device was lost, once it was.
    pub fn lost(&self) -> Option<String> {
        self.inner.reports.lost()
    }

    /// Give the device up, as a driver reset would: what follows fails with
    /// [`GpuError::DeviceLost`].
    pub fn destroy(&self) {
        // Native wgpu tells the callback at the next poll only.
        self.inner.reports.lose(|| "destroyed on request".into());
        self.inner.device.destroy();
    }

    /// What was made and run so far.
    pub fn counters(&self) -> GpuCounters {
        self.queue().counters()
    }

    /// Bytes of GPU memory held by live buffers.
    pub fn memory_in_use(&self) -> u64 {
        self.inner.ledger.bytes()
    }

    /// Bytes of GPU memory taken from the driver, where it tells (not in browsers): also
    /// what is rounded up, kept for the next buffers, or on its way.
    pub fn memory_reserved(&self) -> u64 {
        let report = self.inner.device.generate_allocator_report();
        report.map_or_else(
            || self.memory_in_use(),
            |report| report.total_reserved_bytes,
        )
    }

    /// A buffer of `bytes` bytes, its content unspecified; the memory goes back to the
    /// driver once its last clone went and the work queued on it has run.
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

    /// Overwrite a buffer from its start. `data` must fill it exactly.
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

    /// Overwrite a buffer's bytes from `at` on; both `at` and the length are whole words.
    ///
    /// # Errors
    /// [`GpuError::Shape`] where they are not, or beyond its end.
    pub fn write_at(&self, buffer: &Buffer, at: usize, data: &[u8]) -> Result<(), GpuError> {
        self.check_lost()?;
        let behind = (buffer.bytes().checked_sub(at)).and_then(|b| b.checked_sub(data.len()));
        if behind.is_none() || !at.is_multiple_of(4) || !data.len().is_multiple_of(4) {
            let (length, bytes) = (data.len(), buffer.bytes());
            return Err(GpuError::shape(
                "write",
                format!("{length} bytes at {at} into a buffer of {bytes}"),
            ));
        }
        self.queue().write(buffer, at, data);
        Ok(())
    }

    /// A buffer with the contents of these one behind another.
    pub fn concat(&self, buffers: &[&Buffer]) -> Result<Buffer, GpuError> {
        let whole = self.allocate(buffers.iter().map(|buffer| buffer.bytes()).sum())?;
        let mut at = 0;
        for buffer in buffers {
            self.copy((buffer, 0), (&whole, at), buffer.bytes());
            at += buffer.bytes();
        }
        Ok(whole)
    }

    /// Queue a copy of all of a buffer to the beginning of another one.
    ///
    /// # Errors
    /// [`GpuError::Shape`] where the other one is smaller or the same.
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

    /// Queue a copy of `bytes` bytes, whole words, of which both buffers have enough.
    pub fn copy(&self, from: (&Buffer, usize), to: (&Buffer, usize), bytes: usize) {
        self.queue().copy(from, to, bytes);
    }

    /// Run everything queued and copy these buffers back. Reads that are asked for in one turn of
    /// the executor are one copy and one wait. Reports whatever went wrong since the last read or
    /// sync.
    pub async fn read(&self, buffers: &[&Buffer]) -> Result<Vec<Vec<u8>>, GpuError> {
        if buffers.iter().all(|buffer| buffer.bytes() == 0) {
            self.sync().await?;
            return Ok(Vec::new());
        }
        self.check_lost()?;
        let (batch, mut at) = {
            // Under one lock: what is closed below has been joined by all who found it open.
            let mut open = self.batch();
            let batch = open.get_or_insert_default();
            (batch.clone(), batch.join(buffers))
        };
        // Every task that is ready may join first.
        others_first().await;
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
        held(&self.inner.batch)
    }

    /// Submit everything, with a copy of these buffers to memory that the CPU can map.
    pub(crate) fn copy_out(&self, buffers: &[&Buffer]) -> (Buffer, Option<wgpu::SubmissionIndex>) {
        self.queue().copy_out(buffers)
    }

    /// The first bytes of mapped memory, which is given back.
    pub(crate) fn take_mapped(
        &self,
        staging: Buffer,
        bytes: usize,
        mapped: Result<(), String>,
    ) -> Result<Vec<u8>, GpuError> {
        // First what went wrong behind the call: a copy that was refused maps well.
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

    /// Run everything queued and wait for it. Reports whatever went wrong since the
    /// last read or sync.
    pub async fn sync(&self) -> Result<(), GpuError> {
        self.check_lost()?;
        let (tell, told) = oneshot::channel();
        let index = self.queue().finish(move || {
            // Who asked may be gone.
            let _ = tell.send(());
        });
        self.poll(index)?;
        let told = told.await;
        self.check()?;
        told.map_err(|_| GpuError::Refused {
            reason: "the driver gave up a wait".into(),
        })
    }

    /// Start what is queued without waiting for it.
    pub fn flush(&self) -> Result<(), GpuError> {
        self.check_lost()?;
        self.queue().submit();
        self.check()
    }

    /// Queue one launch. Buffers are bound in order from 0, then the parameters.
    ///
    /// # Errors
    /// [`GpuError::Shape`] for what no device launches: more workgroups or buffers than WebGPU's
    /// limits, an output that is also another argument.
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

    /// Builds what these kernels need, side by side where the platform can. Those that the driver
    /// refuses, and what it said.
    pub async fn build(&self, kernels: &[Kernel]) -> Vec<(&'static str, String)> {
        pipelines::build(self, kernels).await
    }

    /// Other WGSL for a shader on this device; what was made of it is forgotten.
    #[cfg(feature = "faults")]
    pub fn alter(&self, shader: &'static Shader, text: String) {
        self.queue().bindings().alter(shader, text);
    }

    /// Free what is kept for the results of the next reads.
    pub fn clear_staging(&self) {
        self.queue().clear_staging();
    }

    /// The same device, whose launches are noted and not run.
    pub fn with_notes(&self, notes: Notes) -> Self {
        Self {
            inner: self.inner.clone(),
            notes: Some(notes),
        }
    }

    /// Sixteen zeros, bound where an optional input is absent.
    pub fn zeros(&self) -> &Buffer {
        &self.inner.zeros
    }

    pub(crate) fn check_lost(&self) -> Result<(), GpuError> {
        self.inner.reports.check_lost()
    }

    /// What went wrong since this was last asked.
    fn check(&self) -> Result<(), GpuError> {
        self.inner.reports.check(&self.inner.heard)
    }

    /// A thread that panicked with it may have left work unsubmitted, no more.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        held(&self.inner.queue)
    }

    /// Natively callbacks come while somebody waits for the device; in a browser by
    /// themselves.
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

/// What lies behind a lock, also after a thread panicked with it.
fn held<T>(behind: &Mutex<T>) -> MutexGuard<'_, T> {
    behind.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("adapter", &self.inner.adapter)
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}
