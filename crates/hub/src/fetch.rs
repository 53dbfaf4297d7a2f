//! Resolves a reference to a path: stored models are used, missing ones downloaded and verified.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::address::shown;
use crate::cache::{Cache, ModelDir, files_in, plan_in};
use crate::chunks::Chunks;
use crate::client::Client;
use crate::digest::Digest;
use crate::download::{Context, Wanted, download};
use crate::error::HubError;
use crate::listing::Asker;
use crate::lock::Lock;
use crate::options::Options;
use crate::plan::{Plan, Planned};
use crate::progress::Progress;
use crate::reference::Reference;
use crate::repository::file_address;
use crate::retry::RetryPolicy;
use crate::stored::bytes_in;

/// Maximum attempts to list the files before a download begins.
const LIST_ATTEMPTS: u32 = 3;

/// Maximum restarts when a file changes during its download.
const MAX_RESTARTS: u32 = 3;

/// Returns the path of a model: a GGUF file (the first of several parts) or a Hugging Face folder.
/// A stored model needs no request; others are downloaded and returned once every digest matches.
///
/// Calls `progress` with each step; setting `cancel` aborts, and finished chunks are kept.
///
/// # Errors
/// [`HubError`], with messages that say what to do next.
pub fn fetch(
    reference: &Reference,
    cache: &Cache,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
    cancel: &AtomicBool,
) -> Result<PathBuf, HubError> {
    if let Reference::Path(path) = reference {
        return local(path);
    }
    let dir = cache
        .dir(reference)
        .ok_or_else(|| nonsense(reference, "it is no reference to a model"))?;
    if !options.update
        && let Some((path, _)) = dir.usable()
    {
        return Ok(path);
    }
    let _lock = Lock::take(&dir.lock, cancel, || progress(Progress::Waiting))?;
    // The previous holder of the lock has most likely downloaded the model.
    let stored = dir.usable();
    if !options.update
        && let Some((path, _)) = stored
    {
        return Ok(path);
    }
    let client = Client::new(
        &options.endpoint,
        options.token.as_deref(),
        options.stall,
        options.connections,
        ureq::Proxy::try_from_env(),
    );
    let policy = RetryPolicy {
        attempts: options.attempts.max(1),
        pause: options.pause,
    };
    let mut fetching = Fetching {
        reference,
        cache,
        dir: &dir,
        options,
        policy: &policy,
        client: &client,
        progress,
        cancel,
    };
    for _ in 0..MAX_RESTARTS {
        let (plan, resumed) = fetching.plan()?;
        if let Some((path, stored)) = &stored
            && stored.version == plan.version
            && same_files(stored, &plan)
        {
            dir.discard()?;
            return Ok(path.clone());
        }
        match fetching.complete(&plan) {
            // The commit may have vanished from the hub, or a file changed, since the download
            // began.
            Err(HubError::Changed { .. }) => dir.discard()?,
            Err(error @ HubError::NotThere { .. }) if resumed => {
                if fetching.list_files()?.version == plan.version {
                    return Err(error);
                }
                dir.discard()?;
            }
            outcome => {
                // A download without finished chunks leaves nothing, so that the next attempt lists
                // the files anew.
                if outcome.is_err() && bytes_in(&dir.part) == 0 {
                    dir.discard()?;
                }
                return outcome;
            }
        }
    }
    Err(HubError::Changed {
        what: reference.to_string(),
    })
}

fn local(path: &Path) -> Result<PathBuf, HubError> {
    if path == Path::new("-") || path.exists() {
        return Ok(path.to_owned());
    }
    let text = path.to_string_lossy();
    // OWNER/REPO or OWNER/REPO/FILE.gguf, as written on the hub.
    let meant = format!("hf:{text}").parse::<Reference>().is_ok() && !path.is_absolute();
    let hint = if meant {
        format!("; if it is on the hub, write hf:{text}")
    } else {
        String::new()
    };
    Err(HubError::NoSuchPath {
        path: path.to_owned(),
        hint,
    })
}

fn nonsense(reference: &Reference, why: &str) -> HubError {
    HubError::Nonsense {
        what: reference.to_string(),
        why: why.to_owned(),
    }
}

struct Fetching<'a> {
    reference: &'a Reference,
    cache: &'a Cache,
    dir: &'a ModelDir,
    options: &'a Options,
    policy: &'a RetryPolicy,
    client: &'a Client,
    progress: &'a mut dyn FnMut(Progress),
    cancel: &'a AtomicBool,
}

