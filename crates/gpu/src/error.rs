//! Errors of the GPU, each with a remedy.

/// An error of the GPU or of a launch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// No adapter is available, or none fits the choice.
    #[error(
        "no GPU adapter ({reason}); enable WebGPU or install a Vulkan, Metal or D3D12 driver, or \
        run on the CPU backend"
    )]
    NoAdapter {
        /// The browser's or driver's message.
        reason: String,
    },
    /// The adapter refused a device.
    #[error(
        "the adapter \"{adapter}\" refused a device ({reason}); close other GPU users and try \
        again, or run on the CPU backend"
    )]
    NoDevice {
        /// The adapter's name.
        adapter: String,
        /// The driver's message.
        reason: String,
    },
    /// The device is lost: a driver reset, a removed GPU, or [`crate::Gpu::destroy`].
    #[error("the GPU device was lost ({reason}); make a new one and load the models again")]
    DeviceLost {
        /// The driver's message.
        reason: String,
    },
    /// Out of GPU memory.
    #[error(
        "out of GPU memory ({reason}); load fewer or smaller models, or ask for a shorter context"
    )]
    OutOfMemory {
        /// The failed request.
        reason: String,
    },
    /// A buffer larger than the device binds.
    #[error(
        "{what} needs {bytes} bytes in one buffer, this device binds at most {limit}; ask for \
        less (a shorter context, fewer rows at once)"
    )]
    TooLarge {
        /// The buffer's purpose.
        what: &'static str,
        /// Bytes requested.
        bytes: u64,
        /// Most bytes that the device binds.
        limit: u64,
    },
    /// Shapes that do not match: a mistake of the caller, found before the launch.
    #[error("{kernel}: {reason}")]
    Shape {
        /// The kernel or object.
        kernel: &'static str,
        /// The mismatch.
        reason: String,
    },
    /// A kernel fails its self-test on this adapter and has no substitute.
    #[error(
        "the GPU \"{adapter}\" does not run a kernel as it should ({kernel}: {reason}); run on \
        the CPU backend, and report this with the driver's version"
    )]
    Kernel {
        /// The adapter's name.
        adapter: String,
        /// The kernel that failed.
        kernel: &'static str,
        /// Its wrong result, or the driver's message.
        reason: String,
    },
    /// The driver refused a shader, a pipeline or a command.
    #[error(
        "the GPU refused work ({reason}); results since the last read are void, please report \
        this with the adapter's name"
    )]
    Refused {
        /// The driver's message.
        reason: String,
    },
}

impl GpuError {
    /// [`Self::Shape`], for `kernel`.
    pub fn shape(kernel: &'static str, reason: impl Into<String>) -> Self {
        Self::Shape {
            kernel,
            reason: reason.into(),
        }
    }
}
