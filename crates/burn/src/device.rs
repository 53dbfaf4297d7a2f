//! Where burn runs: the device, and what it reports outside of calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Device;
use burn_wgpu::{MemoryConfiguration, wgpu};
use conclave_model::{Backend, Decoder, Loading, ModelError, Wait};

use crate::decoder::BurnDecoder;
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
        // Behind burn's own handler, which panics.
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

    /// What the GPU reported since the last call.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let mut faults = self.faults.lock();
        let fault = faults.lost.clone().or_else(|| faults.failed.take());
        fault.map_or(Ok(()), |fault| Err(ModelError::Burn(fault)))
    }
}

impl Backend for Burn {
    fn load<'a>(&'a self, loading: Loading<'a>) -> Wait<'a, Box<dyn Decoder>> {
        Box::pin(async move {
            let (config, context) = (loading.config, loading.context);
            let keep = BurnWeights {
                burn: self,
                quantise: loading.quantise,
            };
            let weights = loading.weights(&keep).await?;
            self.check()?;
            let decoder = BurnDecoder::new(weights, config, context, self);
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
    /// The first since it was last asked for; those behind it follow from it.
    failed: Option<String>,
}

impl Faults {
    fn watch(&self, device: &wgpu::Device) {
        let faults = self.clone();
        device.set_device_lost_callback(move |reason, message| {
            let told = || format!("the GPU was lost ({reason:?}: {message})");
            faults.lock().lost.get_or_insert_with(told);
        });
        let faults = self.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            let told = || error.to_string();
            faults.lock().failed.get_or_insert_with(told);
        }));
    }

    /// Plain data: a thread that panicked with it leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
