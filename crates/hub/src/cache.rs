//! The folder that holds downloaded models, and each model's paths in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::address::{Parts, escaped};
use crate::digest::Sha256;
use crate::error::HubError;
use crate::plan::Plan;
use crate::reference::{Reference, file_name_in};

/// Further attempts to rename a folder on Windows, which refuses while another program, such as a
/// virus scanner, reads a file in it.
const RENAMES: u32 = 50;

/// Pause before each of them.
const BETWEEN_RENAMES: Duration = Duration::from_millis(100);

/// Folder that holds downloaded models.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// A cache in `root`, which is created when something is stored.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder named by `CONCLAVE_MODELS`, or `conclave` in the platform's cache folder.
    ///
    /// # Errors
    /// [`HubError::NoCache`] if there is none.
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
                // The XDG specification says to ignore relative paths.
                let named = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute());
                named.or_else(|| folder("HOME").map(|home| home.join(".cache")))
            }
        };
        let root =
            folder("CONCLAVE_MODELS").or_else(|| caches().map(|caches| caches.join("conclave")));
        root.map(Self::new).ok_or(HubError::NoCache)
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a model if it is completely stored.
    pub fn find(&self, reference: &Reference) -> Option<PathBuf> {
        self.dir(reference)?.usable().map(|(path, _)| path)
    }

    /// Returns the folders of a model that must be downloaded; `None` for paths.
    pub(crate) fn dir(&self, reference: &Reference) -> Option<ModelDir> {
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
                let host = Parts::parse(address)?.authority.to_ascii_lowercase();
                let name = format!(
                    "{}-{}",
                    file_name_in(address)?,
                    &Sha256::digest(address)[..16]
                );
                (
                    Path::new("url").join(escaped(&host)).join(name),
                    "latest".to_owned(),
                )
            }
            Reference::Path(_) => return None,
        };
        let target = self.root.join(&within);
        let lock = Sha256::digest(&format!("{}/{revision}", within.display()));
        Some(ModelDir {
            folder: matches!(reference, Reference::Hub { file: None, .. }),
            lock: self.root.join("locks").join(&lock[..32]),
            done: target.join(&revision),
            part: target.join(format!("{revision}.part")),
            target,
        })
    }
}

/// Paths of one revision of one model.
#[derive(Debug, Clone)]
pub(crate) struct ModelDir {
    /// Whether the model is a folder rather than one file.
    folder: bool,
    /// Lock file, held while the model is downloaded or removed.
    pub(crate) lock: PathBuf,
    /// Folder of all revisions.
    pub(crate) target: PathBuf,
    /// The complete model.
    pub(crate) done: PathBuf,
    /// The incomplete model during its download.
    pub(crate) part: PathBuf,
}

impl ModelDir {
    /// Returns the path to open and the plan, if the model is complete.
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

    /// Returns the plan of an unfinished download.
    pub(crate) fn begun(&self) -> Option<Plan> {
        Plan::read(&plan_in(&self.part))
    }

    /// Discards an unfinished download.
    pub(crate) fn discard(&self) -> Result<(), HubError> {
        remove_all(&self.part)
    }

    /// Renames the finished download to its final folder.
    pub(crate) fn finish(&self) -> Result<(), HubError> {
        // Renaming onto a non-empty folder fails; its content is older or damaged.
        remove_all(&self.done)?;
        let mut more = if cfg!(windows) { RENAMES } else { 0 };
        loop {
            match std::fs::rename(&self.part, &self.done) {
                Err(_) if more > 0 => std::thread::sleep(BETWEEN_RENAMES),
                outcome => return outcome.map_err(HubError::disk(&self.done)),
            }
            more -= 1;
        }
    }
}

pub(crate) fn plan_in(folder: &Path) -> PathBuf {
    folder.join("plan.json")
}

pub(crate) fn files_in(folder: &Path) -> PathBuf {
    folder.join("files")
}

/// Removes a folder and its contents, if it exists.
pub(crate) fn remove_all(folder: &Path) -> Result<(), HubError> {
    // The plan goes first: without it the rest is not taken for a model if removal fails.
    let _ = std::fs::remove_file(plan_in(folder));
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(HubError::disk(folder)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_ends_although_another_program_reads_a_file_of_it() {
        let name = format!("conclave-cache-{}", std::process::id());
        let cache = Cache::new(std::env::temp_dir().join(name));
        let dir = cache.dir(&"hf:o/r/m.gguf".parse().unwrap()).unwrap();
        std::fs::create_dir_all(files_in(&dir.part)).unwrap();
        let file = files_in(&dir.part).join("m.gguf");
        std::fs::write(&file, "GGUF").unwrap();
        let opened = std::fs::File::open(&file).unwrap();
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(opened);
        });
        dir.finish().unwrap();
        assert!(files_in(&dir.done).join("m.gguf").is_file());
        reader.join().unwrap();
        remove_all(cache.root()).unwrap();
    }
}