impl Fetching<'_> {
    /// Returns the plan, and whether its download was begun before. A begun download of a hub's
    /// model keeps its commit; for a URL only a new request shows whether the file is unchanged.
    fn plan(&mut self) -> Result<(Plan, bool), HubError> {
        let begun = self.dir.begun();
        let pinned = matches!(self.reference, Reference::Hub { .. }) && !self.options.update;
        if let Some(plan) = begun.as_ref().filter(|_| pinned) {
            return Ok((plan.clone(), true));
        }
        let plan = self.list_files()?;
        if begun.is_some_and(|begun| begun.version == plan.version && same_files(&begun, &plan)) {
            return Ok((plan, true));
        }
        self.dir.discard()?;
        Ok((plan, false))
    }

    /// Lists the model's files now.
    fn list_files(&mut self) -> Result<Plan, HubError> {
        // Nothing is lost by failing early: without a network the error should come soon.
        let questions = RetryPolicy {
            attempts: self.policy.attempts.min(LIST_ATTEMPTS),
            ..self.policy.clone()
        };
        let mut asker = Asker {
            client: self.client,
            policy: &questions,
            progress: self.progress,
            cancel: self.cancel,
        };
        asker.plan(self.reference)
    }

    fn complete(&mut self, plan: &Plan) -> Result<PathBuf, HubError> {
        let files = files_in(&self.dir.part);
        for file in &plan.files {
            let path = files.join(&file.name);
            let folder = path.parent().unwrap_or(&files);
            std::fs::create_dir_all(folder).map_err(HubError::disk(folder))?;
        }
        plan.write(&plan_in(&self.dir.part))?;
        self.adopt(plan, &files)?;
        for last in [false, true] {
            let missing: Vec<&Planned> = plan
                .files
                .iter()
                .filter(|file| !is_there(&files, file))
                .collect();
            let mut wanted = self.resume(&files, plan, &missing)?;
            self.check_space(&wanted)?;
            let complete = plan
                .files
                .iter()
                .filter(|file| is_there(&files, file))
                .map(|file| file.bytes)
                .sum();
            let context = Context {
                client: self.client,
                policy: self.policy,
                connections: self.options.connections,
                cancel: self.cancel,
                total: plan.bytes(),
                complete,
            };
            download(&context, &mut wanted, self.progress)
                .map_err(|error| self.as_no_space(error, &wanted))?;
            match self.verify(&files, &missing, wanted)? {
                None => {
                    self.dir.finish()?;
                    let stored = self.dir.usable();
                    return stored.map(|(path, _)| path).ok_or_else(|| {
                        nonsense(
                            self.reference,
                            "its files changed in the cache while they were stored",
                        )
                    });
                }
                Some(mismatch) if last => return Err(mismatch),
                Some(_) => (self.progress)(Progress::Trouble {
                    what:
                        "a file arrived with another digest than its hub names; it is fetched again"
                            .to_owned(),
                    wait: Duration::ZERO,
                }),
            }
        }
        Err(nonsense(self.reference, "it did not become whole"))
    }

    /// Reuses files of other stored revisions: a new commit often changes only one file.
    fn adopt(&self, plan: &Plan, files: &Path) -> Result<(), HubError> {
        let Ok(revisions) = std::fs::read_dir(&self.dir.target) else {
            return Ok(());
        };
        for revision in revisions
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| *path != self.dir.part)
        {
            let Some(stored) = Plan::read(&plan_in(&revision)) else {
                continue;
            };
            for file in &plan.files {
                let same = |other: &&Planned| {
                    other.name == file.name
                        && other.bytes == file.bytes
                        && other.digest == file.digest
                };
                let Some(other) = stored.files.iter().find(same) else {
                    continue;
                };
                let sha256 = matches!(file.digest, Some(Digest::Sha256(_)));
                if sha256 && is_there(&files_in(&revision), other) && !is_there(files, file) {
                    let (from, to) = (files_in(&revision).join(&file.name), files.join(&file.name));
                    // Where the file system has no hard links, the file is downloaded.
                    let _ = std::fs::hard_link(from, to);
                }
            }
        }
        Ok(())
    }

    /// Returns the files to fetch, with their earlier chunks verified.
    fn resume(
        &mut self,
        files: &Path,
        plan: &Plan,
        missing: &[&Planned],
    ) -> Result<Vec<Wanted>, HubError> {
        let mut wanted = Vec::new();
        for file in missing {
            let address = self.address(plan, file);
            wanted.push(Wanted {
                shown: shown(&address),
                address,
                tag: file.tag.clone().filter(|_| file.digest.is_none()),
                digested: file.digest.is_some(),
                no_ranges: file.no_ranges,
                chunks: Chunks::open(files, &file.name, file.bytes, self.options.chunk_bytes),
            });
        }
        let total: u64 = wanted.iter().map(|file| file.chunks.bytes_done()).sum();
        let mut done = 0;
        let (progress, cancel) = (&mut *self.progress, self.cancel);
        for file in &mut wanted {
            file.chunks.check(&mut |bytes| {
                done += bytes;
                progress(Progress::Checking { done, total });
                if cancel.load(Ordering::Relaxed) {
                    Err(HubError::Stopped)
                } else {
                    Ok(())
                }
            })?;
        }
        Ok(wanted)
    }

    /// Fails if there is not enough free space for the missing bytes.
    fn check_space(&self, wanted: &[Wanted]) -> Result<(), HubError> {
        let (needed, free) = (missing_bytes(wanted), self.free());
        match free {
            Some(free) if needed > free => Err(HubError::NoSpace {
                path: self.cache.root().to_owned(),
                needed,
                free,
            }),
            _ => Ok(()),
        }
    }

    fn free(&self) -> Option<u64> {
        free_bytes(self.cache.root())
    }

    /// Turns a disk-full error into [`HubError::NoSpace`].
    fn as_no_space(&self, error: HubError, wanted: &[Wanted]) -> HubError {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match &error {
            HubError::Disk { source, .. }
                if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge) =>
            {
                HubError::NoSpace {
                    path: self.cache.root().to_owned(),
                    needed: missing_bytes(wanted),
                    free: self.free().unwrap_or(0),
                }
            }
            _ => error,
        }
    }

    /// Verifies the downloaded files and renames them. Returns an error for a file with a wrong
    /// digest, after removing its contents.
    fn verify(
        &mut self,
        files: &Path,
        missing: &[&Planned],
        wanted: Vec<Wanted>,
    ) -> Result<Option<HubError>, HubError> {
        let total = missing.iter().map(|file| file.bytes).sum();
        let mut done = 0;
        let mut mismatch = None;
        for (file, mut wanted) in missing.iter().zip(wanted) {
            let part = wanted.chunks.part.clone();
            if let Some(digest) = &file.digest {
                let progress = &mut *self.progress;
                let found = digest.compute(&part, &mut |bytes| {
                    done += bytes;
                    progress(Progress::Verifying { done, total });
                })?;
                if found != digest.text() {
                    wanted.chunks.clear()?;
                    mismatch = Some(HubError::Mismatch {
                        what: self.reference.to_string(),
                        file: file.name.clone(),
                        expected: digest.text().to_owned(),
                        found,
                    });
                    continue;
                }
            }
            // Synced before the rename: a file name without the bytes would be trusted.
            std::fs::OpenOptions::new()
                .write(true)
                .open(&part)
                .and_then(|file| file.sync_all())
                .map_err(HubError::disk(&part))?;
            std::fs::rename(&part, files.join(&file.name)).map_err(HubError::disk(&part))?;
            wanted.chunks.close();
        }
        Ok(mismatch)
    }

    fn address(&self, plan: &Plan, file: &Planned) -> String {
        match self.reference {
            Reference::Hub { owner, repo, .. } => file_address(
                self.client.endpoint(),
                &format!("{owner}/{repo}"),
                &plan.version,
                &file.from,
            ),
            _ => file.from.clone(),
        }
    }
}

