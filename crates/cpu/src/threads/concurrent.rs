//! Tasks that run at the same time, and divide the threads among themselves.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope};

use super::Threads;

thread_local! {
    /// The part of the threads that the calling thread's task has.
    static PART: RefCell<Option<Part>> = const { RefCell::new(None) };
}

/// One of several equal parts of a number of threads.
struct Part {
    threads: usize,
    parts: Arc<AtomicUsize>,
    /// Index of this part.
    index: usize,
}

impl Part {
    /// Number of threads in it; the first parts get those that are left over.
    fn count(&self) -> usize {
        let parts = self.parts.load(SeqCst).max(1);
        self.threads / parts + usize::from(self.index < self.threads % parts)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.parts.fetch_sub(1, SeqCst);
    }
}

/// Number of these threads that the calling thread's task has, at least one.
pub(super) fn part_of(threads: Threads) -> usize {
    let part = PART.with_borrow(|part| part.as_ref().map(Part::count));
    part.map_or(threads.0, |part| part.clamp(1, threads.0))
}

impl Threads {
    /// Results of the tasks, in their order. They run at the same time, as many as there are
    /// threads, each on a thread of its own. Equal parts of the threads share the work that they
    /// [`run`](Self::run); the part of a task that has ended goes to the others.
    ///
    /// Small models gain most: more threads hardly shorten a step, since they wait for one another
    /// after each product.
    pub fn concurrently<T: Send>(
        self,
        tasks: impl IntoIterator<Item = impl FnOnce() -> T + Send>,
    ) -> Vec<T> {
        let tasks: Vec<_> = tasks.into_iter().enumerate().collect();
        let at_once = tasks.len().min(self.0);
        if at_once <= 1 {
            return tasks.into_iter().map(|(_, task)| task()).collect();
        }
        let parts = Arc::new(AtomicUsize::new(at_once));
        let part = |index| Part {
            threads: self.0,
            parts: Arc::clone(&parts),
            index,
        };
        let (waiting, made) = (Mutex::new(tasks.into_iter()), Mutex::new(Vec::new()));
        let work = |part| {
            PART.set(Some(part));
            let next = || lock(&waiting).next();
            while let Some((index, task)) = next() {
                let one = task();
                lock(&made).push((index, one));
            }
            PART.set(None);
        };
        scope(|scope| {
            let work = &work;
            for index in 1..at_once {
                let part = part(index);
                // The tasks of a refused thread are left to the others.
                _ = Builder::new().spawn_scoped(scope, move || work(part));
            }
            work(part(0));
        });
        let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        made.sort_unstable_by_key(|&(index, _)| index);
        made.into_iter().map(|(_, one)| one).collect()
    }
}

/// Locks the mutex, also after a panic of another task: it leaves the value as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
