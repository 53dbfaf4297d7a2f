//! The largest of many errors, and its position.

use crate::fixture::Published;

/// Largest error of a logit, relative to its row's largest magnitude.
const LIMIT: f64 = 5e-4;

#[derive(Default)]
pub struct Worst {
    error: f64,
    place: String,
}

impl Worst {
    /// Records an error, relative to the largest magnitude compared.
    pub fn see(&mut self, error: f64, place: impl FnOnce() -> String) {
        // NaN would not be a maximum.
        assert!(error.is_finite(), "{}", place());
        if error > self.error {
            (self.error, self.place) = (error, place());
        }
    }

    /// Prints the largest error of `what`, and checks its limit.
    pub fn hold(&self, model: &Published, what: &str) {
        let Self { error, place } = self;
        let said = format!("{what} within {error:.2e}, {place}");
        model.found(&said);
        assert!(*error <= LIMIT, "{}: {said}", model.title());
    }
}
