//! The largest of many errors, and where it was.

use crate::fixture::Published;

/// How far a logit may be off, relative to its row's largest magnitude.
const LIMIT: f64 = 5e-4;

#[derive(Default)]
pub struct Worst {
    error: f64,
    place: String,
}

impl Worst {
    /// Takes note of an error, relative to the largest magnitude of what was compared.
    pub fn see(&mut self, error: f64, place: impl FnOnce() -> String) {
        // A NaN is no maximum.
        assert!(error.is_finite(), "{}", place());
        if error > self.error {
            (self.error, self.place) = (error, place());
        }
    }

    /// Says what the worst of `what` was, and that it is none too large.
    pub fn hold(&self, model: &Published, what: &str) {
        let Self { error, place } = self;
        let said = format!("{what} within {error:.2e}, {place}");
        model.found(&said);
        assert!(*error <= LIMIT, "{}: {said}", model.title());
    }
}
