//! Table at the end of a test run.

use std::fmt::Write;
use std::time::Duration;

use crate::counts::Counts;

pub struct Stage {
    pub name: String,
    pub counts: Option<Counts>,
    pub failure: Option<String>,
    pub time: Duration,
}

impl Stage {
    /// Contribution to the total. A stage that failed without a failed test (a build, a crash) adds
    /// one failure, so that a failed run never says `0 failed`.
    pub fn total(&self) -> Counts {
        let mut total = self.counts.unwrap_or_default();
        if self.failure.is_some() && total.failed == 0 {
            total.failed = 1;
        }
        total
    }
}

/// Renders a row per stage, the reasons of failures, and the total on its own line.
pub fn render(stages: &[Stage]) -> String {
    let mut text = String::new();
    let mut total = Counts::default();
    let width = stages
        .iter()
        .map(|s| s.name.chars().count())
        .max()
        .unwrap_or(0)
        .max("stage".len());
    // Writing to a `String` can't fail.
    let _ = writeln!(
        text,
        "{:width$}  {:>7} {:>7} {:>7} {:>8}",
        "stage", "passed", "failed", "ignored", "seconds"
    );
    for stage in stages {
        let cell = |number: fn(&Counts) -> usize| {
            stage
                .counts
                .as_ref()
                .map_or("-".to_owned(), |c| number(c).to_string())
        };
        let _ = writeln!(
            text,
            "{:width$}  {:>7} {:>7} {:>7} {:>8.1}{}",
            stage.name,
            cell(|c| c.passed),
            cell(|c| c.failed),
            cell(|c| c.ignored),
            stage.time.as_secs_f64(),
            if stage.failure.is_some() {
                "  FAILED"
            } else {
                ""
            },
        );
        total += stage.total();
    }
    for stage in stages {
        if let Some(reason) = &stage.failure {
            let _ = writeln!(text, "{}: {reason}", stage.name);
        }
    }
    let _ = writeln!(text, "{} passed, {} failed", total.passed, total.failed);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, counts: Option<(usize, usize)>, failure: Option<&str>) -> Stage {
        Stage {
            name: name.to_owned(),
            counts: counts.map(|(passed, failed)| Counts {
                passed,
                failed,
                ignored: 0,
            }),
            failure: failure.map(str::to_owned),
            time: Duration::from_millis(1500),
        }
    }

    #[test]
    fn the_last_line_is_the_total_alone() {
        let text = render(&[
            stage("Rust", Some((10, 0)), None),
            stage("build", None, None),
            stage("browser", Some((4, 2)), Some("2 tests failed")),
        ]);
        assert_eq!(text.lines().last(), Some("14 passed, 2 failed"));
        let build = text.lines().find(|l| l.starts_with("build")).unwrap();
        assert_eq!(
            build.split_whitespace().collect::<Vec<_>>(),
            ["build", "-", "-", "-", "1.5"]
        );
        assert!(text.contains("browser: 2 tests failed"));
    }

    #[test]
    fn a_stage_that_breaks_without_a_failed_test_counts_as_a_failure() {
        let text = render(&[
            stage("Rust", Some((10, 0)), Some("crashed")),
            stage("build", None, Some("no")),
        ]);
        assert_eq!(text.lines().last(), Some("10 passed, 2 failed"));
    }
}
