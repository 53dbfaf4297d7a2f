//! Counts of passed tests, parsed from the output of test runners.

use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    /// Number of failed or cancelled tests.
    pub failed: usize,
    /// Number of tests that were not run.
    pub ignored: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl Counts {
    /// Adds up all summaries in an output: Rust's (`test result: ok. 3 passed; 0 failed; …`) and
    /// Node's, in both forms (`# pass 3`, `ℹ pass 3`).
    pub fn read(output: &str) -> Self {
        let mut counts = Self::default();
        for line in output.lines() {
            let line = plain(line);
            let line = line.trim();
            if let Some(rust) = line.strip_prefix("test result: ") {
                counts += Self::rust(rust);
            } else if let Some(node) = line.strip_prefix("# ").or(line.strip_prefix("ℹ ")) {
                counts += Self::node(node);
            }
        }
        counts
    }

    fn rust(summary: &str) -> Self {
        let mut counts = Self::default();
        for part in summary.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(number)), Some(word)) = (words.next().map(str::parse), words.next())
            else {
                continue;
            };
            counts.add(word, number);
        }
        counts
    }

    fn node(summary: &str) -> Self {
        let mut counts = Self::default();
        let mut words = summary.split_whitespace();
        if let (Some(word), Some(Ok(number)), None) =
            (words.next(), words.next().map(str::parse), words.next())
        {
            counts.add(word, number);
        }
        counts
    }

    fn add(&mut self, word: &str, number: usize) {
        match word {
            "passed" | "pass" => self.passed += number,
            "failed" | "fail" | "cancelled" => self.failed += number,
            "ignored" | "skipped" | "todo" => self.ignored += number,
            _ => {}
        }
    }
}

/// Removes terminal colours (ECMA-48 sequences `ESC [ … letter`).
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: usize, failed: usize, ignored: usize) -> Counts {
        Counts {
            passed,
            failed,
            ignored,
        }
    }

    #[test]
    fn cargo_summaries_add_up() {
        let output = "\
running 3 tests
test result_of_everything ... ok
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.05s

test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";
        assert_eq!(Counts::read(output), counts(13, 2, 1));
    }

    #[test]
    fn node_summaries_in_both_forms() {
        let tap = "# Subtest: pass 9\nok 1 - pass 7\n# tests 6\n# suites 0\n# pass 3\n# fail 1\n# \
            cancelled 1\n# skipped 1\n# todo 0\n# duration_ms 61.5\n";
        assert_eq!(Counts::read(tap), counts(3, 2, 1));
        let spec = "✔ pass 4 (0.1ms)\n\u{1b}[34mℹ tests 2\u{1b}[39m\n\u{1b}[34mℹ pass \
            2\u{1b}[39m\n\u{1b}[34mℹ fail 0\u{1b}[39m\n";
        assert_eq!(Counts::read(spec), counts(2, 0, 0));
    }

    #[test]
    fn other_text_counts_nothing() {
        let output = "12 passed\n# passing 3\n# pass three\n# pass 3 of 4\nresult: ok. 3 passed\n";
        assert_eq!(Counts::read(output), Counts::default());
    }
}
