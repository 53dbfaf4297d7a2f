//! Fetches missing chunks in parallel and writes each at its offset.
//!
//! Workers fetch; only the caller's thread writes the record of finished chunks and reports
//! progress.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::chunks::Chunks;
use crate::client::Client;
use crate::error::HubError;
use crate::progress::{Progress, Rate};
use crate::retry::RetryPolicy;
use crate::worker::{Event, MAX_IGNORED_RANGES, Remote, Worker};

/// Interval at which progress is reported and cancellation checked.
const INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Wanted {
    pub(crate) address: String,
    pub(crate) shown: String,
    /// Strong entity tag or date for `If-Range`.
    pub(crate) tag: Option<String>,
    /// Whether a digest of the whole file is known.
    pub(crate) digested: bool,
    /// Whether the server is known to ignore ranges.
    pub(crate) no_ranges: bool,
    pub(crate) chunks: Chunks,
}

/// State shared by the files of one download.
pub(crate) struct Context<'a> {
    pub(crate) client: &'a Client,
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) connections: usize,
    pub(crate) cancel: &'a AtomicBool,
    /// Size of the whole model, and the size of its complete files.
    pub(crate) total: u64,
    pub(crate) complete: u64,
}

/// Fetches the missing chunks.
///
/// # Errors
/// The first permanent failure; finished chunks are recorded.
pub(crate) fn download(
    context: &Context<'_>,
    files: &mut [Wanted],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), HubError> {
    let mut records: Vec<Chunks> = Vec::new();
    let mut remotes = Vec::new();
    for wanted in &*files {
        let chunks = &wanted.chunks;
        remotes.push(Remote {
            wanted,
            part: chunks.part.clone(),
            bytes: chunks.bytes,
            size: chunks.size,
            done: (0..chunks.count())
                .map(|index| AtomicBool::new(chunks.has(index)))
                .collect(),
            ignored: AtomicU32::new(if wanted.no_ranges {
                MAX_IGNORED_RANGES
            } else {
                0
            }),
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
            // A file that comes as one stream needs one worker.
            let most = if remote.wanted.no_ranges {
                1
            } else {
                usize::MAX
            };
            missing.take(most).map(move |index| (file, index as u64))
        })
        .collect();
    let workers = context.connections.clamp(1, 16).min(jobs.len());
    let jobs = Mutex::new(jobs);
    let stop = AtomicBool::new(false);
    let (events, received) = channel();

    let outcome = std::thread::scope(|scope| {
        for _ in 0..workers {
            let worker = Worker {
                context,
                remotes: &remotes,
                jobs: &jobs,
                stop: &stop,
                events: events.clone(),
            };
            scope.spawn(move || worker.run());
        }
        drop(events);
        let mut rate = Rate::start();
        let mut loaded = context.complete + records.iter().map(Chunks::bytes_done).sum::<u64>();
        let mut failure = None;
        let mut next = Instant::now();
        loop {
            let mut fail = |error| {
                stop.store(true, Ordering::Relaxed);
                // Later failures follow from the first.
                failure.get_or_insert(error);
            };
            match received.recv_timeout(INTERVAL) {
                Ok(Event::Arrived(bytes)) => {
                    rate.add(bytes);
                    loaded += bytes;
                }
                Ok(Event::Lost(bytes)) => loaded = loaded.saturating_sub(bytes),
                Ok(Event::Finished {
                    file,
                    index,
                    digest,
                }) => {
                    if let Err(error) = records[file].add(index, digest) {
                        fail(error);
                    }
                }
                Ok(Event::Trouble { what, wait }) => progress(Progress::Trouble { what, wait }),
                Ok(Event::Failed(error)) => fail(error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if context.cancel.load(Ordering::Relaxed) {
                fail(HubError::Stopped);
            }
            if Instant::now() >= next {
                next = Instant::now() + INTERVAL;
                let (rate, seconds_left) = rate.now(context.total.saturating_sub(loaded));
                progress(Progress::Downloading {
                    loaded,
                    total: context.total,
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
        total: context.total,
        rate: 0.0,
        seconds_left: Some(0),
    });
    Ok(())
}
