//! What can go wrong between a caller and the GPU, each with what to do next.

/// An error of the GPU or of a launch on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// No adapter was offered, or none that fits the choice.
    #[error(
        "no GPU adapter ({reason}); enable WebGPU or install a Vulkan, Metal or D3D12 driver, or run on the CPU backend"
    )]
    NoAdapter {
        /// What the browser or driver said.
        reason: String,
    },
    /// The adapter would not give a device.
    #[error(
        "the adapter \"{adapter}\" refused a device ({reason}); close other GPU users and try again, or run on the CPU backend"
    )]
    NoDevice {
        /// The adapter's name.
        adapter: String,
        /// What the driver said.
        reason: String,
    },
    /// The device is gone: a driver reset, a removed GPU, or [`crate::Gpu::destroy`].
    #[error("the GPU device was lost ({reason}); make a new one and load the models again")]
    DeviceLost {
        /// What the driver said.
        reason: String,
    },
    /// The GPU has no room left.
    #[error(
        "out of GPU memory ({reason}); load fewer or smaller models, or ask for a shorter context"
    )]
    OutOfMemory {
        /// What was asked for.
        reason: String,
    },
    /// One buffer would be larger than the device binds at once.
    #[error(
        "{what} needs {bytes} bytes in one buffer, this device binds at most {limit}; ask for less (a shorter context, fewer rows at once)"
    )]
    TooLarge {
        /// What the buffer was for.
        what: &'static str,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes the device binds.
        limit: u64,
    },
    /// Shapes that do not fit together: a mistake of the caller, found before the launch.
    #[error("{kernel}: {reason}")]
    Shape {
        /// The kernel or object that refused.
        kernel: &'static str,
        /// What did not fit.
        reason: String,
    },
    /// A kernel fails its self-test on this adapter, and no other can stand in for it.
    #[error(
        "the GPU \"{adapter}\" does not run a kernel as it should ({kernel}: {reason}); run on the CPU backend, and report this with the driver's version"
    )]
    Kernel {
        /// The adapter's name.
        adapter: String,
        /// The kernel that failed.
        kernel: &'static str,
        /// What it made, or what the driver said.
        reason: String,
    },
    /// The driver refused a shader, a pipeline or a command.
    #[error(
        "the GPU refused work ({reason}); results since the last read are void, please report this with the adapter's name"
    )]
    Refused {
        /// What the driver said.
        reason: String,
    },
}

impl GpuError {
    /// [`Self::Shape`], of `kernel`.
    pub fn shape(kernel: &'static str, reason: impl Into<String>) -> Self {
        Self::Shape {
            kernel,
            reason: reason.into(),
        }
    }
}
