//! Checks the titles of commits: an imperative of at most 72 characters, without a prefix or a full
//! stop (CONTRIBUTING.md). Older titles stay as they are.

use std::path::Path;
use std::process::Command;

/// Title of the last commit that is not checked. Its title, since a hash does not outlive a rebase.
const BEFORE: &str = "Write the page's types anew after a reworded comment";

/// Characters that `git log --oneline` shows in a terminal, and hosts in a list.
const MOST: usize = 72;

/// Words of other moods that end unlike them, and imperatives that end like them.
const OTHER: [&str; 8] = ["The", "A", "An", "This", "Some", "New", "Now", "Was"];
const IMPERATIVE: [&str; 19] = [
    "Access", "Address", "Bring", "Compress", "Discuss", "Embed", "Exceed", "Express", "Feed",
    "Focus", "Guess", "Miss", "Need", "Pass", "Press", "Proceed", "Process", "Seed", "Speed",
];

/// The fault of a title, if any.
fn fault(title: &str) -> Option<&'static str> {
    let first = title.split(' ').next().unwrap_or_default();
    if title.chars().count() > MOST {
        return Some("is longer than 72 characters");
    }
    if title.ends_with('.') {
        return Some("ends with a full stop");
    }
    if first.ends_with(':') || first.contains('(') {
        return Some("begins with a prefix");
    }
    if !first.starts_with(char::is_uppercase) {
        return Some("begins with a small letter");
    }
    let ending = ["ed", "ing", "s"].iter().any(|end| first.ends_with(end));
    if OTHER.contains(&first) || ending && !IMPERATIVE.contains(&first) {
        return Some("does not begin with an imperative");
    }
    None
}

/// Titles since [`BEFORE`], newest first; none where the history does not reach it: a shallow
/// checkout or a copy made as one commit has no titles of ours.
fn since(titles: &[String]) -> &[String] {
    match titles.iter().position(|title| title == BEFORE) {
        Some(place) => &titles[..place],
        None => &[],
    }
}

#[test]
fn titles_are_short_imperatives() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut git = Command::new("git");
    // Hosts name merges themselves.
    git.args(["log", "--no-merges", "--format=%s"]);
    let output = git.current_dir(root).output().expect("git runs").stdout;
    let text = String::from_utf8(output).expect("titles are UTF-8");
    let titles: Vec<_> = text.lines().map(str::to_owned).collect();
    let hosted = std::env::var_os("GITHUB_ACTIONS").is_some();
    assert!(
        !hosted || titles.iter().any(|title| title == BEFORE),
        "no commit “{BEFORE}”"
    );
    let faults: Vec<_> = since(&titles)
        .iter()
        .filter_map(|title| fault(title).map(|fault| format!("“{title}” {fault}")))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn faults_of_titles_are_found() {
    for (title, found) in [
        ("Ask the method which candidate fast mode accepts", false),
        ("Process prompts in steps", false),
        ("Asked the method", true),
        ("Adding a family", true),
        ("Adds a family", true),
        ("The page asks once", true),
        ("fix: a race", true),
        ("feat(page): themes", true),
        ("add a family", true),
        ("Add a family.", true),
        (
            "Tell every member of every ensemble which candidate of the last round was kept",
            true,
        ),
    ] {
        assert_eq!(fault(title).is_some(), found, "{title}");
    }
}

#[test]
fn only_titles_after_the_named_commit_are_checked() {
    let titles = |all: &[&str]| -> Vec<String> { all.iter().map(|&one| one.to_owned()).collect() };
    let all = titles(&["newer", "new", BEFORE, "old"]);
    assert_eq!(since(&all), ["newer", "new"]);
    assert!(since(&titles(&["newest", "of a shallow checkout"])).is_empty());
    assert!(since(&[]).is_empty());
}
