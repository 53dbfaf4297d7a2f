//! Rust errors as JavaScript `Error`s, distinguished by `name`.

use conclave_ensemble::{RoundError, SettingsError};
use conclave_kernels::GpuError;
use conclave_member::MemberError;
use conclave_model::ModelError;
use conclave_text::TextError;
use wasm_bindgen::JsValue;

/// An error with its name in the library.
#[derive(Debug)]
pub struct Failure {
    name: &'static str,
    message: String,
}

impl Failure {
    /// A failure of the engine itself.
    pub fn engine(error: impl std::fmt::Display) -> Self {
        Self {
            name: "Engine",
            message: error.to_string(),
        }
    }

    /// Invalid settings from the page.
    pub fn settings(error: impl std::fmt::Display) -> Self {
        Self::named("Settings", error)
    }

    /// No GPU is available.
    pub fn no_gpu(error: impl std::fmt::Display) -> Self {
        Self::named("NoGpu", error)
    }

    fn named(name: &'static str, error: impl std::fmt::Display) -> Self {
        Self {
            name,
            message: error.to_string(),
        }
    }
}

impl From<GpuError> for Failure {
    fn from(error: GpuError) -> Self {
        let name = match &error {
            GpuError::NoAdapter { .. } | GpuError::NoDevice { .. } | GpuError::Kernel { .. } => {
                "NoGpu"
            }
            GpuError::DeviceLost { .. } => "DeviceLost",
            GpuError::OutOfMemory { .. } | GpuError::TooLarge { .. } => "OutOfMemory",
            _ => "Engine",
        };
        Self::named(name, error)
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Gpu(error) => error.into(),
            ModelError::HeadWidth { .. } => Self::named("NoPlan", error),
            ModelError::ContextFull { .. } => Self::named("ContextFull", error),
            ModelError::File(_)
            | ModelError::Metadata(_)
            | ModelError::Quantise { .. }
            | ModelError::Quantised { .. }
            | ModelError::Architecture { .. }
            | ModelError::RopeScaling { .. }
            | ModelError::Key { .. }
            | ModelError::Tensor { .. } => Self::named("ModelFile", error),
            _ => Self::engine(error),
        }
    }
}

impl From<MemberError> for Failure {
    fn from(error: MemberError) -> Self {
        match error {
            MemberError::Model(error) => error.into(),
            MemberError::Text(
                TextError::TemplateSyntax { .. }
                | TextError::TemplateFailed { .. }
                | TextError::TemplateRefused { .. }
                | TextError::TemplateDrops { .. }
                | TextError::TemplateEndless,
            ) => Self::named("Template", error),
            // The constraint that the page has asked for is at fault.
            MemberError::Constraint(_) => Self::settings(error),
            MemberError::Text(_)
            | MemberError::File(_)
            | MemberError::Vocabulary { .. }
            | MemberError::NoEnd => Self::named("ModelFile", error),
        }
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::named("Settings", error)
    }
}

impl From<RoundError> for Failure {
    fn from(error: RoundError) -> Self {
        match error {
            RoundError::NoDrafter => Self::named("Remote", error),
            _ => Self::engine(error),
        }
    }
}

impl From<serde_wasm_bindgen::Error> for Failure {
    fn from(error: serde_wasm_bindgen::Error) -> Self {
        Self::settings(format!(
            "what the page handed over is not of its type: {error}; correct that"
        ))
    }
}

impl From<Failure> for JsValue {
    fn from(failure: Failure) -> Self {
        let error = js_sys::Error::new(&failure.message);
        error.set_name(failure.name);
        error.into()
    }
}
