//! Loading of a member, on any backend.

use conclave_model::{Backend, LoadOptions};
use conclave_weights::{Format, Source};
use js_sys::Function;
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

use crate::failure::Failure;
use crate::files::{ModelFiles, PageFiles};
use crate::once;

/// The device that runs the models.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Adapter {
    /// Its name.
    pub name: String,
    /// Its maker.
    pub vendor: String,
    /// Its architecture.
    pub architecture: String,
    /// Its graphics API.
    pub backend: String,
    /// Whether it is a CPU emulating a GPU.
    pub software: bool,
}

impl Adapter {
    /// The CPU, with the name of its backend.
    pub fn cpu() -> Self {
        Self {
            name: "CPU".to_owned(),
            architecture: "wasm".to_owned(),
            backend: "cpu".to_owned(),
            ..Self::default()
        }
    }
}

/// A GPU's choice of kernels that depends on measurements; see `conclave_kernels::Choices`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Choices {
    /// Whether norms are fused into the products after them.
    pub norm_inside: bool,
    /// Number of rows that `product_block` computes in the time that a tile takes for up to 32;
    /// absent if tiles have failed their self-test.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub as_a_tile: Option<usize>,
}

/// The choices in use.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Chosen {
    /// The choices.
    #[serde(flatten)]
    pub choices: Choices,
    /// Whether they were measured, with the first model or at an earlier visit.
    pub measured: bool,
}

/// Options of loading a member.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "LoadOptions"))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Options {
    /// Room for the conversation, in the member's tokens.
    context_tokens: u32,
    /// Format to round unquantised weights to; if absent, they stay as they are.
    #[cfg_attr(test, ts(inline, optional))]
    quantise: Option<Quantise>,
}

/// Formats that weights can be rounded to while they load.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) enum Quantise {
    #[serde(rename = "Q8_0")]
    Q8,
    #[serde(rename = "Q4_0")]
    Q4,
}

impl From<Options> for LoadOptions {
    fn from(options: Options) -> Self {
        Self {
            context: options.context_tokens as usize,
            quantise: options.quantise.map(|to| match to {
                Quantise::Q8 => Format::Q8_0,
                Quantise::Q4 => Format::Q4_0,
            }),
        }
    }
}

/// Loads the member `name` from its files, tensor by tensor. `on_progress` receives `(loaded,
/// total)` bytes.
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
    let mut report = |loaded: u64| {
        // A page that fails to show progress does not fail the load.
        let _ = on_progress.call2(
            &JsValue::UNDEFINED,
            &JsValue::from(loaded as f64),
            &JsValue::from(total as f64),
        );
    };
    let load = conclave_member::Member::load(name, &source, backend, options.into(), &mut report);
    let member = once(load).await?;
    report(total);
    Ok(member)
}
