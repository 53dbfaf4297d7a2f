//! Lists and removes the models in a cache.

use std::path::{Path, PathBuf};

use crate::cache::{Cache, ModelDir, files_in, plan_in, remove_all};
use crate::chunks::Chunks;
use crate::error::HubError;
use crate::lock::Lock;
use crate::plan::Plan;
use crate::reference::Reference;

/// A model in a cache, complete or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Reference, as users write it.
    pub reference: String,
    /// Commit; for a URL, a digest of the server's description of the file.
    pub version: String,
    /// Path to open once complete.
    pub path: PathBuf,
    /// Size of the model.
    pub bytes: u64,
    /// Number of finished bytes.
    pub stored: u64,
    /// Whether the model can be used.
    pub complete: bool,
    /// Whether every file was checked against a digest of its source.
    pub verified: bool,
}

impl Cache {
    /// Lists all models by name, including incomplete ones.
    ///
    /// # Errors
    /// [`HubError::Disk`].
    pub fn list(&self) -> Result<Vec<Stored>, HubError> {
        let mut found = Vec::new();
        for kind in ["hf", "url"] {
            walk(&self.root().join(kind), 5, &mut found)?;
        }
        found.sort_by(|a, b| (&a.reference, !a.complete).cmp(&(&b.reference, !b.complete)));
        Ok(found)
    }

    /// Removes a model, complete or not; returns the number of freed bytes.
    ///
    /// # Errors
    /// [`HubError::NotStored`], [`HubError::Busy`] while it is downloaded, [`HubError::Disk`].
    pub fn remove(&self, reference: &Reference) -> Result<u64, HubError> {
        let what = reference.to_string();
        let Some(dir) = self.dir(reference) else {
            return Err(HubError::NotStored {
                what,
                hint: ": it is a file of yours, and only downloaded models are removed".to_owned(),
            });
        };
        if !dir.done.exists() && !dir.part.exists() {
            return Err(HubError::NotStored {
                what,
                hint: self.hint(),
            });
        }
        let Some(_lock) = Lock::try_take(&dir.lock)? else {
            return Err(HubError::Busy { what });
        };
        let freed = bytes_in(&dir.done) + bytes_in(&dir.part);
        remove_all(&dir.done)?;
        remove_all(&dir.part)?;
        self.prune(&dir);
        Ok(freed)
    }

    /// Removes empty folders above a model.
    fn prune(&self, dir: &ModelDir) {
        for folder in dir
            .target
            .ancestors()
            .take_while(|folder| *folder != self.root())
        {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    fn hint(&self) -> String {
        let names: Vec<String> = self
            .list()
            .unwrap_or_default()
            .into_iter()
            .take(20)
            .map(|model| model.reference)
            .collect();
        match names.is_empty() {
            true => "; nothing is".to_owned(),
            false => format!("; stored are {}", names.join(", ")),
        }
    }
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<Stored>) -> Result<(), HubError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(HubError::disk(folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(HubError::disk(folder))?;
        // Links are not followed: removal uses the same list.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if let Some(plan) = Plan::read(&plan_in(&path)) {
            found.push(describe(&path, &plan));
        } else if depth > 1 {
            walk(&path, depth - 1, found)?;
        }
    }
    Ok(())
}

fn describe(folder: &Path, plan: &Plan) -> Stored {
    let files = files_in(folder);
    let here =
        |name: &str| std::fs::symlink_metadata(files.join(name)).is_ok_and(|found| found.is_file());
    let stored = plan.files.iter().map(|file| {
        if here(&file.name) {
            file.bytes
        } else {
            Chunks::finished(&files, &file.name, file.bytes)
        }
    });
    let stored: u64 = stored.sum();
    let begun = folder
        .extension()
        .is_some_and(|extension| extension == "part");
    let one = plan
        .files
        .first()
        .filter(|file| file.name.to_ascii_lowercase().ends_with(".gguf"));
    Stored {
        reference: plan.reference.clone(),
        version: plan.version.clone(),
        path: one.map_or_else(|| files.clone(), |file| files.join(&file.name)),
        bytes: plan.bytes(),
        stored,
        complete: !begun && stored == plan.bytes(),
        verified: plan.files.iter().all(|file| file.digest.is_some()),
    }
}

/// Finished bytes of a model's files on disk.
pub(crate) fn bytes_in(folder: &Path) -> u64 {
    Plan::read(&plan_in(folder)).map_or(0, |plan| describe(folder, &plan).stored)
}
