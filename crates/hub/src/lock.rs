//! A lock that allows one download of a model at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::HubError;

/// Held while a model is downloaded or removed; the system releases it when the process ends.
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Unlocks explicitly: a child process being spawned inherits the file until it executes its
    /// own program, so closing it here would leave it locked.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes the lock if it is free.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>, HubError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(HubError::disk(folder))?;
        }
        // Lock files are never removed: doing so while another process waits would create two
        // locks. Windows locks only what is open for reading or writing; appending is neither.
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(HubError::disk(path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            // Some network file systems have no locks: continue without.
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
                Ok(Some(Self { file }))
            }
            Err(TryLockError::Error(error)) => Err(HubError::disk(path)(error)),
        }
    }

    /// Waits for the lock; calls `waiting` once if it is taken.
    pub(crate) fn take(
        path: &Path,
        cancel: &AtomicBool,
        mut waiting: impl FnMut(),
    ) -> Result<Self, HubError> {
        let mut waits = false;
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if !waits {
                waiting();
                waits = true;
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(HubError::Stopped);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_free_again_although_another_process_has_its_file_open() {
        let path = std::env::temp_dir().join(format!("conclave-lock-{}", std::process::id()));
        let lock = Lock::try_take(&path).unwrap().expect("it is free");
        assert!(Lock::try_take(&path).unwrap().is_none());
        // As inherited by a child process being spawned.
        let inherited = lock.file.try_clone().unwrap();
        drop(lock);
        assert!(Lock::try_take(&path).unwrap().is_some());
        drop(inherited);
        std::fs::remove_file(&path).unwrap();
    }
}
