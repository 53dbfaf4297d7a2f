//! `--device`: the device that models run on.

use conclave_kernels::{AdapterChoice, Choices, Gpu, Launcher};
use conclave_member::Member;
use conclave_model::{Backend, Cpu, Threads};

use crate::failure::Failure;

#[derive(Debug)]
pub struct Device {
    runs: Runs,
    pub name: String,
}

#[derive(Debug)]
enum Runs {
    Cpu(Cpu),
    Gpu(Launcher),
    #[cfg(feature = "burn")]
    Burn(Box<conclave_burn::Burn>),
}

impl Device {
    /// Opens the device called `name`; the CPU with `threads` threads.
    ///
    /// # Errors
    /// [`Failure::Gpu`] if the requested adapter does not exist or yields no device.
    pub async fn open(name: &str, threads: usize) -> Result<Self, Failure> {
        match name {
            "cpu" => Ok(Self::cpu(threads)),
            "auto" => match Launcher::init(AdapterChoice::Best).await {
                // Software adapters are for testing kernels only.
                Ok(gpu) if !gpu.adapter().software => Ok(Self::of_gpu(gpu)),
                _ => Ok(Self::cpu(threads)),
            },
            "gpu" => Ok(Self::of_gpu(Launcher::init(AdapterChoice::Best).await?)),
            #[cfg(feature = "burn")]
            "burn" => Ok(Self::of_burn(conclave_burn::Burn::wgpu().await?)),
            #[cfg(feature = "burn")]
            "burn-cpu" => Ok(Self::of_burn(conclave_burn::Burn::flex())),
            #[cfg(not(feature = "burn"))]
            "burn" | "burn-cpu" => Err(Failure::Usage(
                "this conclave was built without burn; build it with `--features burn`".to_owned(),
            )),
            part => Ok(Self::of_gpu(
                Launcher::init(AdapterChoice::Named(part.to_owned())).await?,
            )),
        }
    }

    fn cpu(threads: usize) -> Self {
        Self {
            runs: Runs::Cpu(Cpu(Threads::new(threads))),
            name: "CPU".to_owned(),
        }
    }

    fn of_gpu(gpu: Launcher) -> Self {
        let adapter = gpu.adapter();
        let kind = if adapter.software { ", software" } else { "" };
        let name = format!("{} ({}{kind})", adapter.name, adapter.backend);
        Self {
            runs: Runs::Gpu(gpu),
            name,
        }
    }

    #[cfg(feature = "burn")]
    fn of_burn(burn: conclave_burn::Burn) -> Self {
        Self {
            name: format!("{} (burn)", burn.name()),
            runs: Runs::Burn(Box::new(burn)),
        }
    }

    /// Backend that loads models there.
    pub fn backend(&self) -> &dyn Backend {
        match &self.runs {
            Runs::Cpu(cpu) => cpu,
            Runs::Gpu(gpu) => gpu,
            #[cfg(feature = "burn")]
            Runs::Burn(burn) => &**burn,
        }
    }

    /// GPU of the fused engine, if that runs the models.
    pub fn gpu(&self) -> Option<&Gpu> {
        match &self.runs {
            Runs::Gpu(gpu) => Some(gpu),
            _ => None,
        }
    }

    /// Autotunes a GPU's kernels for these members, by the format of the first; software adapters
    /// use fixed rules. The choice may vary between runs, and with it the last bits of logits.
    pub async fn tune(&self, members: &[Member]) -> Result<(), Failure> {
        let most = members.first().and_then(|one| one.about().most_on_gpu());
        if let (Runs::Gpu(gpu), Some(format)) = (&self.runs, most) {
            // Upload errors appear only once the device has run them.
            gpu.sync().await?;
            gpu.autotune(format).await?;
        }
        Ok(())
    }

    /// Kernels chosen for a GPU of the fused engine.
    pub fn choices(&self) -> Option<Choices> {
        match &self.runs {
            Runs::Gpu(gpu) => Some(gpu.choices()),
            _ => None,
        }
    }

    pub fn is_cpu(&self) -> bool {
        matches!(self.runs, Runs::Cpu(_))
    }
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
