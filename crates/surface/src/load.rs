//! How a member is loaded, on whatever runs it.

use conclave_model::{Backend, LoadOptions};
use conclave_weights::{Format, Source};
use js_sys::Function;
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

use crate::failure::Failure;
use crate::files::{ModelFiles, PageFiles};

/// What runs the models.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Adapter {
    /// What it is called.
    pub name: String,
    /// Who made it.
    pub vendor: String,
    /// Of which kind it is.
    pub architecture: String,
    /// By what it is spoken to.
    pub backend: String,
    /// A CPU plays GPU.
    pub software: bool,
}

impl Adapter {
    /// The CPU, by what is said to run there.
    pub fn cpu() -> Self {
        Self {
            name: "CPU".to_owned(),
            architecture: "wasm".to_owned(),
            backend: "cpu".to_owned(),
            ..Self::default()
        }
    }
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

/// Loads the member `name` from its files, tensor by tensor. `on_progress` hears `(loaded, total)`
/// bytes.
///
/// # Errors
/// `ModelFile`, `OutOfMemory` or `Settings`.
pub async fn load(
    backend: &dyn Backend,
    name: &str,
    files: ModelFiles,
    options: JsValue,
    on_progress: &Function,
) -> Result<conclave_member::Member, Failure> {
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
    let options = options.try_into()?;
    let load = conclave_member::Member::load(name, &source, backend, options, &mut tell);
    let member = load.await?;
    tell(total);
    Ok(member)
}
