//! Download worker: fetches chunks by ranges, or a file as one stream.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::chunks;
use crate::client::{Answer, describe_io};
use crate::digest::Sha256;
use crate::download::{Context, Wanted};
use crate::error::HubError;
use crate::retry::{Failures, RequestError, wait};

/// Responses in a row that ignore the range before the file is streamed instead.
pub(crate) const MAX_IGNORED_RANGES: u32 = 3;

/// The workers' view of a file.
pub(crate) struct Remote<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) part: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) size: u64,
    pub(crate) done: Vec<AtomicBool>,
    pub(crate) ignored: AtomicU32,
    /// Held while the file is streamed.
    pub(crate) stream: Mutex<()>,
}

/// A chunk as far as it was fetched.
struct Filled {
    part: File,
    digest: Sha256,
    /// Offset in the file of the next byte.
    at: u64,
}

pub(crate) enum Event {
    Arrived(u64),
    Lost(u64),
    Finished {
        file: usize,
        index: u64,
        digest: String,
    },
    Trouble {
        what: String,
        wait: Duration,
    },
    Failed(HubError),
}

/// Takes jobs, one chunk of a file each, until none are left.
pub(crate) struct Worker<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) remotes: &'a [Remote<'a>],
    pub(crate) jobs: &'a Mutex<VecDeque<(usize, u64)>>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) events: Sender<Event>,
}

