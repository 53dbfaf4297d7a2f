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
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Adapter {
    /// What it is called.
    pub name: String,
    /// Who made it.
    pub vendor: String,
    /// Of which kind it is.
    pub architecture: String,
    /// By what it is spoken to.
    pub backend: String,
    /// It is a GPU that a CPU plays.
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

/// Which kernels a GPU launches where the faster is told by measure; `conclave_kernels::Choices`
/// says what they are.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Choices {
    /// Norms are made inside of the products behind them.
    pub norm_inside: bool,
    /// Rows that a block makes while a tile makes its 32; left out where tiles have failed their
    /// self-test.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub as_a_tile: Option<usize>,
}

/// Those that are in use.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Chosen {
    /// The choices.
    #[serde(flatten)]
    pub choices: Choices,
    /// They were measured, with the first model or at the visit that they come from.
    pub measured: bool,
}

/// How a member is loaded.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "LoadOptions"))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Options {
    /// Room for the conversation, in the member's tokens.
    context_tokens: u32,
    /// What weights that come unquantised become; left out, they stay as they are.
    #[cfg_attr(test, ts(inline, optional))]
    quantise: Option<Quantise>,
}

/// What weights can be rounded to while they load.
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
    let load = conclave_member::Member::load(name, &source, backend, options.into(), &mut tell);
    let member = load.await?;
    tell(total);
    Ok(member)
}
