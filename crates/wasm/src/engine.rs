//! The engine: one device, shared by all members.

use conclave_kernels::{AdapterChoice, Gpu};
use conclave_model::{Backend, LoadOptions};
use conclave_weights::Memory;
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::failure::Failure;
use crate::member::Member;

/// One backend that models are loaded onto.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Engine {
    backend: Backend,
}

#[derive(Serialize)]
struct Adapter<'a> {
    name: &'a str,
    vendor: &'a str,
    architecture: &'a str,
    backend: &'a str,
    software: bool,
}

#[wasm_bindgen]
impl Engine {
    /// Opens the backend `webgpu` or `cpu`. Throws `NoGpu` where there is no WebGPU.
    pub async fn create(backend: String) -> Result<Engine, Failure> {
        let backend = match backend.as_str() {
            "cpu" => Backend::cpu(),
            "webgpu" => Backend::Gpu(Gpu::init(AdapterChoice::Best).await?),
            other => {
                return Err(Failure::engine(format!(
                    "there is no backend `{other}`; choose `webgpu` or `cpu`"
                )));
            }
        };
        Ok(Self { backend })
    }

    /// `webgpu` or `cpu`.
    #[wasm_bindgen(getter)]
    pub fn backend(&self) -> String {
        match self.backend {
            Backend::Burn(_) => "cpu".to_owned(),
            Backend::Gpu(_) => "webgpu".to_owned(),
        }
    }

    /// What runs the models.
    pub fn adapter(&self) -> Result<JsValue, Failure> {
        let adapter = match &self.backend {
            Backend::Burn(_) => Adapter {
                name: "CPU",
                vendor: "",
                architecture: "wasm",
                backend: "cpu",
                software: false,
            },
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
        };
        Ok(serde_wasm_bindgen::to_value(&adapter)?)
    }

    /// Loads the member `name` from a whole GGUF file. Throws `ModelFile` or `OutOfMemory`.
    pub async fn load(
        &self,
        name: String,
        gguf: Vec<u8>,
        context_tokens: u32,
    ) -> Result<Member, Failure> {
        let source = Memory::file(format!("{name}.gguf"), gguf);
        let options = LoadOptions::with_context(context_tokens as usize);
        let mut silent = |_| ();
        let load =
            conclave_member::Member::load(&name, &source, &self.backend, options, &mut silent);
        let member = load.await?;
        if let Backend::Gpu(gpu) = &self.backend {
            // Uploads only fail once the device has run them.
            gpu.sync().await?;
        }
        Ok(Member::new(member))
    }

    /// Why the device was lost, once it is.
    pub fn lost(&self) -> Option<String> {
        match &self.backend {
            Backend::Burn(_) => None,
            Backend::Gpu(gpu) => gpu.lost(),
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
