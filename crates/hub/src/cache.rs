//! The folder that keeps models, and the place of each in it.

use std::path::{Path, PathBuf};

use crate::address::{Parts, escaped};
use crate::digest::Sha256;
use crate::error::HubError;
use crate::plan::Plan;
use crate::reference::{Reference, file_of};

/// The folder that keeps downloaded models.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache in a folder, which is made when something is stored.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder named by `CONCLAVE_MODELS`, or `conclave` in the platform's folder for caches.
    ///
    /// # Errors
    /// [`HubError::NoCache`], if there is no such folder.
    pub fn from_environment() -> Result<Self, HubError> {
        let folder = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let caches = || {
            if cfg!(windows) {
                folder("LOCALAPPDATA")
            } else if cfg!(target_os = "macos") {
                folder("HOME").map(|home| home.join("Library/Caches"))
            } else {
                // The specification wants relative ones ignored.
                let named = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute());
                named.or_else(|| folder("HOME").map(|home| home.join(".cache")))
            }
        };
        let root =
            folder("CONCLAVE_MODELS").or_else(|| caches().map(|caches| caches.join("conclave")));
        root.map(Self::new).ok_or(HubError::NoCache)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a model is, if all of it is stored.
    pub fn find(&self, reference: &Reference) -> Option<PathBuf> {
        self.place(reference)?.usable().map(|(path, _)| path)
    }

    /// The place of a model that has to be downloaded; `None` for paths.
    pub(crate) fn place(&self, reference: &Reference) -> Option<Place> {
        let (within, revision) = match reference {
            Reference::Hub {
                owner,
                repo,
                file,
                revision,
            } => {
                let target = file.as_deref().map_or("folder".to_owned(), escaped);
                (
                    Path::new("hf").join(owner).join(repo).join(target),
                    escaped(revision),
                )
            }
            Reference::Address(address) => {
                let host = Parts::of(address)?.authority.to_ascii_lowercase();
                let name = format!("{}-{}", file_of(address)?, &Sha256::of(address)[..16]);
                (
                    Path::new("url").join(escaped(&host)).join(name),
                    "latest".to_owned(),
                )
            }
            Reference::Path(_) => return None,
        };
        let target = self.root.join(&within);
        let lock = Sha256::of(&format!("{}/{revision}", within.display()));
        Some(Place {
            folder: matches!(reference, Reference::Hub { file: None, .. }),
            lock: self.root.join("locks").join(&lock[..32]),
            done: target.join(&revision),
            part: target.join(format!("{revision}.part")),
            target,
        })
    }
}

/// Where one revision of one model is kept.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Whether the model is a folder, not a file.
    folder: bool,
    /// Whose lock is held by who downloads or removes the model.
    pub(crate) lock: PathBuf,
    /// The folder of all revisions.
    pub(crate) target: PathBuf,
    /// The complete model.
    pub(crate) done: PathBuf,
    /// The model while it is downloaded.
    pub(crate) part: PathBuf,
}

impl Place {
    /// The path to open and the plan, if all of the model is there.
    pub(crate) fn usable(&self) -> Option<(PathBuf, Plan)> {
        let plan = Plan::read(&plan_in(&self.done))?;
        let files = files_in(&self.done);
        for file in &plan.files {
            let found = std::fs::symlink_metadata(files.join(&file.name)).ok()?;
            if !found.is_file() || found.len() != file.bytes {
                return None;
            }
        }
        let path = if self.folder {
            files
        } else {
            files.join(&plan.files.first()?.name)
        };
        Some((path, plan))
    }

    /// The plan of a download that was begun.
    pub(crate) fn begun(&self) -> Option<Plan> {
        Plan::read(&plan_in(&self.part))
    }

    /// Forgets a download that was begun.
    ///
    /// # Errors
    /// [`HubError::Disk`].
    pub(crate) fn forget(&self) -> Result<(), HubError> {
        remove_all(&self.part)
    }

    /// Makes what is downloaded the model.
    ///
    /// # Errors
    /// [`HubError::Disk`].
    pub(crate) fn finish(&self) -> Result<(), HubError> {
        // A folder can't be renamed onto one with files in it; what was there is older or damaged.
        remove_all(&self.done)?;
        std::fs::rename(&self.part, &self.done).map_err(HubError::disk(&self.done))
    }
}

/// The plan of a stored model.
pub(crate) fn plan_in(folder: &Path) -> PathBuf {
    folder.join("plan.json")
}

/// The files of a stored model.
pub(crate) fn files_in(folder: &Path) -> PathBuf {
    folder.join("files")
}

/// Removes a folder with all in it; one that is not there is removed already.
///
/// # Errors
/// [`HubError::Disk`].
pub(crate) fn remove_all(folder: &Path) -> Result<(), HubError> {
    // Without its plan it is no model any more, however far the rest gets.
    let _ = std::fs::remove_file(plan_in(folder));
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(HubError::disk(folder)(error))
        }
        _ => Ok(()),
    }
}
