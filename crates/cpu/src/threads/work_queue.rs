//! Work sharing between a thread and its helpers.

use std::cell::{RefCell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::yield_now;

/// Multiplications below which handing work over costs more than it saves: some microseconds.
const MIN_PARALLEL_WORK: usize = 1 << 16;

/// Polls of the queue before yielding to other processes' threads: some ten microseconds.
const SPIN_LIMIT: u32 = 1 << 10;

/// Set in [`WorkQueue::inside`] while nothing is offered.
const CLOSED: usize = 1 << (usize::BITS - 1);

thread_local! {
    /// The queue through which this thread offers work.
    static WORK_QUEUE: RefCell<Option<Arc<WorkQueue>>> = const { RefCell::new(None) };
}

/// A function of a part's index.
type Task<'a> = dyn Fn(usize) + Sync + 'a;

/// A queue where one thread offers work and others take it, part by part.
pub(super) struct WorkQueue {
    threads: usize,
    /// The offered work: read by threads inside, written while closed and empty of threads.
    work: UnsafeCell<Option<&'static Task<'static>>>,
    parts: AtomicUsize,
    next: AtomicUsize,
    /// Number of offers so far.
    offers: AtomicUsize,
    /// Number of threads inside, and the `CLOSED` bit.
    inside: AtomicUsize,
    /// Whether a helper has panicked.
    broken: AtomicBool,
}

// SAFETY: `work` is written by the offering thread while all others stay out; see `offer`.
unsafe impl Sync for WorkQueue {}

/// A helper's presence, until dropped.
struct Inside<'a>(&'a WorkQueue);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, SeqCst);
        }
        self.0.inside.fetch_sub(1, SeqCst);
    }
}

/// On drop, closes the queue and waits until all helpers have left.
struct Offer<'a>(&'a WorkQueue);

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_or(CLOSED, SeqCst);
        let mut looks = 0;
        while self.0.inside.load(SeqCst) != CLOSED {
            assert!(!super::is_broken(), "a thread that helped has ended");
            wait(&mut looks);
        }
    }
}

fn wait(looks: &mut u32) {
    *looks = looks.wrapping_add(1);
    if looks.is_multiple_of(SPIN_LIMIT) {
        yield_now();
    } else {
        std::hint::spin_loop();
    }
}

impl WorkQueue {
    /// An empty queue for one of `threads` threads.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads,
            work: UnsafeCell::new(None),
            parts: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            offers: AtomicUsize::new(0),
            inside: AtomicUsize::new(CLOSED),
            broken: AtomicBool::new(false),
        }
    }

    /// Number of threads that it is for.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Whether a helper has panicked.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(SeqCst)
    }

    /// Whether the calling thread offers work to a queue.
    pub(super) fn is_here() -> bool {
        WORK_QUEUE.with_borrow(Option::is_some)
    }

    /// Makes this the calling thread's queue.
    pub(super) fn open(self: &Arc<Self>) {
        WORK_QUEUE.set(Some(Arc::clone(self)));
    }

    /// Leaves the calling thread without a queue.
    pub(super) fn close() {
        WORK_QUEUE.set(None);
    }

    /// Runs all parts on the calling thread and its helpers.
    fn offer(&self, parts: usize, work: &Task<'_>) {
        // SAFETY: only the lifetime is forgotten: `Offer` is dropped, also on panic, before `work`
        // goes, and then no helper, the only users, is inside.
        let work: &'static Task<'static> = unsafe { std::mem::transmute(work) };
        // SAFETY: the queue is closed and empty of threads, as the last `Offer` waited for that.
        unsafe { *self.work.get() = Some(work) };
        self.parts.store(parts, SeqCst);
        self.next.store(0, SeqCst);
        self.offers.fetch_add(1, SeqCst);
        let offer = Offer(self);
        self.inside.fetch_and(!CLOSED, SeqCst);
        self.take(work);
        drop(offer);
        assert!(!self.is_broken(), "a thread that helped has panicked");
    }

    /// Runs parts until none is left.
    fn take(&self, work: &Task<'_>) {
        loop {
            let part = self.next.fetch_add(1, SeqCst);
            if part >= self.parts.load(SeqCst) {
                return;
            }
            work(part);
        }
    }

    /// Runs parts of every offer, until it `leaves`, which is asked after each, and, idle, whenever
    /// none has come for some ten microseconds. Called by a helper.
    pub(super) fn help(&self, mut leaves: impl FnMut(bool) -> bool) {
        let (mut seen, mut looks) = (0, 0);
        loop {
            let idle = self.offers.load(SeqCst) == seen || !self.take_open(&mut seen);
            if idle {
                wait(&mut looks);
            }
            if (!idle || looks.is_multiple_of(SPIN_LIMIT)) && leaves(idle) {
                return;
            }
        }
    }

    /// Runs parts of the open offer, whose number becomes the one `seen`; false if none is open.
    fn take_open(&self, seen: &mut usize) -> bool {
        // The first look changes nothing, so that many helpers do not disturb the offering thread.
        if self.inside.load(SeqCst) & CLOSED != 0 {
            return false;
        }
        let closed = self.inside.fetch_add(1, SeqCst) & CLOSED != 0;
        let _inside = Inside(self);
        if closed {
            return false;
        }
        // It is the one that the caller found, or a later one.
        *seen = self.offers.load(SeqCst);
        // SAFETY: it was open when this thread entered, so no one writes until it leaves.
        if let Some(work) = unsafe { *self.work.get() } {
            self.take(work);
        }
        true
    }
}

/// Number of parts to divide a task of that many multiplications into; 1 without helpers.
pub(crate) fn sharing(multiplications: usize) -> usize {
    let threads = WORK_QUEUE.with_borrow(|queue| queue.as_ref().map_or(1, |queue| queue.threads));
    if multiplications < MIN_PARALLEL_WORK {
        1
    } else {
        threads
    }
}

/// Runs `work` on all parts, in parallel where there are threads.
pub(crate) fn each<T: Send>(parts: impl Iterator<Item = T>, work: impl Fn(T) + Sync) {
    // Nested parallel sections run on the calling thread.
    let Some(queue) = WORK_QUEUE.take() else {
        return parts.for_each(work);
    };
    let parts: Vec<Mutex<Option<T>>> = parts.map(|part| Mutex::new(Some(part))).collect();
    let one = |index: usize| {
        let part = parts[index].lock().ok().and_then(|mut part| part.take());
        part.into_iter().for_each(&work);
    };
    match parts.len() {
        0 => {}
        1 => one(0),
        count => queue.offer(count, &one),
    }
    WORK_QUEUE.set(Some(queue));
}
