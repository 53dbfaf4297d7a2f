//! The open core: one burn device, shared by the members of this module. The page fetches it only
//! when a member runs on burn.

use crate::{Adapter, Failure, Member, ModelFiles, load, to_js};
use conclave_burn::Burn;
use js_sys::Function;
use wasm_bindgen::prelude::*;

unsafe extern "C" {
    fn __wasm_call_ctors();
}

/// Runs once when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    // SAFETY: runs the functions that burn's crates register to run before `main`; nothing else has
    // run yet, and it runs once. Without this call every export would run them again.
    unsafe { __wasm_call_ctors() };
    console_error_panic_hook::set_once();
}

/// One burn device that models are loaded onto.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Engine {
    burn: Burn,
    gpu: bool,
}

#[wasm_bindgen]
impl Engine {
    /// Opens `webgpu`, by burn's wgpu, or `cpu`, by its flex. Throws `NoGpu` where there is no
    /// WebGPU.
    pub async fn create(backend: String) -> Result<Self, Failure> {
        let (burn, gpu) = match backend.as_str() {
            "cpu" => (Burn::flex(), false),
            "webgpu" => (Burn::wgpu().await.map_err(no_gpu)?, true),
            other => {
                return Err(Failure::engine(format!(
                    "there is no backend `{other}`; choose `webgpu` or `cpu`"
                )));
            }
        };
        Ok(Self { burn, gpu })
    }

    /// `webgpu` or `cpu`.
    #[wasm_bindgen(getter)]
    pub fn backend(&self) -> String {
        let backend = if self.gpu { "webgpu" } else { "cpu" };
        backend.to_owned()
    }

    /// The device that runs the models.
    pub fn adapter(&self) -> Result<JsValue, Failure> {
        let adapter = match self.gpu {
            true => Adapter {
                name: self.burn.name(),
                backend: "webgpu".to_owned(),
                ..Adapter::default()
            },
            false => Adapter::cpu(),
        };
        to_js(&adapter)
    }

    /// Loads the member `name` from its files, tensor by tensor. `onProgress` receives `(loaded,
    /// total)` bytes. Throws `ModelFile`, `OutOfMemory`, `DeviceLost`, `Settings` or `Engine`.
    pub async fn load(
        &self,
        name: String,
        files: ModelFiles,
        #[wasm_bindgen(unchecked_param_type = "LoadOptions")] options: JsValue,
        #[wasm_bindgen(js_name = onProgress)] on_progress: Function,
    ) -> Result<Member, Failure> {
        let member = load(&self.burn, &name, files, options, &on_progress).await?;
        Ok(Member::new(member))
    }

    /// Reason of the device's loss, if lost.
    pub fn lost(&self) -> Option<String> {
        self.burn.lost()
    }
}

fn no_gpu(error: impl std::fmt::Display) -> Failure {
    Failure::no_gpu(format!(
        "The open core found no GPU ({error}). Take the CPU backend, or the fused core."
    ))
}
