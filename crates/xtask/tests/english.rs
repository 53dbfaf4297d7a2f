//! Checks the English of comments and names: doc sentences begin with a noun or a verb, not with a
//! relative clause, and functions are named by their result.

use std::path::Path;
use std::process::Command;

/// First words of doc sentences that leave their subject open.
const CLAUSES: [&str; 5] = ["What", "Who", "Whom", "Whose", "Of"];

/// Names of functions that say nothing.
const EMPTY: [&str; 4] = ["of", "told", "given", "held"];

/// Marks of a doc comment, longest first.
const MARKS: [&str; 5] = ["///", "//!", "/**", "/*", "*"];

/// The fault of a line, if any.
fn fault(line: &str) -> Option<String> {
    let line = line.trim_start();
    let doc = MARKS.iter().find_map(|mark| line.strip_prefix(mark));
    if let Some(first) = doc.and_then(|doc| doc.split_whitespace().next())
        && CLAUSES.contains(&first)
    {
        return Some(format!("a doc sentence begins with \"{first}\""));
    }
    let (_, rest) = line.split_once("fn ")?;
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    EMPTY
        .contains(&name.as_str())
        .then(|| format!("a function is called \"{name}\""))
}

#[test]
fn comments_and_names_are_plain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut git = Command::new("git");
    git.args(["ls-files", "*.rs", "*.ts", "*.wgsl"])
        .current_dir(&root);
    let listed = String::from_utf8(git.output().expect("git runs").stdout).expect("UTF-8");
    let mut faults = Vec::new();
    for name in listed.lines().filter(|name| !name.ends_with("english.rs")) {
        // Deleted, but not yet from git's list.
        let Ok(text) = std::fs::read_to_string(root.join(name)) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            faults.extend(fault(line).map(|fault| format!("{name}:{}: {fault}", number + 1)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(
        listed.lines().count() > 500,
        "git lists no files in {}",
        root.display()
    );
}

#[test]
fn clauses_and_empty_names_are_found() {
    for (line, found) in [
        ("    /// What a member says.", true),
        (" * Of the last draft.", true),
        ("//! Whose turn it is.", true),
        ("/// Offset of the row.", false),
        ("// What follows is no doc comment.", false),
        ("    pub fn of(rule: Rule) -> Self {", true),
        ("fn offset() {}", false),
        ("let what = of(rule);", false),
    ] {
        assert_eq!(fault(line).is_some(), found, "{line}");
    }
}