/// Free bytes on the file system of `folder`; `None` if unknown.
#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let found = rustix::fs::statvfs(folder.as_os_str().as_bytes()).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The same on Windows, by the system's own function.
#[cfg(windows)]
fn free_bytes(folder: &Path) -> Option<u64> {
    use std::os::windows::ffi::OsStrExt;
    use std::ptr::null_mut;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetDiskFreeSpaceExW(
            folder: *const u16,
            available: *mut u64,
            total: *mut u64,
            free: *mut u64,
        ) -> i32;
    }
    let folder: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let mut available = 0;
    // SAFETY: the path ends with a zero, one number is written, and null asks for no other.
    let found =
        unsafe { GetDiskFreeSpaceExW(folder.as_ptr(), &raw mut available, null_mut(), null_mut()) };
    (found != 0).then_some(available)
}

/// Unknown here: a full disk is reported when a write fails.
#[cfg(not(any(unix, windows)))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

fn same_files(a: &Plan, b: &Plan) -> bool {
    let of = |plan: &Plan| {
        plan.files
            .iter()
            .map(|file| (file.name.clone(), file.bytes))
            .collect::<Vec<_>>()
    };
    of(a) == of(b)
}

fn missing_bytes(wanted: &[Wanted]) -> u64 {
    wanted
        .iter()
        .map(|file| file.chunks.bytes - file.chunks.bytes_done())
        .sum()
}

/// Returns whether a file has its final name, which it gets once verified.
fn is_there(files: &Path, file: &Planned) -> bool {
    std::fs::symlink_metadata(files.join(&file.name))
        .is_ok_and(|found| found.is_file() && found.len() == file.bytes)
}
