//! From a reference to a path: what is stored is used, what is missing is downloaded and checked.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::address::shown;
use crate::cache::{Cache, Place, files_in, plan_in};
use crate::chunks::Chunks;
use crate::client::Client;
use crate::digest::Digest;
use crate::download::{Line, Wanted, download};
use crate::error::HubError;
use crate::listing::Asker;
use crate::lock::Lock;
use crate::options::Options;
use crate::plan::{Plan, Planned};
use crate::progress::Progress;
use crate::reference::Reference;
use crate::repository::address_of;
use crate::retry::Patience;
use crate::stored::bytes_in;

/// How often the hub is asked what there is before a download begins.
const QUESTIONS: u32 = 3;

/// How often a file that changes under way is begun anew.
const BEGINNINGS: u32 = 3;

/// The path of a model: a GGUF file (of several the first) or a Hugging Face folder. What is stored
/// is used without any request; what is not is downloaded, and used once every digest is right.
///
/// `progress` hears how it goes; `cancel` ends it, and what is finished stays.
///
/// # Errors
/// [`HubError`], whose messages say what to do next.
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
    let place = cache
        .place(reference)
        .ok_or_else(|| nonsense(reference, "it is no reference to a model"))?;
    if !options.update
        && let Some((path, _)) = place.usable()
    {
        return Ok(path);
    }
    let _lock = Lock::take(&place.lock, cancel, || progress(Progress::Waiting))?;
    // Whoever held the lock has most likely brought the model.
    let stored = place.usable();
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
    );
    let patience = Patience {
        attempts: options.attempts.max(1),
        pause: options.pause,
    };
    let mut fetching = Fetching {
        reference,
        cache,
        place: &place,
        options,
        patience: &patience,
        client: &client,
        progress,
        cancel,
    };
    for _ in 0..BEGINNINGS {
        let (plan, resumed) = fetching.plan()?;
        if let Some((path, stored)) = &stored
            && stored.version == plan.version
        {
            place.forget()?;
            return Ok(path.clone());
        }
        match fetching.complete(&plan) {
            // A commit may be gone from the hub since the download began; a file may have changed.
            Err(HubError::Changed { .. }) => place.forget()?,
            Err(error @ HubError::NotThere { .. }) if resumed => {
                if fetching.asked()?.version == plan.version {
                    return Err(error);
                }
                place.forget()?;
            }
            outcome => {
                // Of what has nothing finished nothing is left: the next try asks what there is by
                // then.
                if outcome.is_err() && bytes_in(&place.part) == 0 {
                    place.forget()?;
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
    // OWNER/REPO or OWNER/REPO/FILE.gguf, as hubs write them.
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
    place: &'a Place,
    options: &'a Options,
    patience: &'a Patience,
    client: &'a Client,
    progress: &'a mut dyn FnMut(Progress),
    cancel: &'a AtomicBool,
}

impl Fetching<'_> {
    /// What to fetch, and whether that was begun before. A begun download of a hub's model stays
    /// with its commit; of an address nothing but its answer tells whether it is still the same
    /// file.
    fn plan(&mut self) -> Result<(Plan, bool), HubError> {
        let begun = self.place.begun();
        let pinned = matches!(self.reference, Reference::Hub { .. }) && !self.options.update;
        if let Some(plan) = begun.as_ref().filter(|_| pinned) {
            return Ok((plan.clone(), true));
        }
        let plan = self.asked()?;
        if begun.is_some_and(|begun| begun.version == plan.version && same_files(&begun, &plan)) {
            return Ok((plan, true));
        }
        self.place.forget()?;
        Ok((plan, false))
    }

    /// What there is now.
    fn asked(&mut self) -> Result<Plan, HubError> {
        // A question has nothing to lose: without a network it should not take long to say so.
        let questions = Patience {
            attempts: self.patience.attempts.min(QUESTIONS),
            ..self.patience.clone()
        };
        let mut asker = Asker {
            client: self.client,
            patience: &questions,
            progress: self.progress,
            cancel: self.cancel,
        };
        asker.plan(self.reference)
    }

    fn complete(&mut self, plan: &Plan) -> Result<PathBuf, HubError> {
        let files = files_in(&self.place.part);
        std::fs::create_dir_all(&files).map_err(HubError::disk(&files))?;
        plan.write(&plan_in(&self.place.part))?;
        self.adopt(plan, &files)?;
        for last in [false, true] {
            let missing: Vec<&Planned> = plan
                .files
                .iter()
                .filter(|file| !is_there(&files, file))
                .collect();
            let mut wanted = self.resume(&files, plan, &missing)?;
            self.room(&wanted)?;
            let complete = plan
                .files
                .iter()
                .filter(|file| is_there(&files, file))
                .map(|file| file.bytes)
                .sum();
            let line = Line {
                client: self.client,
                patience: self.patience,
                connections: self.options.connections,
                cancel: self.cancel,
                total: plan.bytes(),
                complete,
            };
            download(&line, &mut wanted, self.progress)
                .map_err(|error| self.full(error, &wanted))?;
            match self.verify(&files, &missing, wanted)? {
                None => {
                    self.place.finish()?;
                    let stored = self.place.usable();
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

    /// Takes files over from other revisions of the model that are stored: a new commit often
    /// changes one of them.
    fn adopt(&self, plan: &Plan, files: &Path) -> Result<(), HubError> {
        let Ok(revisions) = std::fs::read_dir(&self.place.target) else {
            return Ok(());
        };
        for revision in revisions
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| *path != self.place.part)
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
                    // A second name for the same bytes; where the file system has none, it is
                    // downloaded.
                    let _ = std::fs::hard_link(from, to);
                }
            }
        }
        Ok(())
    }

    /// The files to fetch, with what earlier downloads left of them, checked.
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

    /// Whether there is room for what is missing.
    fn room(&self, wanted: &[Wanted]) -> Result<(), HubError> {
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

    /// A disk that filled up under way, told as such.
    fn full(&self, error: HubError, wanted: &[Wanted]) -> HubError {
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

    /// Checks the files that have arrived and gives them their names. A file that is wrong is
    /// removed, and told.
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
            let part = wanted.chunks.part().to_owned();
            if let Some(digest) = &file.digest {
                let progress = &mut *self.progress;
                let found = digest.of_file(&part, &mut |bytes| {
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
            // On the disk before its name says that it is whole: a name without bytes would be
            // believed.
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
            Reference::Hub { owner, repo, .. } => address_of(
                self.client.endpoint(),
                &format!("{owner}/{repo}"),
                &plan.version,
                &file.from,
            ),
            _ => file.from.clone(),
        }
    }
}

/// Bytes that may still be written where `folder` is; `None` where that can't be asked.
#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let found = rustix::fs::statvfs(folder.as_os_str().as_bytes()).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Unknown before: a full disk is told when it is full.
#[cfg(not(unix))]
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
        .map(|file| file.chunks.bytes() - file.chunks.bytes_done())
        .sum()
}

/// Whether a file has its name already, which it gets when it is whole and checked.
fn is_there(files: &Path, file: &Planned) -> bool {
    std::fs::symlink_metadata(files.join(&file.name))
        .is_ok_and(|found| found.is_file() && found.len() == file.bytes)
}
