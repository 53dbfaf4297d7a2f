//! The device that burn runs on, and the errors that it reports outside of calls.

use std::cell::RefCell;

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_wgpu::{MemoryConfiguration, wgpu};
use conclave_kernels::{Heard, Reports};
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
    reports: Reports,
}

impl Burn {
    /// The CPU, by burn's flex.
    pub fn flex() -> Self {
        Self {
            device: Device::flex(),
            binding: None,
            adapter: None,
            reports: Reports::default(),
        }
    }

    /// The GPU, by burn's wgpu, on a device of its own. It can be opened once in a process or
    /// worker: burn keeps the device, and refuses another.
    ///
    /// # Errors
    /// [`ModelError::Burn`] where there is no GPU, or burn has one already.
    pub async fn wgpu() -> Result<Self, ModelError> {
        let options = Device::wgpu_options()
            // A buffer that two tensors share could not be read and written in one launch.
            .memory_config(MemoryConfiguration::ExclusivePages);
        let (device, setup) = options.init_with_setup_async().await.map_err(refused)?;
        // In place of burn's own handlers, of which one panics: every read asks `check` what they
        // heard.
        let reports = Reports::watch(&setup.device);
        let limits = setup.device.limits();
        let binding = limits.max_storage_buffer_binding_size;
        Ok(Self {
            device,
            binding: Some(binding.min(limits.max_buffer_size)),
            adapter: Some(setup.adapter.get_info()),
            reports,
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

    /// Reason of the GPU's loss, if it is lost.
    pub fn lost(&self) -> Option<String> {
        self.reports.lost()
    }

    pub(crate) fn binding(&self) -> Option<u64> {
        self.binding
    }

    /// A listener for errors from now on.
    pub(crate) fn listen(&self) -> Heard {
        self.reports.listen()
    }

    /// Returns the GPU's error since the listener last asked.
    pub(crate) fn check(&self, heard: &Heard) -> Result<(), ModelError> {
        Ok(self.reports.check(heard)?)
    }

    /// Whole numbers as a tensor.
    pub(crate) fn ints(&self, values: Vec<i32>) -> Tensor<1, Int> {
        let length = values.len();
        Tensor::from_data(TensorData::new(values, [length]), &self.device)
    }

    /// Reads a tensor back; errors from before surface here.
    pub(crate) async fn read<const D: usize>(
        &self,
        tensor: Tensor<D>,
        heard: &Heard,
    ) -> Result<Vec<f32>, ModelError> {
        let read = tensor.into_data_async().await;
        self.check(heard)?;
        let data = read.map_err(|error| refused(format!("{error:?}")))?;
        data.try_into_vec()
            .map_err(|error| refused(format!("{error:?}")))
    }
}

impl Backend for Burn {
    fn load<'a>(&'a self, loading: Loading<'a>) -> Wait<'a, Box<dyn Decoder>> {
        Box::pin(async move {
            let (config, context) = (loading.config, loading.context);
            // What others have let go is given back first: memory may not hold both.
            self.device.memory_cleanup();
            let sink = BurnWeights {
                burn: self,
                heard: self.listen(),
                quantise: loading.quantise,
                samples: RefCell::default(),
            };
            let weights = loading.weights(&sink).await?;
            let decoder = BurnDecoder::new(weights, config, context, self)?;
            // The first read waits for all uploads, which only fail once the device has run them.
            decoder.settle().await?;
            for sample in sink.proofs()? {
                prove_products(self, &sink.heard, &sample).await?;
            }
            for (heads, scores) in decoder.attentions() {
                prove_attention(self, &sink.heard, heads, scores).await?;
            }
            self.check(&sink.heard)?;
            Ok(Box::new(decoder) as Box<dyn Decoder>)
        })
    }
}

/// Wraps an error of burn's.
pub(crate) fn refused(error: impl std::fmt::Display) -> ModelError {
    ModelError::Burn(error.to_string())
}
