//! What the device reports outside of calls: its loss, and errors of work that was refused
//! after the call that queued it had returned.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::GpuError;

/// Errors that arrived outside of a call.
#[derive(Debug, Default)]
struct State {
    lost: Option<String>,
    /// The first error since the last read or sync; those behind it follow from it.
    failed: Option<GpuError>,
}

/// The errors of one device; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<State>>);

impl Reports {
    /// Collect from now on what the device reports.
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
            failed.state().failed.get_or_insert(error);
        }));
        reports
    }

    /// The device is gone, unless that is known already.
    pub fn lose(&self, reason: impl FnOnce() -> String) {
        self.state().lost.get_or_insert_with(reason);
    }

    /// Why the device was lost, once it was.
    pub fn lost(&self) -> Option<String> {
        self.state().lost.clone()
    }

    /// An error once the device is lost.
    pub fn check_lost(&self) -> Result<(), GpuError> {
        match &self.state().lost {
            Some(reason) => Err(GpuError::DeviceLost {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// An error once the device is lost, or the first one since this was last asked.
    pub fn take(&self) -> Result<(), GpuError> {
        self.check_lost()?;
        self.state().failed.take().map_or(Ok(()), Err)
    }

    /// The state is plain data: a thread that panicked with it leaves nothing half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
