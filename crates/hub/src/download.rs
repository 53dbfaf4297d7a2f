//! Fetches the chunks that are missing, several at a time, each written where it belongs.
//!
//! Workers fetch; the caller's thread alone writes the record of what is finished and tells of it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::chunks::Chunks;
use crate::client::Client;
use crate::error::HubError;
use crate::progress::{Progress, Rate};
use crate::retry::Patience;
use crate::worker::{IGNORED, News, Remote, Worker};

/// How often progress is told, and a wish to stop heard.
const TICK: Duration = Duration::from_millis(200);

/// A file to be fetched, as far as it is not there.
pub(crate) struct Wanted {
    /// Where it is.
    pub(crate) address: String,
    /// The address for people.
    pub(crate) shown: String,
    /// A strong entity tag or a date, which makes ranges conditional.
    pub(crate) tag: Option<String>,
    /// Whether a digest tells in the end that it is the right file.
    pub(crate) digested: bool,
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
