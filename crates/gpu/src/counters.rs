//! Counts of a device's operations: a measure without noise.

/// Objects made and operations run on a device since it was opened. Subtract two of them to measure
/// an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuCounters {
    /// Number of kernels launched.
    pub dispatches: u64,
    /// Number of compute passes: at most one for each submit.
    pub passes: u64,
    /// Number of submits of commands to the queue.
    pub submits: u64,
    /// Number of waits of the CPU for results.
    pub read_backs: u64,
    /// Bytes of these results.
    pub read_back_bytes: u64,
    /// Number of writes from the CPU.
    pub writes: u64,
    /// Number of buffers made.
    pub buffers: u64,
    /// Number of bind groups made.
    pub bind_groups: u64,
    /// Number of pipelines made.
    pub pipelines: u64,
}

impl std::ops::Sub for GpuCounters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            dispatches: self.dispatches - earlier.dispatches,
            passes: self.passes - earlier.passes,
            submits: self.submits - earlier.submits,
            read_backs: self.read_backs - earlier.read_backs,
            read_back_bytes: self.read_back_bytes - earlier.read_back_bytes,
            writes: self.writes - earlier.writes,
            buffers: self.buffers - earlier.buffers,
            bind_groups: self.bind_groups - earlier.bind_groups,
            pipelines: self.pipelines - earlier.pipelines,
        }
    }
}
