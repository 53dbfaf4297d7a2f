//! The engine: one device, shared by all members.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{Adapter, Choices, Chosen, Failure, Member, ModelFiles, load, to_js};
use conclave_kernels::{AdapterChoice, Launcher};
use conclave_model::{Backend, Cpu, Threads};
use js_sys::{Atomics, Function, Int32Array};
use wasm_bindgen::prelude::*;

/// Runs when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| {
        Threads::panicked();
        console_error_panic_hook::hook(panic);
    }));
}

/// One backend that models are loaded onto.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Engine {
    /// Absent on the CPU.
    gpu: Option<Launcher>,
    /// Whether the kernels were chosen by measuring, now or at an earlier visit.
    measured: Cell<bool>,
}

/// Sets the choices measured at an earlier visit; a kernel that fails its coming self-test is still
/// replaced.
fn choose(gpu: &Launcher, measured: &Choices) {
    let usual = gpu.choices();
    let as_a_tile = measured.as_a_tile.map(|rows| rows.clamp(2, 32));
    gpu.choose(conclave_kernels::Choices {
        norm_inside: measured.norm_inside,
        as_a_tile: as_a_tile.or(usual.as_a_tile),
        ..usual
    });
}

#[wasm_bindgen]
impl Engine {
    /// Opens the backend `webgpu` or `cpu`, with the [`Self::choices`] of an earlier visit, if any.
    /// Throws `NoGpu` where there is no WebGPU.
    pub async fn create(
        backend: String,
        #[wasm_bindgen(unchecked_optional_param_type = "Choices")] choices: JsValue,
    ) -> Result<Self, Failure> {
        let measured: Option<Choices> = serde_wasm_bindgen::from_value(choices)?;
        let gpu = match backend.as_str() {
            "cpu" => None,
            "webgpu" => Some(Launcher::init(AdapterChoice::Best).await?),
            other => {
                return Err(Failure::engine(format!(
                    "there is no backend `{other}`; choose `webgpu` or `cpu`"
                )));
            }
        };
        if let (Some(gpu), Some(measured)) = (&gpu, &measured) {
            choose(gpu, measured);
        }
        Ok(Self {
            gpu,
            measured: Cell::new(measured.is_some()),
        })
    }

    /// `webgpu` or `cpu`.
    #[wasm_bindgen(getter)]
    pub fn backend(&self) -> String {
        match self.gpu {
            Some(_) => "webgpu".to_owned(),
            None => "cpu".to_owned(),
        }
    }

    /// The device that runs the models.
    pub fn adapter(&self) -> Result<JsValue, Failure> {
        let adapter = match &self.gpu {
            None => Adapter::cpu(),
            Some(gpu) => {
                let info = gpu.adapter().clone();
                Adapter {
                    name: info.name,
                    vendor: info.vendor,
                    architecture: info.architecture,
                    backend: info.backend,
                    software: info.software,
                }
            }
        };
        to_js(&adapter)
    }

    /// The kernels in use on a GPU where there are alternatives; to be kept for the next visit if
    /// `measured`.
    pub fn choices(&self) -> Result<JsValue, Failure> {
        let Some(gpu) = &self.gpu else {
            return Ok(JsValue::UNDEFINED);
        };
        let choices = gpu.choices();
        to_js(&Chosen {
            choices: Choices {
                norm_inside: choices.norm_inside,
                as_a_tile: choices.as_a_tile,
            },
            measured: self.measured.get(),
        })
    }

    /// Loads the member `name` from its files, tensor by tensor. `onProgress` receives `(loaded,
    /// total)` bytes. Throws `ModelFile`, `OutOfMemory` or `Settings`.
    pub async fn load(
        &self,
        name: String,
        files: ModelFiles,
        #[wasm_bindgen(unchecked_param_type = "LoadOptions")] options: JsValue,
        #[wasm_bindgen(js_name = onProgress)] on_progress: Function,
    ) -> Result<Member, Failure> {
        let backend: &dyn Backend = match &self.gpu {
            Some(gpu) => gpu,
            None => &Cpu(Threads::ALL),
        };
        let member = load(backend, &name, files, options, &on_progress).await?;
        if let Some(gpu) = &self.gpu {
            // Uploads only fail once the device has run them.
            gpu.sync().await?;
            if let (false, Some(format)) = (self.measured.get(), member.about().most_on_gpu()) {
                self.measured.set(gpu.autotune(format).await?);
            }
        }
        Ok(Member::new(member))
    }

    /// Reason of the device's loss, if lost.
    pub fn lost(&self) -> Option<String> {
        self.gpu.as_ref().and_then(|gpu| gpu.lost())
    }

    /// Destroys the GPU device, as a driver reset would: for testing the recovery.
    #[wasm_bindgen(js_name = loseDevice)]
    pub fn lose_device(&self) {
        if let Some(gpu) = &self.gpu {
            gpu.destroy();
        }
    }
}

/// Version of the kernels. Measurements under another version are outdated.
#[wasm_bindgen(js_name = kernelsVersion)]
pub fn kernels_version() -> String {
    let mut hasher = DefaultHasher::new();
    conclave_kernels::shaders().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Every WGSL shader the engine may launch, as `[name, source]` pairs.
#[wasm_bindgen]
pub fn shaders() -> Result<JsValue, JsError> {
    Ok(serde_wasm_bindgen::to_value(&conclave_kernels::shaders())?)
}

/// Computes parts of products for the members on this memory, until there are none for a while, or
/// `wanted` does not exceed `number`. `wanted` is one number, in shared memory of its own: how many
/// helpers may help. `number` is the calling worker's among them, from 0.
#[wasm_bindgen]
pub fn help(wanted: &Int32Array, number: u16) {
    let asked = || Atomics::load(wanted, 0).is_ok_and(|wanted| wanted > number.into());
    Threads::help(number.into(), asked);
}

/// Must be called when [`help`] has trapped, as without memory: members that wait for it fail.
#[wasm_bindgen(js_name = helpTrapped)]
pub fn help_trapped() {
    Threads::panicked();
}
