//! `--device`: from a word to where models run.

use conclave_kernels::{AdapterChoice, Choices, Gpu, Launcher};
use conclave_member::Member;
use conclave_model::{Backend, Cpu, Threads};

use crate::failure::Failure;

/// Where models run.
#[derive(Debug)]
pub struct Device {
    runs: Runs,
    /// What it is called, for people.
    pub name: String,
}

#[derive(Debug)]
enum Runs {
    Cpu(Cpu),
    Gpu(Launcher),
    #[cfg(feature = "burn")]
    Burn(conclave_burn::Burn),
}

impl Device {
    /// The device that `name` asks for; the CPU with so many threads.
    ///
    /// # Errors
    /// [`Failure::Gpu`] where the adapter asked for does not exist or gives no device.
    pub async fn open(name: &str, threads: usize) -> Result<Self, Failure> {
        match name {
            "cpu" => Ok(Self::cpu(threads)),
            "auto" => match Launcher::init(AdapterChoice::Best).await {
                // A software adapter proves kernels; it serves nobody.
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
            runs: Runs::Burn(burn),
        }
    }

    /// What loads models there.
    pub fn backend(&self) -> &dyn Backend {
        match &self.runs {
            Runs::Cpu(cpu) => cpu,
            Runs::Gpu(gpu) => gpu,
            #[cfg(feature = "burn")]
            Runs::Burn(burn) => burn,
        }
    }

    /// The GPU of the fused engine, if that is what runs them.
    pub fn gpu(&self) -> Option<&Gpu> {
        match &self.runs {
            Runs::Gpu(gpu) => Some(gpu),
            _ => None,
        }
    }

    /// Chooses by measure which kernels a GPU launches for these members, the first's format
    /// deciding; software adapters keep to the rule. What is chosen may differ from run to run, and
    /// with it the last bits of logits.
    ///
    /// # Errors
    /// [`Failure::Gpu`] for what the device reports.
    pub async fn tune(&self, members: &[Member]) -> Result<(), Failure> {
        let most = members.first().and_then(|one| one.about().most_on_gpu());
        if let (Runs::Gpu(gpu), Some(format)) = (&self.runs, most) {
            // Uploads only fail once the device has run them.
            gpu.sync().await?;
            gpu.autotune(format).await?;
        }
        Ok(())
    }

    /// Which kernels a GPU of the fused engine launches where there is a choice.
    pub fn choices(&self) -> Option<Choices> {
        match &self.runs {
            Runs::Gpu(gpu) => Some(gpu.choices()),
            _ => None,
        }
    }

    /// Whether it is the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self.runs, Runs::Cpu(_))
    }
}

/// How many cores there are.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
