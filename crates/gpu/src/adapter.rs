//! Choice of an adapter, and information about it.

use crate::GpuError;

/// The adapter to request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The fastest adapter.
    #[default]
    Best,
    /// The adapter that uses the least power.
    LowPower,
    /// A software adapter (lavapipe, SwiftShader, WARP).
    Software,
    /// The first adapter whose name contains this text, ignoring case. Native only: a browser
    /// offers one adapter without a choice.
    Named(String),
}

/// Information about the adapter in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterInfo {
    /// The driver's name for it; may be empty in browsers.
    pub name: String,
    /// `nvidia`, `amd`, `intel`, `apple`, `google` …, or a number; may be empty in browsers.
    pub vendor: String,
    /// The driver (native); may be empty in browsers.
    pub architecture: String,
    /// `vulkan`, `metal`, `dx12` or `webgpu`.
    pub backend: String,
    /// Whether this is a CPU emulating a GPU: correct, but hundreds of times slower.
    pub software: bool,
}

impl AdapterInfo {
    pub(crate) fn new(info: &wgpu::AdapterInfo) -> Self {
        Self {
            name: info.name.clone(),
            vendor: vendor(info.vendor),
            architecture: info.driver.clone(),
            backend: match info.backend {
                wgpu::Backend::BrowserWebGpu => "webgpu".into(),
                other => format!("{other:?}").to_lowercase(),
            },
            software: info.device_type == wgpu::DeviceType::Cpu || is_software(&info.name),
        }
    }
}

#[cfg(target_family = "wasm")]
impl AdapterInfo {
    /// Adds the browser's information: usually the maker and the generation instead of the card's
    /// name.
    pub(crate) fn with_browser_info(mut self, device: &wgpu::Device) -> Self {
        let property = |device: &wasm_bindgen::JsValue, what: &str| {
            let info = js_sys::Reflect::get(device, &"adapterInfo".into()).ok()?;
            js_sys::Reflect::get(&info, &what.into()).ok()?.as_string()
        };
        if let Some(device) = device.as_webgpu() {
            let [vendor, architecture, kind] = ["vendor", "architecture", "device"]
                .map(|what| property(device.as_ref(), what).unwrap_or_default());
            if self.name.is_empty() {
                let parts = [&vendor, &architecture, &kind].into_iter();
                let parts: Vec<&str> = parts
                    .map(|part| &**part)
                    .filter(|p| !p.is_empty())
                    .collect();
                self.name = parts.join(" ");
            }
            self.software |= is_software(&self.name);
            (self.vendor, self.architecture) = (vendor, architecture);
        }
        self
    }
}

/// Whether the name belongs to a CPU emulating a GPU.
fn is_software(name: &str) -> bool {
    let name = name.to_lowercase();
    [
        "swiftshader",
        "llvmpipe",
        "lavapipe",
        "warp",
        "basic render",
    ]
    .iter()
    .any(|known| name.contains(known))
}

/// The usual name of a PCI vendor number.
fn vendor(id: u32) -> String {
    match id {
        0 => String::new(),
        0x1002 => "amd".into(),
        0x106b => "apple".into(),
        0x10de => "nvidia".into(),
        0x13b5 => "arm".into(),
        0x1414 => "microsoft".into(),
        0x1ae0 => "google".into(),
        0x5143 => "qualcomm".into(),
        0x8086 => "intel".into(),
        0x10005 => "mesa".into(),
        other => format!("{other:#06x}"),
    }
}

/// The adapter for `choice`.
pub(crate) async fn request(choice: &AdapterChoice) -> Result<wgpu::Adapter, GpuError> {
    let backends = if cfg!(target_family = "wasm") {
        wgpu::Backends::BROWSER_WEBGPU
    } else {
        wgpu::Backends::PRIMARY
    };
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    #[cfg(not(target_family = "wasm"))]
    if matches!(choice, AdapterChoice::Software | AdapterChoice::Named(_)) {
        return listed(&instance, backends, choice).await;
    }
    instance
        .request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: match choice {
                AdapterChoice::LowPower => wgpu::PowerPreference::LowPower,
                _ => wgpu::PowerPreference::HighPerformance,
            },
            force_fallback_adapter: *choice == AdapterChoice::Software,
            ..Default::default()
        })
        .await
        .map_err(|error| GpuError::NoAdapter {
            reason: error.to_string(),
        })
}

#[cfg(not(target_family = "wasm"))]
async fn listed(
    instance: &wgpu::Instance,
    backends: wgpu::Backends,
    choice: &AdapterChoice,
) -> Result<wgpu::Adapter, GpuError> {
    let adapters = instance.enumerate_adapters(backends).await;
    let names: Vec<String> = adapters.iter().map(|a| a.get_info().name).collect();
    adapters
        .into_iter()
        .find(|adapter| {
            let info = AdapterInfo::new(&adapter.get_info());
            match choice {
                AdapterChoice::Named(part) => {
                    info.name.to_lowercase().contains(&part.to_lowercase())
                }
                _ => info.software,
            }
        })
        .ok_or_else(|| GpuError::NoAdapter {
            reason: format!("none fits {choice:?}; there are {names:?}"),
        })
}
