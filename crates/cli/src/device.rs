//! `--device`: from a word to the backend models run on.

use conclave_kernels::{AdapterChoice, Gpu};
use conclave_model::Backend;

use crate::failure::Failure;

/// The backend that `name` asks for, and its name for people.
///
/// # Errors
/// [`Failure::Gpu`] where the adapter asked for does not exist or gives no device.
pub async fn open(name: &str) -> Result<(Backend, String), Failure> {
    let cpu = || (Backend::Cpu, "CPU".to_owned());
    match name {
        "cpu" => Ok(cpu()),
        "auto" => match Gpu::init(AdapterChoice::Best).await {
            // A software adapter proves kernels; it serves nobody.
            Ok(gpu) if !gpu.adapter().software => Ok(named(gpu)),
            _ => Ok(cpu()),
        },
        "gpu" => Ok(named(Gpu::init(AdapterChoice::Best).await?)),
        part => Ok(named(
            Gpu::init(AdapterChoice::Named(part.to_owned())).await?,
        )),
    }
}

fn named(gpu: Gpu) -> (Backend, String) {
    let adapter = gpu.adapter();
    let kind = if adapter.software { ", software" } else { "" };
    let name = format!("{} ({}{kind})", adapter.name, adapter.backend);
    (Backend::Gpu(gpu), name)
}
