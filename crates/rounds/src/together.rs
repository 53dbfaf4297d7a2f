//! One task per member, concurrently: on a GPU they queue their work one after another and wait for
//! it once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Results of the tasks, in their order. All tasks end before any result is returned: a call
/// dropped half-way would leave its member in an inconsistent state.
pub async fn together<T>(tasks: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut tasks: Vec<Task<_>> = tasks.into_iter().map(Task::running).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for task in &mut tasks {
            if let Task::Running(running) = task {
                match running.as_mut().poll(context) {
                    Poll::Ready(outcome) => *task = Task::Over(outcome),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    tasks.into_iter().filter_map(Task::outcome).collect()
}

enum Task<F: Future> {
    Running(Pin<Box<F>>),
    Over(F::Output),
}

impl<F: Future> Task<F> {
    fn running(task: F) -> Self {
        Self::Running(Box::pin(task))
    }

    fn outcome(self) -> Option<F::Output> {
        match self {
            Self::Running(_) => None,
            Self::Over(outcome) => Some(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Yields this many times.
    async fn wait(mut turns: usize) {
        poll_fn(|context| {
            context.waker().wake_by_ref();
            match turns.checked_sub(1) {
                Some(left) => {
                    turns = left;
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Runs tasks that yield this many times; returns the order of their steps, and their results.
    fn run(turns: &[usize], fails: &[usize]) -> (Vec<String>, Vec<Result<usize, usize>>) {
        let done = RefCell::new(Vec::new());
        let tasks = turns.iter().enumerate().map(|(task, &turns)| {
            let done = &done;
            async move {
                done.borrow_mut().push(format!("{task} begins"));
                wait(turns).await;
                done.borrow_mut().push(format!("{task} ends"));
                if fails.contains(&task) {
                    Err(task)
                } else {
                    Ok(10 * task)
                }
            }
        });
        let outcome = pollster::block_on(together(tasks));
        (done.into_inner(), outcome)
    }

    #[test]
    fn all_begin_before_any_waits_to_its_end() {
        let (done, outcome) = run(&[2, 0, 1], &[]);
        let wanted = [
            "0 begins", "1 begins", "1 ends", "2 begins", "2 ends", "0 ends",
        ];
        assert_eq!(done, wanted);
        assert_eq!(outcome, [Ok(0), Ok(10), Ok(20)]);
        assert_eq!(run(&[], &[]).1, []);
    }

    #[test]
    fn all_end_before_a_failure_is_returned() {
        let (done, outcome) = run(&[1, 3, 0], &[0, 2]);
        assert_eq!(done.last().unwrap(), "1 ends");
        assert_eq!(outcome, [Err(0), Ok(10), Err(2)]);
    }
}
