//! Where a thread that has work to share meets those that help it.

use std::cell::{RefCell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::yield_now;

/// Multiplications below which handing work over costs more than it saves: some microseconds.
const LEAST: usize = 1 << 16;

/// Looks at what is offered before other processes' threads may run: some ten microseconds.
const LOOKS: u32 = 1 << 10;

/// Set in [`Desk::inside`] while nothing is offered.
const CLOSED: usize = 1 << (usize::BITS - 1);

thread_local! {
    /// Where work is offered to those that help this thread.
    static DESK: RefCell<Option<Arc<Desk>>> = const { RefCell::new(None) };
}

/// What is done with a part.
type Part<'a> = dyn Fn(usize) + Sync + 'a;

/// Where one thread offers work and others take it, part by part.
pub(super) struct Desk {
    threads: usize,
    /// What is offered: read by those inside, written while it is closed and nobody is.
    work: UnsafeCell<Option<&'static Part<'static>>>,
    parts: AtomicUsize,
    next: AtomicUsize,
    /// How often something was offered.
    offers: AtomicUsize,
    /// How many help, and whether it is closed.
    inside: AtomicUsize,
    /// Nothing more will be offered.
    ended: AtomicBool,
}

// SAFETY: `work` is written by the thread that offers, while all others stay out; see `offer`.
unsafe impl Sync for Desk {}

/// Somebody who helps, until it is dropped.
struct Inside<'a>(&'a Desk);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, SeqCst);
    }
}

/// Closes the desk and waits until nobody helps any more.
struct Offer<'a>(&'a Desk);

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

/// Lets those that help go home.
struct Ending(Arc<Desk>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended.store(true, SeqCst);
        DESK.set(None);
    }
}

fn wait(looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS) {
        yield_now();
    } else {
        std::hint::spin_loop();
    }
}

impl Desk {
    /// One that nothing was offered at yet, by one of so many threads.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads,
            work: UnsafeCell::new(None),
            parts: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            offers: AtomicUsize::new(0),
            inside: AtomicUsize::new(CLOSED),
            ended: AtomicBool::new(false),
        }
    }

    /// Whether the thread that calls works at one.
    pub(super) fn is_here() -> bool {
        DESK.with_borrow(Option::is_some)
    }

    /// From here on the thread that calls offers its work here, until what this returns is dropped.
    pub(super) fn open(self: &Arc<Self>) -> impl Drop + use<> {
        DESK.set(Some(Arc::clone(self)));
        Ending(Arc::clone(self))
    }

    /// Has all parts done, by the thread that calls and by whoever helps.
    fn offer(&self, parts: usize, work: &Part<'_>) {
        // SAFETY: the lifetime is only forgotten: `Offer` is dropped, panics or none, before `work`
        // goes, and then nobody is inside, who alone use it.
        let work: &'static Part<'static> = unsafe { std::mem::transmute(work) };
        // SAFETY: it is closed and nobody is inside, since the last `Offer` waited for that.
        unsafe { *self.work.get() = Some(work) };
        self.parts.store(parts, SeqCst);
        self.next.store(0, SeqCst);
        self.offers.fetch_add(1, SeqCst);
        let offer = Offer(self);
        self.inside.fetch_and(!CLOSED, SeqCst);
        self.take(work);
        drop(offer);
    }

    /// Does parts as long as there are any.
    fn take(&self, work: &Part<'_>) {
        loop {
            let part = self.next.fetch_add(1, SeqCst);
            if part >= self.parts.load(SeqCst) {
                return;
            }
            work(part);
        }
    }

    /// Helps with all that is offered, until the end.
    pub(super) fn help(&self) {
        let (mut seen, mut looks) = (0, 0);
        while !self.ended.load(SeqCst) {
            let offers = self.offers.load(SeqCst);
            if offers == seen {
                wait(&mut looks);
                continue;
            }
            let closed = self.inside.fetch_add(1, SeqCst) & CLOSED != 0;
            let inside = Inside(self);
            if !closed {
                // What is open now is that offer or a later one.
                seen = self.offers.load(SeqCst);
                // SAFETY: it was open when this came in, so that nobody writes until it is out.
                if let Some(work) = unsafe { *self.work.get() } {
                    self.take(work);
                }
            }
            drop(inside);
            if closed {
                wait(&mut looks);
            }
        }
    }
}

/// How many parts to divide so many multiplications into: one where nobody helps.
pub(crate) fn sharing(multiplications: usize) -> usize {
    let threads = DESK.with_borrow(|desk| desk.as_ref().map_or(1, |desk| desk.threads));
    if multiplications < LEAST { 1 } else { threads }
}

/// Does all parts, side by side where there are threads.
pub(crate) fn each<T: Send>(parts: impl Iterator<Item = T>, work: impl Fn(T) + Sync) {
    // What parts of parts there are, one thread does.
    let Some(desk) = DESK.take() else {
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
        count => desk.offer(count, &one),
    }
    DESK.set(Some(desk));
}
