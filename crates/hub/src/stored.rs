//! What a cache holds: listing and removing.

use std::path::{Path, PathBuf};

use crate::cache::{Cache, Place, files_in, plan_in, remove_all};
use crate::chunks::Chunks;
use crate::error::HubError;
use crate::lock::Lock;
use crate::plan::Plan;
use crate::reference::Reference;

/// A model in a cache, complete or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// As users name it.
    pub reference: String,
    /// The commit; of an address, a digest of what its server says of the file.
    pub version: String,
    /// What to open, once it is complete.
    pub path: PathBuf,
    /// Bytes of the model.
    pub bytes: u64,
    /// Bytes of it that are here and finished.
    pub stored: u64,
    /// Whether it can be used.
    pub complete: bool,
    /// Whether a digest of its source stands behind each of its files.
    pub verified: bool,
}

impl Cache {
    /// All models, by name, with those that are not complete.
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

    /// Removes a model, and what there is of one that is not complete; answers the bytes freed.
    ///
    /// # Errors
    /// [`HubError::NotStored`], [`HubError::Busy`] while it is downloaded, [`HubError::Disk`].
    pub fn remove(&self, reference: &Reference) -> Result<u64, HubError> {
        let what = reference.to_string();
        let Some(place) = self.place(reference) else {
            return Err(HubError::NotStored {
                what,
                hint: ": it is a file of yours, and only downloaded models are removed".to_owned(),
            });
        };
        if !place.done.exists() && !place.part.exists() {
            return Err(HubError::NotStored {
                what,
                hint: self.hint(),
            });
        }
        let Some(_lock) = Lock::try_take(&place.lock)? else {
            return Err(HubError::Busy { what });
        };
        let freed = bytes_in(&place.done) + bytes_in(&place.part);
        remove_all(&place.done)?;
        remove_all(&place.part)?;
        self.prune(&place);
        Ok(freed)
    }

    /// Removes the folders above a model that are empty now.
    fn prune(&self, place: &Place) {
        for folder in place
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
        // A link is followed nowhere: this list is also what removing goes by.
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

/// Bytes on disk of a model's files; those begun count what is finished of them.
pub(crate) fn bytes_in(folder: &Path) -> u64 {
    Plan::read(&plan_in(folder)).map_or(0, |plan| describe(folder, &plan).stored)
}
