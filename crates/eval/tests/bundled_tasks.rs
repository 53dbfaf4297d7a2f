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

/// A question's words alone.
fn words(task: &Task) -> String {
    let kept = |c: &char| c.is_alphanumeric() || c.is_whitespace();
    let text: String = task.question.to_lowercase().chars().filter(kept).collect();
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
    assert_eq!((FILES.len(), count(&FILES)), (5, 641));
    // 901 of the same five kinds, and plain ones.
    let (plain, same): (Vec<_>, Vec<_>) = files_of("development")
        .into_iter()
        .partition(|(path, _)| path.ends_with("plain.jsonl"));
    assert_eq!((same.len(), count(&same), count(&plain)), (5, 901, 81));
}

#[test]
fn no_question_is_its_own_answer() {
    for (path, tasks) in FILES.iter() {
        for task in tasks {
            let echoes = [
                task.question.clone(),
                format!("{}\n{}", task.question, task.question),
                String::new(),
            ];
            for echo in echoes {
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
