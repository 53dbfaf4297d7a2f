//! The one GPU device of a process or page, its memory and its reads.
//!
//! The device is our own and burn's client (cubecl) adopts it. So we decide its limits,
//! and we hear of every error: cubecl on the web only logs a refused dispatch and hands
//! back stale memory, here it becomes an error of the next [`Gpu::read`] or [`Gpu::sync`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn_wgpu::{
    MemoryConfiguration, RuntimeOptions, WgpuDevice, WgpuSetup, try_init_device, wgpu,
};
use bytemuck::Pod;
use cubecl::{MemoryScope, bytes::Bytes, client::Client, server::ServerError};

use crate::{AdapterChoice, AdapterInfo, Buffer, GpuError, adapter};

/// Dispatches that are collected before they are submitted, as cubecl's default.
const TASKS_A_SUBMIT: usize = 32;

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

/// Errors that arrived outside of a call.
#[derive(Debug, Default)]
struct State {
    lost: Option<String>,
    /// The first error since the last read or sync; those behind it follow from it.
    failed: Option<GpuError>,
}

struct Inner {
    client: Client,
    device: wgpu::Device,
    burn_device: WgpuDevice,
    adapter: AdapterInfo,
    limits: Limits,
    state: Arc<Mutex<State>>,
    zeros: Buffer,
}

/// A GPU device with its queue, shared by every member. Cloning is cheap.
#[derive(Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
}

