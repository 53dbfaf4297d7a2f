//! Tasks that run at the same time, on as many threads as there are for one. A thread without a
//! task helps those that have one.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope, sleep};
use std::time::Duration;

use super::Threads;
use super::spawned::end_team;
use super::team::Team;

/// Pause before a thread without a task looks again for a team.
const PAUSE: Duration = Duration::from_micros(50);

thread_local! {
    /// The tasks that the calling thread's task runs beside.
    static CONCURRENT: RefCell<Option<Arc<Concurrent>>> = const { RefCell::new(None) };
}

/// Tasks that run at the same time.
pub(super) struct Concurrent {
    threads: usize,
    /// Teams of those tasks that have run a pass and have not ended.
    teams: Mutex<Vec<Arc<Team>>>,
    /// Number of tasks that have not ended.
    left: AtomicUsize,
}

impl Concurrent {
    /// Those that the calling thread's task runs beside, itself among them.
    pub fn of_caller() -> Option<Arc<Self>> {
        CONCURRENT.with_borrow(Clone::clone)
    }

    /// Lets threads without a task help this team of a task.
    pub fn add_team(&self, team: &Arc<Team>) {
        let mut teams = lock(&self.teams);
        if !teams.iter().any(|other| Arc::ptr_eq(other, team)) {
            teams.push(Arc::clone(team));
        }
    }

    /// Joins the team with the fewest helpers, if it has fewer than its part of the threads without
    /// a task: the others' passes have not begun yet.
    fn join(&self) -> Option<Arc<Team>> {
        let left = self.left.load(SeqCst).max(1);
        let part = self.threads.saturating_sub(left).div_ceil(left);
        let teams = lock(&self.teams);
        let least = teams.iter().min_by_key(|team| team.helpers())?;
        (least.helpers() < part && least.join()).then(|| Arc::clone(least))
    }

    /// Helps until all tasks have ended.
    fn help(&self) {
        while self.left.load(SeqCst) > 0 {
            match self.join() {
                Some(team) => team.help(|| true),
                None => sleep(PAUSE),
            }
        }
    }
}

/// The end of a task, when dropped, also by a panic.
struct Ending<'a>(&'a Concurrent);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let own = end_team();
        lock(&self.0.teams).retain(|team| !own.as_ref().is_some_and(|own| Arc::ptr_eq(team, own)));
        self.0.left.fetch_sub(1, SeqCst);
    }
}

impl Threads {
    /// Results of the tasks, in their order. They run at the same time, as many as there are
    /// threads, each on a thread of its own; threads without a task share the work that the others
    /// [`run`](Self::run).
    ///
    /// Small models gain most: more threads hardly shorten a step of theirs, since they wait for
    /// one another after each product.
    pub fn concurrently<T: Send>(
        self,
        tasks: impl IntoIterator<Item = impl FnOnce() -> T + Send>,
    ) -> Vec<T> {
        let tasks: Vec<_> = tasks.into_iter().enumerate().collect();
        if self.0 == 1 || tasks.len() <= 1 {
            return tasks.into_iter().map(|(_, task)| task()).collect();
        }
        let concurrent = Arc::new(Concurrent {
            threads: self.0,
            teams: Mutex::default(),
            left: AtomicUsize::new(tasks.len()),
        });
        let (waiting, made) = (Mutex::new(tasks.into_iter()), Mutex::new(Vec::new()));
        let run = || {
            let next = || lock(&waiting).next();
            while let Some((index, task)) = next() {
                let _ending = Ending(&concurrent);
                let one = task();
                lock(&made).push((index, one));
            }
        };
        scope(|scope| {
            for _ in 0..self.0 {
                // Those that the system refuses are not needed.
                _ = Builder::new().spawn_scoped(scope, || {
                    CONCURRENT.set(Some(Arc::clone(&concurrent)));
                    run();
                    concurrent.help();
                });
            }
        });
        // If all were refused.
        run();
        let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        made.sort_unstable_by_key(|&(index, _)| index);
        made.into_iter().map(|(_, one)| one).collect()
    }
}

/// Locks the mutex, also after a panic of another task: it leaves the value as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
