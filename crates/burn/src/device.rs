//! Where burn runs: the device, and what it reports outside of calls.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Device;
use burn_wgpu::{MemoryConfiguration, wgpu};
use conclave_kernels::GpuError;
use conclave_model::{Backend, Decoder, Loading, ModelError, Wait};

use crate::decoder::BurnDecoder;
use crate::proof::{prove_attention, prove_products};
use crate::weights::BurnWeights;

/// A device of burn's.
#[derive(Debug, Clone)]
pub struct Burn {
    device: Device,
    /// Bytes of one buffer that a kernel can see; `None` on the CPU.
    binding: Option<u64>,
    adapter: Option<wgpu::AdapterInfo>,
    faults: Faults,
}

impl Burn {
    /// The CPU, by burn's flex.
    pub fn flex() -> Self {
        Self {
            device: Device::flex(),
            binding: None,
            adapter: None,
            faults: Faults::default(),
        }
    }

    /// The GPU, by burn's wgpu, on a device of its own. Once a process or worker: burn keeps it, and
    /// refuses another.
    ///
    /// # Errors
    /// [`ModelError::Burn`] where there is no GPU, or burn has one already.
    pub async fn wgpu() -> Result<Self, ModelError> {
        let options = Device::wgpu_options()
            // A buffer that two tensors share could not be read and written in one launch.
            .memory_config(MemoryConfiguration::ExclusivePages);
        let (device, setup) = options.init_with_setup_async().await.map_err(refused)?;
        let faults = Faults::default();
        // In place of burn's own handlers, of which one panics: every read asks `check` what they heard.
        faults.watch(&setup.device);
        let limits = setup.device.limits();
        let binding = limits.max_storage_buffer_binding_size;
        Ok(Self {
            device,
            binding: Some(binding.min(limits.max_buffer_size)),
            adapter: Some(setup.adapter.get_info()),
            faults,
        })
    }

    /// The GPU's name, or that of the CPU.
    pub fn name(&self) -> String {
        match &self.adapter {
            Some(adapter) => adapter.name.clone(),
            None => "CPU".to_owned(),
        }
    }

    /// The device that tensors are made on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Why the GPU was lost, once it was.
    pub fn lost(&self) -> Option<String> {
        self.faults.lock().lost.clone()
    }

    pub(crate) fn binding(&self) -> Option<u64> {
        self.binding
    }

    /// Listens for faults from now on.
    pub(crate) fn listen(&self) -> Heard {
        Heard(Cell::new(self.faults.lock().count))
    }

    /// What the GPU reported since the listener last asked: to each of them, since what one queued is
    /// reported while another waits.
    pub(crate) fn check(&self, heard: &Heard) -> Result<(), ModelError> {
        let faults = self.faults.lock();
        if let Some(reason) = faults.lost.clone() {
            return Err(GpuError::DeviceLost { reason }.into());
        }
        match (heard.0.replace(faults.count) < faults.count, &faults.last) {
            (true, Some(fault)) => Err(fault.clone().into()),
            _ => Ok(()),
        }
    }
}

/// How many of a device's faults somebody has heard of.
#[derive(Debug)]
pub(crate) struct Heard(Cell<u64>);

impl Backend for Burn {
    fn load<'a>(&'a self, loading: Loading<'a>) -> Wait<'a, Box<dyn Decoder>> {
        Box::pin(async move {
            let (config, context) = (loading.config, loading.context);
            // What others have let go is given back first: memory may not hold both.
            self.device.memory_cleanup();
            let keep = BurnWeights {
                burn: self,
                heard: self.listen(),
                quantise: loading.quantise,
                samples: RefCell::default(),
            };
            let weights = loading.weights(&keep).await?;
            let decoder = BurnDecoder::new(weights, config, context, self);
            // The first read waits for all uploads, which only fail once the device has run them.
            decoder.settle().await?;
            for sample in keep.proofs()? {
                prove_products(self, &sample).await?;
            }
            if let Some((heads, scores)) = decoder.attention() {
                prove_attention(self, heads, scores).await?;
            }
            self.check(&keep.heard)?;
            Ok(Box::new(decoder) as Box<dyn Decoder>)
        })
    }
}

/// What burn says went wrong.
pub(crate) fn refused(error: impl std::fmt::Display) -> ModelError {
    ModelError::Burn(error.to_string())
}

/// Errors that arrived outside of a call.
#[derive(Debug, Clone, Default)]
struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    lost: Option<String>,
    /// How many others there were.
    count: u64,
    last: Option<GpuError>,
}

impl Faults {
    fn watch(&self, device: &wgpu::Device) {
        let faults = self.clone();
        device.set_device_lost_callback(move |reason, message| {
            let told = || format!("{reason:?}: {message}");
            faults.lock().lost.get_or_insert_with(told);
        });
        let faults = self.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            let fault = match error {
                wgpu::Error::OutOfMemory { source } => GpuError::OutOfMemory {
                    reason: source.to_string(),
                },
                other => GpuError::Refused {
                    reason: other.to_string(),
                },
            };
            let mut faults = faults.lock();
            faults.count += 1;
            faults.last = Some(fault);
        }));
    }

    /// Plain data: a thread that panicked with it leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