impl Gpu {
    /// Open the device. Make one per process or page and clone it: several devices side
    /// by side run at a fraction of the speed of one. A new one may be made after the
    /// old one was lost.
    pub async fn init(choice: AdapterChoice) -> Result<Self, GpuError> {
        let (instance, adapter) = adapter::request(&choice).await?;
        let info = adapter.get_info();
        let offered = adapter.limits();
        // WebGPU's defaults are what every device has; only buffers may be larger. So a
        // kernel that asks for more fails here, not on somebody else's phone.
        let wanted = wgpu::Limits {
            max_buffer_size: offered.max_buffer_size.max(256 << 20),
            max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size.max(128 << 20),
            ..wgpu::Limits::default()
        };
        let (device, queue) = adapter
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("conclave"),
                required_features: wgpu::Features::empty(),
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
        let burn_device = try_init_device(
            WgpuSetup {
                instance,
                adapter,
                device: device.clone(),
                queue,
                backend: info.backend,
            },
            RuntimeOptions {
                tasks_max: TASKS_A_SUBMIT,
                // One wgpu buffer an allocation, as always on the web: a buffer that two
                // allocations share could not be bound read-only and writable at once.
                memory_config: MemoryConfiguration::ExclusivePages,
            },
        )
        .map_err(|error| GpuError::NoDevice {
            adapter: info.name.clone(),
            reason: error.to_string(),
        })?;
        // After cubecl, which installs handlers of its own; its error handler panics.
        let state = watch(&device);

        let mut client = cubecl::Device::Wgpu(burn_device.clone()).client();
        let zeros = Buffer::new(client.create(Bytes::from_bytes_vec(vec![0; 64])), 64);
        // SAFETY: the id only names a queue of work. Otherwise every thread would have a
        // queue and memory pools of its own, and launches of two threads no order.
        unsafe { client.set_stream(zeros.handle.stream) };
        Ok(Self {
            inner: Arc::new(Inner {
                client,
                device,
                burn_device,
                adapter: AdapterInfo::new(&info),
                limits: Limits {
                    binding_bytes: granted.max_storage_buffer_binding_size,
                    buffer_bytes: granted.max_buffer_size,
                    groups_per_dimension: granted.max_compute_workgroups_per_dimension,
                },
                state,
                zeros,
            }),
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

    /// The device as burn names it, for burn tensors on the same GPU device.
    pub fn burn_device(&self) -> &WgpuDevice {
        &self.inner.burn_device
    }

    /// Why the device was lost, once it was.
    pub fn lost(&self) -> Option<String> {
        lock(&self.inner.state).lost.clone()
    }

    /// Give the device up, as a driver reset would: what follows fails with
    /// [`GpuError::DeviceLost`].
    pub fn destroy(&self) {
        // Native wgpu tells the callback at the next poll only.
        lock(&self.inner.state)
            .lost
            .get_or_insert_with(|| "destroyed on request".into());
        self.inner.device.destroy();
    }

    /// Bytes of GPU memory held by live buffers.
    pub fn memory_in_use(&self) -> u64 {
        self.inner
            .client
            .memory_report(MemoryScope::CurrentStream)
            .usage()
            .bytes_in_use
    }

    /// Bytes of GPU memory taken from the driver: what live buffers hold, and what is
    /// rounded up or kept for the next ones.
    pub fn memory_reserved(&self) -> u64 {
        self.inner
            .client
            .memory_report(MemoryScope::CurrentStream)
            .usage()
            .bytes_reserved
    }

    /// A buffer of `bytes` bytes for what comes and goes with a pass. Its memory is
    /// pooled and rounded up, its content unspecified.
    pub fn empty(&self, bytes: usize) -> Result<Buffer, GpuError> {
        self.check_size("a buffer", bytes)?;
        Ok(Buffer::new(self.inner.client.empty(bytes), bytes))
    }

    /// A buffer of exactly `bytes` bytes for what stays (caches); the memory goes back
    /// to the driver at the first allocation after its last clone went. Its content is
    /// unspecified.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer, GpuError> {
        self.check_size("a buffer", bytes)?;
        Ok(Buffer::new(
            self.dedicated(|client| client.empty(bytes)),
            bytes,
        ))
    }

    /// A buffer with these numbers, for what comes and goes with a pass.
    pub fn upload<T: Pod>(&self, data: &[T]) -> Result<Buffer, GpuError> {
        let bytes = bytemuck::cast_slice::<T, u8>(data);
        self.check_size("uploaded data", bytes.len())?;
        let copy = Bytes::from_bytes_vec(bytes.to_vec());
        Ok(Buffer::new(self.inner.client.create(copy), bytes.len()))
    }

    /// A buffer that takes these bytes over, for what stays (weights); see [`Self::allocate`].
    pub fn keep(&self, data: Vec<u8>) -> Result<Buffer, GpuError> {
        let bytes = data.len();
        self.check_size("weights", bytes)?;
        let data = Bytes::from_bytes_vec(data);
        Ok(Buffer::new(
            self.dedicated(|client| client.create(data)),
            bytes,
        ))
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
        self.inner
            .client
            .write(&buffer.handle, Bytes::from_bytes_vec(bytes.to_vec()));
        Ok(())
    }

    /// Overwrite a buffer's bytes from `at` on; both `at` and the length are whole words.
    pub(crate) fn write_at(
        &self,
        buffer: &Buffer,
        at: usize,
        data: Vec<u8>,
    ) -> Result<(), GpuError> {
        let behind = (buffer.bytes().checked_sub(at)).and_then(|b| b.checked_sub(data.len()));
        match behind {
            Some(behind) if at.is_multiple_of(4) && data.len().is_multiple_of(4) => {
                let place = (buffer.handle.clone())
                    .offset_start(at as u64)
                    .offset_end(behind as u64);
                self.inner.client.write(&place, Bytes::from_bytes_vec(data));
                Ok(())
            }
            _ => Err(GpuError::shape(
                "write",
                format!(
                    "{} bytes at {at} into a buffer of {}",
                    data.len(),
                    buffer.bytes()
                ),
            )),
        }
    }

    /// Run everything queued and copy these buffers back, in one wait for all of them.
    /// Reports whatever went wrong since the last read or sync.
    pub async fn read(&self, buffers: &[&Buffer]) -> Result<Vec<Vec<u8>>, GpuError> {
        self.check_lost()?;
        let handles = buffers.iter().map(|b| b.handle.clone()).collect();
        let result = self.inner.client.read_async(handles).await;
        let data = self.outcome(result)?;
        Ok(data.into_iter().map(|bytes| bytes.to_vec()).collect())
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
        let result = self.inner.client.sync().await;
        self.outcome(result)
    }

    /// Start what is queued without waiting for it.
    pub fn flush(&self) -> Result<(), GpuError> {
        self.check_lost()?;
        let result = self.inner.client.flush();
        self.outcome(result)
    }

    /// Sixteen zeros, bound where an optional input is absent.
    pub(crate) fn zeros(&self) -> &Buffer {
        &self.inner.zeros
    }

    pub(crate) fn client(&self) -> &Client {
        &self.inner.client
    }

    pub(crate) fn check_lost(&self) -> Result<(), GpuError> {
        match &lock(&self.inner.state).lost {
            Some(reason) => Err(GpuError::DeviceLost {
                reason: reason.clone(),
            }),
            None => Ok(()),
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

    /// Allocate outside of cubecl's pools, which round sizes up by as much as half.
    fn dedicated<T>(&self, allocate: impl FnOnce(&Client) -> T) -> T {
        use cubecl::MemoryAllocationMode::{Auto, Dedicated};
        let client = &self.inner.client;
        // SAFETY: the mode belongs to this client's own queue and is set back at once.
        unsafe { client.allocation_mode(Dedicated) };
        let result = allocate(client);
        // SAFETY: as above.
        unsafe { client.allocation_mode(Auto) };
        result
    }

    /// The result of a call, or what really went wrong behind it.
    fn outcome<T>(&self, result: Result<T, ServerError>) -> Result<T, GpuError> {
        let mut state = lock(&self.inner.state);
        if let Some(reason) = &state.lost {
            return Err(GpuError::DeviceLost {
                reason: reason.clone(),
            });
        }
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        result.map_err(|error| GpuError::Refused {
            reason: error.to_string(),
        })
    }
}

/// Collect what the device reports outside of calls.
fn watch(device: &wgpu::Device) -> Arc<Mutex<State>> {
    let state = Arc::new(Mutex::new(State::default()));
    let lost = state.clone();
    device.set_device_lost_callback(move |reason, message| {
        lock(&lost)
            .lost
            .get_or_insert_with(|| format!("{reason:?}: {message}"));
    });
    let failed = state.clone();
    device.on_uncaptured_error(Arc::new(move |error| {
        let error = match error {
            wgpu::Error::OutOfMemory { source } => GpuError::OutOfMemory {
                reason: source.to_string(),
            },
            other => GpuError::Refused {
                reason: other.to_string(),
            },
        };
        lock(&failed).failed.get_or_insert(error);
    }));
    state
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("adapter", &self.inner.adapter)
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}

/// The state is plain data: a thread that panicked with it leaves nothing half done.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
