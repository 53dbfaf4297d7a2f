//! Fetches the chunks that are missing, several at a time, each written where it belongs.
//!
//! Workers fetch; the caller's thread alone writes the record of what is finished and tells of it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::chunks::{self, Chunks};
use crate::client::{Answer, Client, of_line};
use crate::digest::Sha256;
use crate::error::HubError;
use crate::progress::{Progress, Rate};
use crate::retry::{Failures, Patience, Trouble, wait};

/// How often progress is told, and a wish to stop heard.
const TICK: Duration = Duration::from_millis(200);

/// Answers in a row that ignore the range, after which the server is taken at its word.
const IGNORED: u32 = 3;

/// A file to be fetched, as far as it is not there.
pub(crate) struct Wanted {
    /// Where it is.
    pub(crate) address: String,
    /// The address for people.
    pub(crate) shown: String,
    /// A strong entity tag that makes ranges conditional.
    pub(crate) tag: Option<String>,
    /// Whether the server is known to ignore ranges.
    pub(crate) no_ranges: bool,
    /// What is there.
    pub(crate) chunks: Chunks,
}

/// What all of a download shares.
pub(crate) struct Line<'a> {
    pub(crate) client: &'a Client,
    pub(crate) patience: &'a Patience,
    pub(crate) connections: usize,
    pub(crate) cancel: &'a AtomicBool,
    /// The bytes of the whole model, and those of files that are complete.
    pub(crate) total: u64,
    pub(crate) complete: u64,
}

/// The workers' view of a file.
struct Remote<'a> {
    wanted: &'a Wanted,
    part: PathBuf,
    bytes: u64,
    size: u64,
    done: Vec<AtomicBool>,
    ignored: AtomicU32,
    /// Held while the file comes in one stream.
    stream: Mutex<()>,
}

