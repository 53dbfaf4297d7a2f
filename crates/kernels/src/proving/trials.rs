//! Trials of kernels: launches with known results.

mod cache;
mod draws;
mod experts;
mod numbers;
mod products;
mod rows;
mod states;
mod subject;

pub(crate) use subject::{Product, Subject};

use crate::{Buffer, GpuError, Launcher};

/// Queues launches on a device.
type Launches = Box<dyn Fn(&Launcher) -> Result<(), GpuError>>;

/// Launches with known results.
pub(crate) struct Trial {
    pub launches: Launches,
    /// Results of the last launches in order, or of the only one.
    pub answers: Vec<Answer>,
}

pub(crate) struct Answer {
    pub found: Buffer,
    pub judge: Judge,
}

/// Checks a result; the error describes the fault.
type Judge = Box<dyn Fn(&[u8]) -> Result<(), String>>;

impl Trial {
    fn new(launches: impl Fn(&Launcher) -> Result<(), GpuError> + 'static) -> Self {
        Self {
            launches: Box::new(launches),
            answers: Vec::new(),
        }
    }

    /// Adds a result and its judge.
    fn answer(
        mut self,
        found: &Buffer,
        judge: impl Fn(&[u8]) -> Result<(), String> + 'static,
    ) -> Self {
        self.answers.push(Answer {
            found: found.clone(),
            judge: Box::new(judge),
        });
        self
    }

    /// [`Self::answer`] for floats.
    fn numbers(self, found: &Buffer, expected: Vec<f32>) -> Self {
        self.answer(found, move |bytes| {
            close(&bytemuck::pod_collect_to_vec(bytes), &expected)
        })
    }

    /// [`Self::numbers`] of several.
    fn all_numbers(self, answers: impl IntoIterator<Item = (Buffer, Vec<f32>)>) -> Self {
        let answers = answers.into_iter();
        answers.fold(self, |trial, (found, expected)| {
            trial.numbers(&found, expected)
        })
    }

    /// [`Self::answer`] for integers.
    fn words(self, found: &Buffer, expected: Vec<u32>) -> Self {
        self.answer(found, move |bytes| {
            let found: Vec<u32> = bytemuck::pod_collect_to_vec(bytes);
            match found.iter().zip(&expected).position(|(a, b)| a != b) {
                Some(at) => Err(differs(at, found[at], expected[at])),
                None => all_there(found.len(), expected.len()),
            }
        })
    }
}

/// Compares numbers, with a tolerance of a five-thousandth of the largest: adapters sum in any
/// order and round exponentials differently, which makes a tenth of it.
///
/// # Errors
/// The first difference, with the expected number.
pub fn close(found: &[f32], expected: &[f32]) -> Result<(), String> {
    let size = expected.iter().fold(1e-30_f32, |top, v| top.max(v.abs()));
    // NaN is never close.
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= size / 5000.0;
    match found.iter().zip(expected).position(|pair| !near(pair)) {
        Some(at) => Err(differs(at, found[at], expected[at])),
        None => all_there(found.len(), expected.len()),
    }
}

fn differs(at: usize, found: impl std::fmt::Display, expected: impl std::fmt::Display) -> String {
    format!("number {at} is {found} and should be {expected}")
}

fn all_there(found: usize, expected: usize) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{found} numbers came back of {expected}")),
    }
}
