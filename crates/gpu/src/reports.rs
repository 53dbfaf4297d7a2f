//! Asynchronous reports of a device: its loss, and errors of work refused after the call that
//! queued it had returned.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::GpuError;

/// Errors kept: later ones follow from the first.
const REMEMBERED: usize = 16;

#[derive(Debug, Default)]
struct State {
    lost: Option<String>,
    /// Number of errors so far.
    count: u64,
    /// The latest errors.
    failed: VecDeque<GpuError>,
}

/// The errors of one device; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Reports(Arc<Mutex<State>>);

/// Number of a device's errors that a listener has seen.
#[derive(Debug)]
pub struct Heard(AtomicU64);

impl Reports {
    /// Collects the device's reports, replacing its handlers.
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

    /// Records the loss, unless known.
    pub(crate) fn lose(&self, reason: impl FnOnce() -> String) {
        self.state().lost.get_or_insert_with(reason);
    }

    /// Reason of the device's loss, if lost.
    pub fn lost(&self) -> Option<String> {
        self.state().lost.clone()
    }

    /// Fails once the device is lost.
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

    /// Starts listening.
    pub fn listen(&self) -> Heard {
        Heard(AtomicU64::new(self.state().count))
    }

    /// Reports an error that is new to the listener. Each of several listeners gets it, since work
    /// queued by one may be reported while another waits.
    ///
    /// # Errors
    /// [`GpuError::DeviceLost`] once lost, or the first new error.
    pub fn check(&self, heard: &Heard) -> Result<(), GpuError> {
        self.check_lost()?;
        let state = self.state();
        let news = state.count - heard.0.swap(state.count, Ordering::Relaxed);
        let first = state.failed.len().saturating_sub(news as usize);
        let error = state.failed.get(first);
        error.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The state is plain data: a panic leaves it sound.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