/// What a worker tells.
enum News {
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

/// Fetches what is missing of the files.
///
/// # Errors
/// The first failure that no further try would change; what is finished is recorded by then.
pub(crate) fn download(
    line: &Line<'_>,
    files: &mut [Wanted],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), HubError> {
    let mut records: Vec<Chunks> = Vec::new();
    let mut remotes = Vec::new();
    for wanted in &*files {
        let chunks = &wanted.chunks;
        remotes.push(Remote {
            wanted,
            part: chunks.part().to_owned(),
            bytes: chunks.bytes(),
            size: chunks.size(),
            done: (0..chunks.count())
                .map(|index| AtomicBool::new(chunks.has(index)))
                .collect(),
            ignored: AtomicU32::new(if wanted.no_ranges { IGNORED } else { 0 }),
            stream: Mutex::new(()),
        });
        records.push(chunks.clone());
    }
    let jobs: VecDeque<(usize, u64)> = remotes
        .iter()
        .enumerate()
        .flat_map(|(file, remote)| {
            let missing =
                (0..remote.done.len()).filter(|&index| !remote.done[index].load(Ordering::Relaxed));
            // One worker brings all of a file that comes as one stream.
            let most = if remote.wanted.no_ranges {
                1
            } else {
                usize::MAX
            };
            missing.take(most).map(move |index| (file, index as u64))
        })
        .collect();
    let workers = line.connections.clamp(1, 16).min(jobs.len());
    let jobs = Mutex::new(jobs);
    let stop = AtomicBool::new(false);
    let (news, told) = channel();

    let outcome = std::thread::scope(|scope| {
        for _ in 0..workers {
            let worker = Worker {
                line,
                remotes: &remotes,
                jobs: &jobs,
                stop: &stop,
                news: news.clone(),
            };
            scope.spawn(move || worker.run());
        }
        drop(news);
        let mut rate = Rate::start();
        let mut loaded = line.complete + records.iter().map(Chunks::bytes_done).sum::<u64>();
        let mut failure = None;
        let mut next = Instant::now();
        loop {
            let mut fail = |error| {
                stop.store(true, Ordering::Relaxed);
                // The first failure is the cause of the others.
                failure.get_or_insert(error);
            };
            match told.recv_timeout(TICK) {
                Ok(News::Arrived(bytes)) => {
                    rate.add(bytes);
                    loaded += bytes;
                }
                Ok(News::Lost(bytes)) => loaded = loaded.saturating_sub(bytes),
                Ok(News::Finished {
                    file,
                    index,
                    digest,
                }) => {
                    if let Err(error) = records[file].add(index, digest) {
                        fail(error);
                    }
                }
                Ok(News::Trouble { what, wait }) => progress(Progress::Trouble { what, wait }),
                Ok(News::Failed(error)) => fail(error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if line.cancel.load(Ordering::Relaxed) {
                fail(HubError::Stopped);
            }
            if Instant::now() >= next {
                next = Instant::now() + TICK;
                let (rate, seconds_left) = rate.now(line.total.saturating_sub(loaded));
                progress(Progress::Downloading {
                    loaded,
                    total: line.total,
                    rate,
                    seconds_left,
                });
            }
        }
        failure.map_or(Ok(loaded), Err)
    });
    drop(remotes);
    for (wanted, record) in files.iter_mut().zip(records) {
        wanted.chunks = record;
    }
    let loaded = outcome?;
    progress(Progress::Downloading {
        loaded,
        total: line.total,
        rate: 0.0,
        seconds_left: Some(0),
    });
    Ok(())
}

struct Worker<'a> {
    line: &'a Line<'a>,
    remotes: &'a [Remote<'a>],
    jobs: &'a Mutex<VecDeque<(usize, u64)>>,
    stop: &'a AtomicBool,
    news: Sender<News>,
}

impl Worker<'_> {
    fn run(&self) {
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
                self.tell(News::Failed(error));
                return;
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The receiver lives as long as the workers.
    fn tell(&self, news: News) {
        let _ = self.news.send(news);
    }

    fn pause(&self, failures: &mut Failures<'_>, trouble: Trouble) -> Result<(), HubError> {
        let (pause, what) = failures.next(trouble)?;
        self.tell(News::Trouble { what, wait: pause });
        if wait(pause, self.stop) {
            Ok(())
        } else {
            Err(HubError::Stopped)
        }
    }

    fn chunk(&self, file: usize, index: u64) -> Result<(), HubError> {
        let remote = &self.remotes[file];
        let range = chunks::range(index, remote.size, remote.bytes);
        let mut out = open(remote)?;
        let mut digest = Sha256::new();
        let mut at = range.start;
        let mut failures = Failures::none(self.line.patience, &remote.wanted.shown);
        while at < range.end {
            if self.stopped() {
                return Err(HubError::Stopped);
            }
            if remote.ignored.load(Ordering::Relaxed) >= IGNORED {
                self.tell(News::Lost(at - range.start));
                return self.whole(file, index, &mut out);
            }
            let before = at;
            let outcome = self.ranged(remote, &mut at, range.end, &mut digest, &mut out);
            if at > before {
                failures.forget();
            }
            match outcome {
                Ok(()) => {}
                Err(Trouble::NoRanges)
                    if remote.ignored.fetch_add(1, Ordering::Relaxed) + 1 >= IGNORED => {}
                Err(trouble) => self.pause(&mut failures, trouble)?,
            }
        }
        self.finish(file, index, digest);
        Ok(())
    }

    /// Fetches `at..end` of a file, and moves `at` with what arrived.
    fn ranged(
        &self,
        remote: &Remote<'_>,
        at: &mut u64,
        end: u64,
        digest: &mut Sha256,
        out: &mut File,
    ) -> Result<(), Trouble> {
        let answer = self.line.client.get(
            &remote.wanted.address,
            Some(&(*at..end)),
            remote.wanted.tag.as_deref(),
        )?;
        let (range, whole) = answer.content_range();
        if whole.is_some_and(|whole| whole != remote.bytes) {
            return Err(Trouble::Changed);
        }
        match (answer.status, range) {
            (206, Some(range)) if range.start == *at && range.end > *at && range.end <= end => {
                remote.ignored.store(0, Ordering::Relaxed);
                self.pour(answer, range.end, at, digest, out, remote)
            }
            (206, _) => Err(Trouble::Passing(
                "the server sends another range than asked for".to_owned(),
            )),
            (200, _) => Err(whole_or_changed(&answer, remote)),
            _ => Err(Trouble::NoRanges),
        }
    }

    /// Writes what an answer brings, up to `end`.
    fn pour(
        &self,
        answer: Answer,
        end: u64,
        at: &mut u64,
        digest: &mut Sha256,
        out: &mut File,
        remote: &Remote<'_>,
    ) -> Result<(), Trouble> {
        let mut body = answer.body.into_reader();
        let mut piece = vec![0; 1 << 16];
        let disk = |error| Trouble::Final(HubError::disk(&remote.part)(error));
        out.seek(SeekFrom::Start(*at)).map_err(disk)?;
        while *at < end {
            if self.stopped() {
                return Err(HubError::Stopped.into());
            }
            let most = usize::try_from(end - *at)
                .unwrap_or(piece.len())
                .min(piece.len());
            match body.read(&mut piece[..most]) {
                Ok(0) => return Err(Trouble::Passing("the line broke".to_owned())),
                Ok(count) => {
                    out.write_all(&piece[..count]).map_err(disk)?;
                    digest.update(&piece[..count]);
                    *at += count as u64;
                    self.tell(News::Arrived(count as u64));
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::Passing(of_line(&error))),
            }
        }
        // To the very end, or the connection can't be used again.
        let _ = body.read(&mut piece[..1]);
        Ok(())
    }

    /// Fetches a file as one stream, for servers that know no ranges. Chunks that are there are passed over.
    fn whole(&self, file: usize, index: u64, out: &mut File) -> Result<(), HubError> {
        let remote = &self.remotes[file];
        let _one = remote.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failures = Failures::none(self.line.patience, &remote.wanted.shown);
        let has = |index: usize| remote.done[index].load(Ordering::Relaxed);
        // Another worker may have streamed the file while this one waited.
        while !usize::try_from(index).is_ok_and(has) || !(0..remote.done.len()).all(has) {
            if self.stopped() {
                return Err(HubError::Stopped);
            }
            let before = (0..remote.done.len()).filter(|&index| has(index)).count();
            let Err(trouble) = self.stream(file, out) else {
                continue;
            };
            if (0..remote.done.len()).filter(|&index| has(index)).count() > before {
                failures.forget();
            }
            self.pause(&mut failures, trouble)?;
        }
        Ok(())
    }

    fn stream(&self, file: usize, out: &mut File) -> Result<(), Trouble> {
        let remote = &self.remotes[file];
        let answer = self.line.client.get(&remote.wanted.address, None, None)?;
        if answer.status != 200 || !matches!(whole_or_changed(&answer, remote), Trouble::NoRanges) {
            return Err(Trouble::Changed);
        }
        let mut body = answer.body.into_reader();
        let mut piece = vec![0; 1 << 16];
        let disk = |error| Trouble::Final(HubError::disk(&remote.part)(error));
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
                    Ok(0) => "the line broke".to_owned(),
                    Ok(count) => {
                        at += count as u64;
                        if !there {
                            out.write_all(&piece[..count]).map_err(disk)?;
                            digest.update(&piece[..count]);
                            self.tell(News::Arrived(count as u64));
                        }
                        continue;
                    }
                    Err(error) => of_line(&error),
                };
                if !there {
                    self.tell(News::Lost(at - start));
                }
                return Err(Trouble::Passing(format!(
                    "{broken}, and the server can't go on from there"
                )));
            }
            if !there {
                self.finish(file, index, digest);
            }
        }
        Ok(())
    }

    fn finish(&self, file: usize, index: u64, digest: Sha256) {
        if let Some(done) = usize::try_from(index)
            .ok()
            .and_then(|index| self.remotes[file].done.get(index))
        {
            done.store(true, Ordering::Relaxed);
        }
        self.tell(News::Finished {
            file,
            index,
            digest: digest.finish(),
        });
    }
}

/// What a whole file instead of a range means.
fn whole_or_changed(answer: &Answer, remote: &Remote<'_>) -> Trouble {
    let other_tag = remote
        .wanted
        .tag
        .as_deref()
        .zip(answer.tag())
        .is_some_and(|(ours, theirs)| ours != theirs);
    let other_length = answer.length().is_some_and(|length| length != remote.bytes);
    if other_tag || other_length {
        Trouble::Changed
    } else {
        Trouble::NoRanges
    }
}

fn open(remote: &Remote<'_>) -> Result<File, HubError> {
    // A handle a worker: each has a place of its own in the file.
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&remote.part)
        .map_err(HubError::disk(&remote.part))
}
