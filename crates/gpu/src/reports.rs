//! What a device reports outside of calls: its loss, and errors of work that was refused
//! after the call that queued it had returned.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::GpuError;

/// Errors that are remembered: those behind the first follow from it.
const REMEMBERED: usize = 16;

#[derive(Debug, Default)]
struct State {
    lost: Option<String>,
    /// How many errors there have been.
    count: u64,
    /// The latest of them.
    failed: VecDeque<GpuError>,
}

/// The errors of one device; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Reports(Arc<Mutex<State>>);

/// How many of a device's errors somebody has heard of.
#[derive(Debug)]
pub struct Heard(AtomicU64);

impl Reports {
    /// Collects from now on what the device reports, in place of handlers that it had.
    pub fn watch(device: &wgpu::Device) -> Self {
        let reports = Self::default();
        let lost = reports.clone();
        device.set_device_lost_callback(move |reason, message| {
            lost.lose(|| format!("{reason:?}: {message}"));
        });
        let failed = reports.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            let error = match error {
                wgpu::Error::OutOfMemory { source } => GpuError::OutOfMemory {
                    reason: source.to_string(),
                },
                other => GpuError::Refused {
                    reason: other.to_string(),
                },
            };
            let mut state = failed.state();
            state.count += 1;
            state.failed.push_back(error);
            if state.failed.len() > REMEMBERED {
                state.failed.pop_front();
            }
        }));
        reports
    }

    /// The device is gone, unless that is known already.
    pub(crate) fn lose(&self, reason: impl FnOnce() -> String) {
        self.state().lost.get_or_insert_with(reason);
    }

    /// Why the device was lost, once it was.
    pub fn lost(&self) -> Option<String> {
        self.state().lost.clone()
    }

    /// An error once the device is lost.
    ///
    /// # Errors
    /// [`GpuError::DeviceLost`].
    pub fn check_lost(&self) -> Result<(), GpuError> {
        match &self.state().lost {
            Some(reason) => Err(GpuError::DeviceLost {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Listens from now on.
    pub fn listen(&self) -> Heard {
        Heard(AtomicU64::new(self.state().count))
    }

    /// Whether anything went wrong since the listener last asked. Each of several is told, since
    /// what one queued is reported while another waits.
    ///
    /// # Errors
    /// [`GpuError::DeviceLost`] once it is, or the first error that is news to the listener.
    pub fn check(&self, heard: &Heard) -> Result<(), GpuError> {
        self.check_lost()?;
        let state = self.state();
        let news = state.count - heard.0.swap(state.count, Ordering::Relaxed);
        let first = state.failed.len().saturating_sub(news as usize);
        let error = state.failed.get(first);
        error.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The state is plain data: a thread that panicked with it leaves nothing half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
