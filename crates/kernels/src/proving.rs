//! Self-test: checks every kernel that a model launches against its CPU twin on the adapter in use,
//! before the model is used there.
//!
//! Drivers miscompile more often than they fail, and the model's output is then nonsense. A failing
//! kernel is replaced by its safe twin where it has one ([`Choices`]); else the load ends in
//! [`GpuError::Kernel`]. The pipelines tried are those that the model launches, so none is built
//! for the test alone, and none while an answer waits.

pub(crate) mod autotune;
pub(crate) mod choices;
#[cfg(test)]
mod tests;
mod trials;

use std::collections::HashSet;

pub use trials::close;
use trials::{Product, Subject};

use crate::{Buffer, Choices, Format, GpuError, Heads, Launcher, ProductKernel};

/// The kernels that a model launches, as far as models differ in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernels {
    /// Formats of embedding matrices.
    pub embeddings: Vec<Format>,
    /// Format of the output matrix.
    pub head: Format,
    /// Formats of the matrices of queries, keys and values, of attention's output, and of the down
    /// projection.
    pub products: Vec<Format>,
    /// Formats of stacked gate and up matrices.
    pub gates: Vec<Format>,
    /// Whether some block has separate gate and up products; their formats are among `products`.
    pub apart: bool,
    /// Whether some product is followed by a norm.
    pub post_norms: bool,
    /// Whether norms of queries and keys follow their rotation.
    pub norms_rotated: bool,
    /// Heads of its attentions, and their caches.
    pub heads: Vec<Heads>,
    /// Whether the cache of gated convolutions is exact; `None` if no block is one.
    pub convolves: Option<bool>,
    /// Whether some block is a recurrence.
    pub recurrences: bool,
    /// Formats of experts' matrices.
    pub experts: Vec<Format>,
    /// Whether some block, a recurrence or an attention, gates its heads.
    pub gated_heads: bool,
}

/// A device's uses, and the kernels that have passed.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// Kernels that have passed, with `true` for serial threads and `false` for cooperative ones.
    pub passed: HashSet<(Subject, bool)>,
    /// Whether twins with subgroups have failed; they are not tried again.
    pub without_subgroups: bool,
    /// All uses, which a change of choices affects.
    purposes: Vec<Purpose>,
}

/// Use of kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    /// A model.
    Model(Kernels),
    /// Log-probabilities by an output matrix of this format.
    Scores(Format),
}

impl Purpose {
    fn subjects(&self, choices: Choices) -> Vec<Subject> {
        match self {
            Self::Model(kernels) => kernels.subjects(choices),
            Self::Scores(head) => vec![Subject::Score(*head)],
        }
    }
}

impl Proofs {
    /// Kernels launched for these uses with these choices that have not passed yet.
    fn missing(&self, purposes: &[Purpose], choices: Choices) -> Vec<Subject> {
        let mut missing: Vec<Subject> = Vec::new();
        for subject in purposes.iter().flat_map(|each| each.subjects(choices)) {
            let passed = self.passed.contains(&(subject, choices.serial));
            if !passed && !missing.contains(&subject) {
                missing.push(subject);
            }
        }
        missing
    }
}

/// A failed trial: the kernel, and the fault.
struct Failure {
    subject: Subject,
    kernel: &'static str,
    reason: String,
}

impl Launcher {
    /// Tries the kernels that a model launches, except those already tried on this device, and so
    /// builds their pipelines. A failing one with a safe twin is not launched any more
    /// ([`Launcher::choices`]).
    ///
    /// # Errors
    /// [`GpuError::Kernel`] for a failure without a safe twin, and errors since the last read.
    pub async fn self_test(&self, kernels: &Kernels) -> Result<(), GpuError> {
        self.test_for(Purpose::Model(kernels.clone())).await
    }

    /// Tries the kernels for log-probabilities with an output matrix of the format `head`, as
    /// `self_test` does for a model's. Scoring by raw logits alone launches none of them.
    ///
    /// # Errors
    /// As [`Launcher::self_test`].
    pub async fn self_test_scores(&self, head: Format) -> Result<(), GpuError> {
        self.test_for(Purpose::Scores(head)).await
    }

    /// Tests for a use and adds it to the device's. Concurrent members share one test: the later
    /// ones find theirs passed.
    async fn test_for(&self, purpose: Purpose) -> Result<(), GpuError> {
        if self.serves(&purpose) {
            return Ok(());
        }
        let _only = self.only_test().await;
        let mut purposes = self.proofs().purposes.clone();
        if !purposes.contains(&purpose) {
            purposes.push(purpose);
        }
        self.test_all(&purposes).await?;
        self.proofs().purposes = purposes;
        Ok(())
    }

