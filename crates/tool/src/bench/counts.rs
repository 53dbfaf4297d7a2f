//! Counts of GPU operations, and the CPU time of issuing them.

use std::pin::pin;
#[cfg(not(unix))]
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use conclave_kernels::{Gpu, GpuCounters, GpuError};
use serde::Serialize;

/// Counts under the report's names: those of the page's that are known natively.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub readbacks: f64,
    pub read_bytes: f64,
    pub submits: f64,
    pub passes: f64,
    pub dispatches: f64,
    pub writes: f64,
    pub buffers: f64,
    pub bind_groups: f64,
    pub pipelines: f64,
}

impl Counts {
    /// Counts per step of `steps` equal steps.
    pub fn over(counters: GpuCounters, steps: usize) -> Self {
        let each = |count: u64| count as f64 / steps.max(1) as f64;
        Self {
            readbacks: each(counters.read_backs),
            read_bytes: each(counters.read_back_bytes),
            submits: each(counters.submits),
            passes: each(counters.passes),
            dispatches: each(counters.dispatches),
            writes: each(counters.writes),
            buffers: each(counters.buffers),
            bind_groups: each(counters.bind_groups),
            pipelines: each(counters.pipelines),
        }
    }
}

#[derive(Clone, Copy)]
pub struct Meter<'a>(Option<&'a Gpu>);

impl<'a> Meter<'a> {
    pub fn new(gpu: Option<&'a Gpu>) -> Self {
        Self(gpu)
    }

    pub fn gpu(&self) -> Option<&'a Gpu> {
        self.0
    }

    pub fn read(&self) -> Option<GpuCounters> {
        self.0.map(Gpu::counters)
    }

    pub fn since(&self, before: Option<GpuCounters>) -> Option<GpuCounters> {
        Some(self.read()? - before?)
    }

    /// Runs a task. Also returns the microseconds per launch of this thread until the task first
    /// waited: by then all launches before its first read-back are issued and none was waited for.
    /// `None` if nothing was launched, or something was read before.
    pub async fn launching<T>(&self, task: impl Future<Output = T>) -> (T, Option<f64>) {
        let mut task = pin!(task);
        let (mut first, mut each) = (true, None);
        let result = std::future::poll_fn(|context| {
            let (before, started) = (self.read(), first.then(thread_time));
            let polled = task.as_mut().poll(context);
            if let Some(started) = started {
                first = false;
                let microseconds = (thread_time() - started).as_secs_f64() * 1e6;
                let asked = self.since(before);
                let asked = asked.filter(|asked| asked.dispatches > 0 && asked.read_backs == 0);
                each = asked.map(|asked| microseconds / asked.dispatches as f64);
            }
            polled
        });
        (result.await, each)
    }
}

/// CPU time of this thread, excluding other programs and a software adapter's own threads.
#[cfg(unix)]
fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec, which is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Wall-clock time, where a thread's own is unavailable.
#[cfg(not(unix))]
fn thread_time() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Bytes read and written per second in a copy between GPU buffers: an upper bound for a product
/// that reads all weights once.
pub async fn copy_bytes_per_second(gpu: &Gpu) -> Result<f64, GpuError> {
    /// Larger than any cache of today's GPUs.
    const BYTES: usize = 128 << 20;
    const LONG_ENOUGH_SECONDS: f64 = 0.1;
    let (from, to) = (gpu.allocate(BYTES)?, gpu.allocate(BYTES)?);
    gpu.copy_into(&from, &to)?;
    gpu.sync().await?;
    let mut times = 1;
    loop {
        let started = Instant::now();
        for _ in 0..times {
            gpu.copy_into(&from, &to)?;
        }
        gpu.sync().await?;
        let seconds = started.elapsed().as_secs_f64();
        if seconds >= LONG_ENOUGH_SECONDS {
            return Ok(2.0 * BYTES as f64 * f64::from(times) / seconds);
        }
        times *= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_its_share_of_all() {
        let counters = GpuCounters {
            dispatches: 90,
            read_backs: 1,
            ..GpuCounters::default()
        };
        let step = Counts::over(counters, 9);
        assert_eq!((step.dispatches, step.readbacks), (10.0, 1.0 / 9.0));
        assert_eq!(Counts::over(counters, 0).dispatches, 90.0);
    }

    #[test]
    #[cfg(unix)]
    fn a_thread_that_sleeps_takes_no_time() {
        let (started, own) = (Instant::now(), thread_time());
        std::thread::sleep(Duration::from_millis(100));
        assert!(thread_time() - own < Duration::from_millis(50));
        // A busy thread does.
        while thread_time() - own < Duration::from_millis(100) {
            std::hint::black_box(0);
        }
        assert!(started.elapsed() >= Duration::from_millis(150));
    }

    #[test]
    fn without_a_gpu_nothing_is_launched() {
        let meter = Meter(None);
        assert_eq!(pollster::block_on(meter.launching(async { 7 })), (7, None));
    }
}
