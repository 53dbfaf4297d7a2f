//! Every kernel that a model launches, against its CPU twin on the adapter in use, before the
//! model is used there.
//!
//! Drivers compile wrongly more often than they fail: what comes out then is an answer of
//! nonsense. A kernel that fails gives way to its safe twin where it has one ([`Choices`]); else
//! the load ends in [`GpuError::Kernel`]. The pipelines tried are those that the model launches,
//! so none is built for the test alone, and none while an answer waits.

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
    /// Of the matrices that token ids become rows of.
    pub embeddings: Vec<Format>,
    /// Of the matrix that makes logits.
    pub head: Format,
    /// Of the matrices of queries, keys and values, of attention's output, and of what leads
    /// down from the gated activations.
    pub products: Vec<Format>,
    /// Of gate over up in one matrix.
    pub gates: Vec<Format>,
    /// A gate and what it lets through are apart in some block; formats of their products are among
    /// `products`.
    pub apart: bool,
    /// Some product is followed by a norm.
    pub norms_behind: bool,
    /// Norms of queries and keys stand behind their rotation.
    pub norms_rotated: bool,
    /// Of its attentions, and their caches.
    pub heads: Vec<Heads>,
    /// Some block is a gated convolution, on a cache that is exact or not.
    pub convolves: Option<bool>,
    /// Some block is a recurrence.
    pub recurrences: bool,
    /// Of the matrices of experts, where there are some.
    pub experts: Vec<Format>,
    /// Some block's heads are behind gates: a recurrence's, or an attention's.
    pub gated_heads: bool,
}

/// What a device is for, and what of it has passed.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// With serial threads, or cooperative ones.
    pub passed: HashSet<(Subject, bool)>,
    /// Twins with subgroups have failed, and are not tried again.
    pub without_subgroups: bool,
    /// When choices change, they change for all of these.
    purposes: Vec<Purpose>,
}

/// What kernels are launched for.
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
    /// What the device launches for these purposes with these choices and has not passed.
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

/// A trial that was failed: by which kernel, and how.
struct Failure {
    subject: Subject,
    kernel: &'static str,
    reason: String,
}

impl Launcher {
    /// Tries the kernels that a model launches, as far as they have not been tried on this device;
    /// their pipelines are built then. What fails and has a safe twin is not launched any more
    /// ([`Launcher::choices`]).
    ///
    /// # Errors
    /// [`GpuError::Kernel`] for a failure without one, and what went wrong since the last read.
    pub async fn self_test(&self, kernels: &Kernels) -> Result<(), GpuError> {
        self.test_for(Purpose::Model(kernels.clone())).await
    }

    /// Tries what makes log-probabilities with an output matrix of this format, likewise: who
    /// judges by raw logits alone launches none of it.
    ///
    /// # Errors
    /// As [`Launcher::self_test`].
    pub async fn self_test_scores(&self, head: Format) -> Result<(), GpuError> {
        self.test_for(Purpose::Scores(head)).await
    }

    /// What has passed becomes a purpose of the device. Members that ask at once are served by one
    /// test: those behind the first find that theirs has passed.
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

    /// Whether it is a purpose of the device, and all that is launched there has passed.
    fn serves(&self, purpose: &Purpose) -> bool {
        let (proofs, choices) = (self.proofs(), self.choices());
        proofs.purposes.contains(purpose) && proofs.missing(&proofs.purposes, choices).is_empty()
    }

    /// Whether a product that is not gated has passed, made by cooperative threads.
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

    /// Tries what the device launches and has not tried. Choices are as they were if it fails.
    pub(crate) async fn test(&self) -> Result<(), GpuError> {
        let _only = self.only_test().await;
        let purposes = self.proofs().purposes.clone();
        self.test_all(&purposes).await
    }

    async fn test_all(&self, purposes: &[Purpose]) -> Result<(), GpuError> {
        let mut before = Before {
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
                // All is tried anew.
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

    /// Tries each of these, with one wait for what they make; notes what passes, tells what fails.
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
                // Of several launches the last ones answer, of a single one there may be several.
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

/// Chooses again what was chosen before a test that failed, or that nobody waits for any more.
pub(crate) struct Before<'a> {
    pub launcher: &'a Launcher,
    /// None once it has passed.
    pub choices: Option<Choices>,
}

impl Drop for Before<'_> {
    fn drop(&mut self) {
        if let Some(choices) = self.choices {
            self.launcher.choose(choices);
        }
    }
}
