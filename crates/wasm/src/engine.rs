//! The engine: one device, shared by all members.

use std::cell::Cell;

use conclave_kernels::{AdapterChoice, Choices, Gpu};
use conclave_model::{Backend, LoadOptions};
use conclave_weights::{Format, Source};
use js_sys::Function;
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use crate::failure::Failure;
use crate::files::{ModelFiles, PageFiles};
use crate::member::Member;

/// One backend that models are loaded onto.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Engine {
    backend: Backend,
    /// The kernels were chosen by measure, now or at an earlier visit.
    measured: Cell<bool>,
}

/// Which kernels the device launches where there is a choice, as far as it is measured.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chosen {
    norm_inside: bool,
    /// Left out where tiles have failed their self-test.
    as_a_tile: Option<usize>,
    #[serde(default)]
    measured: bool,
}

impl Chosen {
    /// What was measured at an earlier visit, unless it fails its self-test now: that is yet to come.
    fn choose(&self, gpu: &Gpu) {
        let usual = gpu.choices();
        let as_a_tile = self.as_a_tile.map(|rows| rows.clamp(2, 32));
        gpu.choose(Choices {
            norm_inside: self.norm_inside,
            as_a_tile: as_a_tile.or(usual.as_a_tile),
            ..usual
        });
    }
}

#[derive(Serialize)]
struct Adapter<'a> {
    name: &'a str,
    vendor: &'a str,
    architecture: &'a str,
    backend: &'a str,
    software: bool,
}

/// How the page wants a model loaded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    context_tokens: u32,
    quantise: Option<String>,
}

impl TryFrom<Options> for LoadOptions {
    type Error = Failure;

    fn try_from(options: Options) -> Result<Self, Failure> {
        let quantise = match options.quantise.as_deref() {
            None => None,
            Some("Q8_0") => Some(Format::Q8_0),
            Some("Q4_0") => Some(Format::Q4_0),
            Some(other) => {
                return Err(Failure::settings(format!(
                    "weights cannot be loaded as `{other}`; choose Q8_0 or Q4_0, or leave them as they are"
                )));
            }
        };
        Ok(Self {
            context: options.context_tokens as usize,
            quantise,
        })
    }
}

#[wasm_bindgen]
impl Engine {
    /// Opens the backend `webgpu` or `cpu`, with what [`Self::choices`] told at an earlier visit, if
    /// anything. Throws `NoGpu` where there is no WebGPU.
    pub async fn create(
        backend: String,
        #[wasm_bindgen(unchecked_optional_param_type = "Choices")] choices: JsValue,
    ) -> Result<Engine, Failure> {
        let chosen: Option<Chosen> = serde_wasm_bindgen::from_value(choices)?;
        let backend = match backend.as_str() {
            "cpu" => Backend::Cpu,
            "webgpu" => Backend::Gpu(Gpu::init(AdapterChoice::Best).await?),
            other => {
                return Err(Failure::engine(format!(
                    "there is no backend `{other}`; choose `webgpu` or `cpu`"
                )));
            }
        };
        if let (Backend::Gpu(gpu), Some(chosen)) = (&backend, &chosen) {
            chosen.choose(gpu);
        }
        Ok(Self {
            backend,
            measured: Cell::new(chosen.is_some()),
        })
    }

    /// `webgpu` or `cpu`.
    #[wasm_bindgen(getter)]
    pub fn backend(&self) -> String {
        match self.backend {
            Backend::Gpu(_) => "webgpu".to_owned(),
            _ => "cpu".to_owned(),
        }
    }

    /// What runs the models.
    pub fn adapter(&self) -> Result<JsValue, Failure> {
        let adapter = match &self.backend {
            Backend::Gpu(gpu) => {
                let info = gpu.adapter();
                Adapter {
                    name: &info.name,
                    vendor: &info.vendor,
                    architecture: &info.architecture,
                    backend: &info.backend,
                    software: info.software,
                }
            }
            _ => Adapter {
                name: "CPU",
                vendor: "",
                architecture: "wasm",
                backend: "cpu",
                software: false,
            },
        };
        Ok(serde_wasm_bindgen::to_value(&adapter)?)
    }

    /// Which kernels are launched on a GPU where there is a choice; `measured`: to be remembered.
    pub fn choices(&self) -> Result<JsValue, Failure> {
        let Backend::Gpu(gpu) = &self.backend else {
            return Ok(JsValue::UNDEFINED);
        };
        let choices = gpu.choices();
        Ok(serde_wasm_bindgen::to_value(&Chosen {
            norm_inside: choices.norm_inside,
            as_a_tile: choices.as_a_tile,
            measured: self.measured.get(),
        })?)
    }

    /// Loads the member `name` from its files, tensor by tensor. `onProgress` hears
    /// `(loaded, total)` bytes. Throws `ModelFile`, `OutOfMemory` or `Settings`.
    pub async fn load(
        &self,
        name: String,
        files: ModelFiles,
        #[wasm_bindgen(unchecked_param_type = "LoadOptions")] options: JsValue,
        #[wasm_bindgen(js_name = onProgress)] on_progress: Function,
    ) -> Result<Member, Failure> {
        let source = PageFiles::new(files)?;
        let options: Options = serde_wasm_bindgen::from_value(options)?;
        let total: u64 = source.files().iter().map(|file| file.bytes).sum();
        let mut tell = |loaded: u64| {
            // A page that fails to show progress does not spoil the load.
            let _ = on_progress.call2(
                &JsValue::UNDEFINED,
                &JsValue::from(loaded as f64),
                &JsValue::from(total as f64),
            );
        };
        let load = conclave_member::Member::load(
            &name,
            &source,
            &self.backend,
            options.try_into()?,
            &mut tell,
        );
        let member = load.await?;
        if let Backend::Gpu(gpu) = &self.backend {
            // Uploads only fail once the device has run them.
            gpu.sync().await?;
            if let (false, Some(format)) = (self.measured.get(), member.about().most_on_gpu()) {
                self.measured.set(gpu.measure_choices(format).await?);
            }
        }
        tell(total);
        Ok(Member::new(member))
    }

    /// Why the device was lost, once it is.
    pub fn lost(&self) -> Option<String> {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.lost(),
            _ => None,
        }
    }

    /// Gives the GPU device up, as a driver reset would: for trying the way back.
    #[wasm_bindgen(js_name = loseDevice)]
    pub fn lose_device(&self) {
        if let Backend::Gpu(gpu) = &self.backend {
            gpu.destroy();
        }
    }
}
