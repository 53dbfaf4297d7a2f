//! Threads that share work: natively as many as there are to be, in wasm the one there is.
//!
//! What runs within [`Threads::run`] is shared by them, product by product, and comes to the same numbers
//! as on one thread: only whole rows are divided. A product takes some ten microseconds, less than it
//! takes to wake a thread, so that those that help stay awake until [`Threads::run`] ends.

/// How many threads share what [`Threads::run`] is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(usize);

impl Threads {
    /// The one that calls.
    pub const ONE: Self = Self(1);

    /// So many with the one that calls; none count as one. In wasm it is that one always.
    pub const fn new(count: usize) -> Self {
        if cfg!(target_family = "wasm") || count == 0 {
            return Self::ONE;
        }
        Self(count)
    }

    /// How many there are.
    pub const fn count(self) -> usize {
        self.0
    }
}

#[cfg(not(target_family = "wasm"))]
pub(crate) use self::native::{each, sharing};
#[cfg(target_family = "wasm")]
pub(crate) use self::one::{each, sharing};

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::cell::{RefCell, UnsafeCell};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};
    use std::thread::{Builder, scope, yield_now};

    use super::Threads;

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

    type Part<'a> = dyn Fn(usize) + Sync + 'a;

    /// Where one thread offers work and others take it, part by part.
    struct Desk {
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
                wait(&mut looks);
            }
        }
    }

    /// Lets those that help go home.
    struct Ending<'a>(&'a Desk);

    impl Drop for Ending<'_> {
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
        fn help(&self) {
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

    impl Threads {
        /// Does some work, which they share. Where the system gives fewer threads, those there are.
        pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
            if self.0 == 1 || DESK.with_borrow(Option::is_some) {
                return work();
            }
            let desk = Arc::new(Desk {
                threads: self.0,
                work: UnsafeCell::new(None),
                parts: AtomicUsize::new(0),
                next: AtomicUsize::new(0),
                offers: AtomicUsize::new(0),
                inside: AtomicUsize::new(CLOSED),
                ended: AtomicBool::new(false),
            });
            DESK.set(Some(Arc::clone(&desk)));
            scope(|scope| {
                let ending = Ending(&desk);
                for _ in 1..self.0 {
                    // One that is refused is missed by nobody.
                    _ = Builder::new().spawn_scoped(scope, || desk.help());
                }
                let out = work();
                drop(ending);
                out
            })
        }
    }

    /// How many parts to divide so many multiplications into: one outside of [`Threads::run`].
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
}

#[cfg(target_family = "wasm")]
mod one {
    use super::Threads;

    impl Threads {
        /// Does some work.
        pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
            work()
        }
    }

    pub(crate) fn sharing(_multiplications: usize) -> usize {
        1
    }

    pub(crate) fn each<T>(parts: impl Iterator<Item = T>, work: impl Fn(T)) {
        parts.for_each(work);
    }
}
