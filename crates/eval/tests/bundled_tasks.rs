//! The questions in `tests/tasks`: all can be read, and none is answered by what anybody could say.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use conclave_eval::tasks::{Task, read};

static FILES: LazyLock<Vec<(PathBuf, Vec<Task>)>> = LazyLock::new(|| files_of(""));

/// The task files of a folder of `tests/tasks`.
fn files_of(folder: &str) -> Vec<(PathBuf, Vec<Task>)> {
    let tasks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tasks");
    let files = std::fs::read_dir(tasks.join(folder)).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .map(|path| {
            let tasks = read(&path).unwrap();
            (path, tasks)
        })
        .collect()
}

/// The words of a conversation alone.
fn words(task: &Task) -> String {
    let turns = task.messages.iter().map(|turn| turn.content.to_lowercase());
    let turns: Vec<String> = turns.collect();
    let kept = |c: &char| c.is_alphanumeric() || c.is_whitespace();
    let text: String = turns.join(" ").chars().filter(kept).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn rules_are_chosen_by_other_questions_than_they_are_measured_by() {
    let words_of = |files: &[(PathBuf, Vec<Task>)]| -> HashSet<String> {
        files
            .iter()
            .flat_map(|(_, tasks)| tasks)
            .map(words)
            .collect()
    };
    let chosen_by = words_of(&files_of("development"));
    let both: Vec<_> = words_of(&FILES).intersection(&chosen_by).cloned().collect();
    assert!(both.is_empty(), "{both:?}");
}

#[test]
fn there_are_as_many_questions_as_the_documents_say() {
    let count = |files: &[(PathBuf, Vec<Task>)]| -> usize {
        let tasks = files.iter().map(|(_, tasks)| tasks.len());
        tasks.sum()
    };
    assert_eq!((FILES.len(), count(&FILES)), (14, 1571));
    // The same kinds, and plain facts.
    let (plain, same): (Vec<_>, Vec<_>) = files_of("development")
        .into_iter()
        .partition(|(path, _)| path.ends_with("plain.jsonl"));
    assert_eq!((same.len(), count(&same), count(&plain)), (14, 1634, 81));
}

#[test]
fn no_question_is_its_own_answer() {
    for (path, tasks) in FILES.iter() {
        for task in tasks {
            let twice = format!("{}\n{}", task.question, task.question);
            let turns = task.messages.iter().map(|turn| turn.content.clone());
            for echo in turns.chain([twice, String::new()]) {
                assert!(!task.check(&echo), "{} {}: {echo}", path.display(), task.id);
            }
        }
    }
}

#[test]
fn right_answers_pass() {
    let task = |id: &str| {
        let mut all = FILES.iter().flat_map(|(_, tasks)| tasks);
        all.find(|task| task.id == id).unwrap()
    };
    for (id, right, wrong) in [
        ("facts-001", "The Sun.", "Sirius, on a Sunday"),
        ("facts-005", "Twelve", "112"),
        ("arithmetic-001", "19 - 6 = 13", "It is 14."),
        ("arithmetic-004", "fifty-six", "7 times 8 is 57"),
        (
            "copying-001",
            "They lived in a village.",
            "They live in a village.",
        ),
        ("copying-003", "HAPPY BIRTHDAY", "happy birthday"),
        ("instructions-001", "Apple.", "I like apples."),
        ("reading-001", "It is green.", "red and green"),
    ] {
        assert!(task(id).check(right), "{id}: {right}");
        assert!(!task(id).check(wrong), "{id}: {wrong}");
    }
}
