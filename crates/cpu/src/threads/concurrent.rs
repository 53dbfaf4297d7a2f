//! Tasks that run at the same time, on as many threads as there are for one. A thread without a
//! task helps those that have one.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope, yield_now};

use super::Threads;
use super::team::Team;

thread_local! {
    /// The tasks that run beside that of the calling thread, with it.
    static COMPANY: RefCell<Option<Arc<Company>>> = const { RefCell::new(None) };
}

/// Tasks that run at the same time.
pub(super) struct Company {
    /// Teams of those tasks that have run a pass and have not ended.
    teams: Mutex<Vec<Arc<Team>>>,
    /// Number of tasks that have not ended.
    left: AtomicUsize,
}

impl Company {
    /// That of the calling thread's task.
    pub fn of_caller() -> Option<Arc<Self>> {
        COMPANY.with_borrow(Clone::clone)
    }

    /// Lets threads without a task help this team of a task.
    pub fn call(&self, team: &Arc<Team>) {
        let mut teams = lock(&self.teams);
        if !teams.iter().any(|other| Arc::ptr_eq(other, team)) {
            teams.push(Arc::clone(team));
        }
    }

    /// Joins the team with the fewest helpers, if one misses any.
    fn join(&self) -> Option<Arc<Team>> {
        let teams = lock(&self.teams);
        let least = teams.iter().min_by_key(|team| team.helpers())?;
        least.join().then(|| Arc::clone(least))
    }

    /// Helps until all tasks have ended.
    fn help(&self) {
        while self.left.load(SeqCst) > 0 {
            match self.join() {
                Some(team) => team.help(),
                None => yield_now(),
            }
        }
    }
}

/// The end of a task, when dropped, also by a panic.
struct Task<'a>(&'a Company);

impl Drop for Task<'_> {
    fn drop(&mut self) {
        let own = Team::take_of_caller();
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
        let company = Arc::new(Company {
            teams: Mutex::default(),
            left: AtomicUsize::new(tasks.len()),
        });
        let (waiting, made) = (Mutex::new(tasks.into_iter()), Mutex::new(Vec::new()));
        let work = || {
            COMPANY.set(Some(Arc::clone(&company)));
            let next = || lock(&waiting).next();
            while let Some((index, task)) = next() {
                let _task = Task(&company);
                let one = task();
                lock(&made).push((index, one));
            }
            company.help();
            COMPANY.set(None);
        };
        scope(|scope| {
            let start = |_: &usize| Builder::new().spawn_scoped(scope, work).is_ok();
            // Where the system refuses all, the calling thread runs the tasks.
            if (0..self.0).filter(start).count() == 0 {
                work();
            }
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
