//! Reports of failed tests, cut out of the output of test runners, so that a run of an hour can end
//! with them.

/// Lines kept of one report.
const MOST: usize = 40;

/// The reports of all failed tests in an output: Rust's (the first `failures:` of a program, up to
/// the second) and Node's in both forms (`not ok` and the YAML block after it; everything after
/// `failing tests:`).
pub fn reports(output: &str) -> String {
    let mut reports = String::new();
    let mut kept = 0;
    let mut within = Within::Nothing;
    for line in output.lines() {
        let found = line.trim();
        within = match (within, found) {
            (Within::Rust, "failures:") => Within::Nothing,
            (_, "failures:") => Within::Rust,
            (Within::Node, "...") => Within::Nothing,
            (_, "✖ failing tests:") => Within::Spec,
            (_, _) if found.starts_with("not ok ") => Within::Node,
            (within, _) => within,
        };
        let begins = match within {
            Within::Nothing => false,
            Within::Rust => found.starts_with("---- "),
            Within::Node => found.starts_with("not ok "),
            Within::Spec => found.starts_with("test at "),
        };
        if begins {
            kept = 0;
        }
        if within != Within::Nothing && found != "failures:" && kept < MOST {
            reports += line;
            reports.push('\n');
            kept += 1;
        }
    }
    reports
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Rust,
    Node,
    /// Node's second form, `failing tests:`.
    Spec,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rust_program_reports_each_failed_test() {
        let output = "\
test a ... ok
test b ... FAILED

successes:

---- a stdout ----
1.5 seconds

failures:

---- b stdout ----
thread 'b' panicked at src/b.rs:1:
left is not right


failures:
    b

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
";
        let report = reports(output);
        assert!(report.contains("---- b stdout ----\nthread 'b' panicked"));
        for other in ["1.5 seconds", "    b\n", "test result"] {
            assert!(!report.contains(other), "{report}");
        }
    }

    #[test]
    fn a_node_program_reports_each_failed_test() {
        let output = "\
# Subtest: a
ok 1 - a
  ---
  duration_ms: 1
  ...
not ok 2 - b
  ---
  error: 'it shows nothing'
  ...
1..2
";
        assert_eq!(
            reports(output),
            "not ok 2 - b\n  ---\n  error: 'it shows nothing'\n"
        );
    }

    #[test]
    fn the_other_form_of_node_lists_them_at_its_end() {
        let output = "✔ a (1ms)\n✖ b (2ms)\nℹ fail 1\n\n✖ failing tests:\n\ntest at \
            b.mjs:1:2\n✖ b (2ms)\n  it shows nothing\n";
        let report = reports(output);
        assert!(report.contains("✖ b (2ms)\n  it shows nothing\n"));
        assert!(!report.contains("✔ a"));
    }

    #[test]
    fn a_long_report_is_cut_and_the_next_begins_anew() {
        let long = format!("not ok 1 - a\n{}  ...\n", "  line\n".repeat(100));
        let report = reports(&format!("{long}not ok 2 - b\n  ...\n"));
        assert_eq!(report.lines().count(), MOST + 1);
        assert!(report.ends_with("not ok 2 - b\n"));
    }
}