    /// Whether `purpose` is a use of the device, and all its kernels have passed.
    fn serves(&self, purpose: &Purpose) -> bool {
        let (proofs, choices) = (self.proofs(), self.choices());
        proofs.purposes.contains(purpose) && proofs.missing(&proofs.purposes, choices).is_empty()
    }

    /// Whether an ungated product by cooperative threads has passed.
    pub(crate) fn product_passed(
        &self,
        kernel: ProductKernel,
        format: Format,
        normed: bool,
    ) -> bool {
        let product = Product {
            kernel,
            format,
            normed,
            gated: false,
        };
        let subject = (Subject::Product(product), false);
        self.proofs().passed.contains(&subject)
    }

    /// Tries the untried kernels of the device's uses. Restores the choices on failure.
    pub(crate) async fn test(&self) -> Result<(), GpuError> {
        let _only = self.only_test().await;
        let purposes = self.proofs().purposes.clone();
        self.test_all(&purposes).await
    }

    async fn test_all(&self, purposes: &[Purpose]) -> Result<(), GpuError> {
        let mut before = RestoreOnDrop {
            launcher: self,
            choices: Some(self.choices()),
        };
        self.test_or_give_way(purposes).await?;
        before.choices = None;
        Ok(())
    }

    async fn test_or_give_way(&self, purposes: &[Purpose]) -> Result<(), GpuError> {
        loop {
            let serial = self.choices().serial;
            let subjects = self.proofs().missing(purposes, self.choices());
            if subjects.is_empty() {
                return Ok(());
            }
            for failure in self.try_all(&subjects).await? {
                let Failure {
                    subject,
                    kernel,
                    reason,
                } = failure;
                // Everything is tried again.
                if self.choices().serial != serial {
                    break;
                }
                let safe = subject.without(self.choices());
                let safe = safe.ok_or_else(|| GpuError::Kernel {
                    adapter: self.adapter().name.clone(),
                    kernel,
                    reason,
                })?;
                self.proofs().without_subgroups |= self.choices().subgroups && !safe.subgroups;
                self.choose(safe);
            }
        }
    }

    /// Tries each subject and waits once for all results. Records the subjects that pass; returns
    /// the failures of the others.
    async fn try_all(&self, subjects: &[Subject]) -> Result<Vec<Failure>, GpuError> {
        let mut trials = Vec::new();
        for &subject in subjects {
            let trial = subject.trial(self)?;
            let kernels = self.noted(&trial.launches)?;
            trials.push((subject, trial, kernels));
        }
        let kernels: Vec<_> = trials.iter().flat_map(|(.., k)| k).copied().collect();
        let refused = self.build(&kernels).await;
        let mut failures = Vec::new();
        trials.retain(|(subject, _, kernels)| {
            let of = |name: &str| kernels.iter().any(|kernel| kernel.shader.name == name);
            let refusal = refused.iter().find(|(name, _)| of(name));
            failures.extend(refusal.map(|(kernel, reason)| Failure {
                subject: *subject,
                kernel,
                reason: reason.clone(),
            }));
            refusal.is_none()
        });
        for (_, trial, _) in &trials {
            (trial.launches)(self)?;
        }
        let answers = trials.iter().flat_map(|(_, trial, _)| &trial.answers);
        let found: Vec<&Buffer> = answers.map(|answer| &answer.found).collect();
        let mut read = self.read(&found).await?.into_iter();
        // No round reads as much.
        self.clear_staging();
        for (subject, trial, kernels) in &trials {
            let mut wrong = None;
            for (i, answer) in trial.answers.iter().enumerate() {
                // With several launches the last ones answer; a single launch may give several
                // answers.
                let kernel = &kernels[(kernels.len() + i).saturating_sub(trial.answers.len())];
                let judged = (answer.judge)(&read.next().unwrap_or_default());
                wrong = wrong.or(judged.err().map(|reason| (kernel.shader.name, reason)));
            }
            match wrong {
                Some((kernel, reason)) => failures.push(Failure {
                    subject: *subject,
                    kernel,
                    reason,
                }),
                None => {
                    let serial = self.choices().serial;
                    self.proofs().passed.insert((*subject, serial));
                }
            }
        }
        Ok(failures)
    }
}

/// Restores the previous choices when dropped, after a failed or abandoned test.
pub(crate) struct RestoreOnDrop<'a> {
    pub launcher: &'a Launcher,
    /// `None` once the test has passed.
    pub choices: Option<Choices>,
}

impl Drop for RestoreOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(choices) = self.choices {
            self.launcher.choose(choices);
        }
    }
}