impl Worker<'_> {
    /// Works until no jobs are left or one fails.
    pub(crate) fn run(&self) {
        loop {
            let job = self
                .jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some((file, index)) = job.filter(|_| !self.stopped()) else {
                return;
            };
            if let Err(error) = self.chunk(file, index) {
                self.stop.store(true, Ordering::Relaxed);
                self.send(Event::Failed(error));
                return;
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Can't fail: the receiver outlives the workers.
    fn send(&self, event: Event) {
        let _ = self.events.send(event);
    }

    fn pause(&self, failures: &mut Failures<'_>, trouble: RequestError) -> Result<(), HubError> {
        let (pause, what) = failures.next(trouble)?;
        self.send(Event::Trouble { what, wait: pause });
        if wait(pause, self.stop) {
            Ok(())
        } else {
            Err(HubError::Stopped)
        }
    }

    fn chunk(&self, file: usize, index: u64) -> Result<(), HubError> {
        let remote = &self.remotes[file];
        let range = chunks::range(index, remote.size, remote.bytes);
        let mut filled = Filled {
            part: open(remote)?,
            digest: Sha256::new(),
            at: range.start,
        };
        let mut failures = Failures::new(self.context.policy, &remote.wanted.shown);
        while filled.at < range.end {
            if self.stopped() {
                return Err(HubError::Stopped);
            }
            if remote.ignored.load(Ordering::Relaxed) >= MAX_IGNORED_RANGES {
                self.send(Event::Lost(filled.at - range.start));
                return self.whole(file, index, &mut filled.part);
            }
            let before = filled.at;
            let outcome = self.ranged(remote, &mut filled, range.end);
            if filled.at > before {
                failures.reset();
            }
            match outcome {
                Ok(()) => {}
                Err(RequestError::NoRanges)
                    if remote.ignored.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_IGNORED_RANGES => {
                }
                Err(trouble) => self.pause(&mut failures, trouble)?,
            }
        }
        self.finish(file, index, filled.digest);
        Ok(())
    }

    /// Fetches the bytes up to `end` of a file that `filled` lacks.
    fn ranged(
        &self,
        remote: &Remote<'_>,
        filled: &mut Filled,
        end: u64,
    ) -> Result<(), RequestError> {
        let at = filled.at;
        let answer = self.context.client.get(
            &remote.wanted.address,
            Some(&(at..end)),
            remote.wanted.tag.as_deref(),
        )?;
        same_file(&answer, remote)?;
        match (answer.status, answer.content_range().0) {
            (206, Some(range)) if range.start == at && range.end > at && range.end <= end => {
                remote.ignored.store(0, Ordering::Relaxed);
                self.pour(answer, range.end, filled, remote)
            }
            (206, _) => Err(RequestError::Passing(
                "the server sends another range than asked for".to_owned(),
            )),
            _ => Err(RequestError::NoRanges),
        }
    }

    /// Writes a response body up to `end` of the file.
    fn pour(
        &self,
        answer: Answer,
        end: u64,
        Filled { part, digest, at }: &mut Filled,
        remote: &Remote<'_>,
    ) -> Result<(), RequestError> {
        let mut body = answer.body.into_reader();
        let mut piece = vec![0; 1 << 16];
        let disk = |error| RequestError::Final(HubError::disk(&remote.part)(error));
        part.seek(SeekFrom::Start(*at)).map_err(disk)?;
        while *at < end {
            if self.stopped() {
                return Err(HubError::Stopped.into());
            }
            let most = usize::try_from(end - *at)
                .unwrap_or(piece.len())
                .min(piece.len());
            match body.read(&mut piece[..most]) {
                Ok(0) => return Err(RequestError::Passing("the connection broke".to_owned())),
                Ok(count) => {
                    part.write_all(&piece[..count]).map_err(disk)?;
                    digest.update(&piece[..count]);
                    *at += count as u64;
                    self.send(Event::Arrived(count as u64));
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RequestError::Passing(describe_io(&error))),
            }
        }
        // Reads to the end of the body; otherwise the connection can't be reused.
        let _ = body.read(&mut piece[..1]);
        Ok(())
    }

    /// Fetches a file as one stream, for servers without ranges. Finished chunks are skipped.
    fn whole(&self, file: usize, index: u64, out: &mut File) -> Result<(), HubError> {
        let remote = &self.remotes[file];
        let _one = remote.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failures = Failures::new(self.context.policy, &remote.wanted.shown);
        let has = |index: usize| remote.done[index].load(Ordering::Relaxed);
        // Another worker may have streamed the file meanwhile.
        while !usize::try_from(index).is_ok_and(has) || !(0..remote.done.len()).all(has) {
            if self.stopped() {
                return Err(HubError::Stopped);
            }
            let before = (0..remote.done.len()).filter(|&index| has(index)).count();
            let Err(trouble) = self.stream(file, out) else {
                continue;
            };
            if (0..remote.done.len()).filter(|&index| has(index)).count() > before {
                failures.reset();
            }
            self.pause(&mut failures, trouble)?;
        }
        Ok(())
    }

    fn stream(&self, file: usize, out: &mut File) -> Result<(), RequestError> {
        let remote = &self.remotes[file];
        let answer = self
            .context
            .client
            .get(&remote.wanted.address, None, None)?;
        if answer.status != 200 {
            return Err(RequestError::Passing(
                "the server says that the file is shorter than it was listed".to_owned(),
            ));
        }
        same_file(&answer, remote)?;
        let mut body = answer.body.into_reader();
        let mut piece = vec![0; 1 << 16];
        let disk = |error| RequestError::Final(HubError::disk(&remote.part)(error));
        for index in 0..remote.done.len() as u64 {
            let Range { start, end } = chunks::range(index, remote.size, remote.bytes);
            let slot = usize::try_from(index).unwrap_or(usize::MAX);
            let there = remote.done[slot].load(Ordering::Relaxed);
            let mut digest = Sha256::new();
            let mut at = start;
            out.seek(SeekFrom::Start(at)).map_err(disk)?;
            while at < end {
                if self.stopped() {
                    return Err(HubError::Stopped.into());
                }
                let most = usize::try_from(end - at)
                    .unwrap_or(piece.len())
                    .min(piece.len());
                let broken = match body.read(&mut piece[..most]) {
                    Ok(0) => "the connection broke".to_owned(),
                    Ok(count) => {
                        at += count as u64;
                        if !there {
                            out.write_all(&piece[..count]).map_err(disk)?;
                            digest.update(&piece[..count]);
                            self.send(Event::Arrived(count as u64));
                        }
                        continue;
                    }
                    Err(error) => describe_io(&error),
                };
                if !there {
                    self.send(Event::Lost(at - start));
                }
                return Err(RequestError::Passing(format!(
                    "{broken}, and the server can't go on from there"
                )));
            }
            if !there {
                self.finish(file, index, digest);
            }
        }
        // A longer file is a different one; if a digest is known, it decides.
        match body.read(&mut piece[..1]) {
            Ok(1) if !remote.wanted.digested => Err(RequestError::Changed),
            _ => Ok(()),
        }
    }

    fn finish(&self, file: usize, index: u64, digest: Sha256) {
        if let Some(done) = usize::try_from(index)
            .ok()
            .and_then(|index| self.remotes[file].done.get(index))
        {
            done.store(true, Ordering::Relaxed);
        }
        self.send(Event::Finished {
            file,
            index,
            digest: digest.finish(),
        });
    }
}

/// Fails if the file is not the listed one. Where a digest is known, sizes and tags only cause a
/// retry.
fn same_file(answer: &Answer, remote: &Remote<'_>) -> Result<(), RequestError> {
    let size = answer.size().filter(|&size| size != remote.bytes);
    let tag = remote.wanted.tag.as_deref().zip(answer.tag());
    match (size, remote.wanted.digested) {
        (Some(size), true) => Err(RequestError::Passing(format!(
            "the server says that the file has {size} bytes instead of {}",
            remote.bytes
        ))),
        (Some(_), false) => Err(RequestError::Changed),
        (None, _) if tag.is_some_and(|(ours, theirs)| ours != theirs) => Err(RequestError::Changed),
        (None, _) => Ok(()),
    }
}

fn open(remote: &Remote<'_>) -> Result<File, HubError> {
    // One handle per worker: each has its own position in the file.
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&remote.part)
        .map_err(HubError::disk(&remote.part))
}
