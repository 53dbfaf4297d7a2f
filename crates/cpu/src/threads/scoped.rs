//! Natively those that help are threads of one pass.

use std::sync::Arc;
use std::thread::{Builder, scope};

use super::Threads;
use super::desk::Desk;

/// A panic of one unwinds: it leaves the work, and [`Threads::run`] panics in the end.
pub(super) fn is_broken() -> bool {
    false
}

impl Threads {
    /// Does some work, which they share. Where the system gives fewer threads, those there are.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        if self.0 == 1 || Desk::is_here() {
            return work();
        }
        let desk = Arc::new(Desk::new(self.0));
        let open = desk.open();
        scope(|scope| {
            for _ in 1..self.0 {
                // One that is refused is missed by nobody.
                _ = Builder::new().spawn_scoped(scope, || desk.help());
            }
            let out = work();
            drop(open);
            out
        })
    }
}
