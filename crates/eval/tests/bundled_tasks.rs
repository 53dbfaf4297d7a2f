//! The questions in `tests/tasks`: all can be read, and no trivial text answers any of them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use conclave_eval::tasks::{Task, read};

/// Kinds of questions whose results the project's README reports.
const FIRST_KINDS: [&str; 5] = ["arithmetic", "copying", "facts", "instructions", "reading"];

static FILES: LazyLock<Vec<(PathBuf, Vec<Task>)>> = LazyLock::new(|| files_of(""));

/// Task files in a folder of `tests/tasks`.
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

fn kind(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap()
}

/// Bare words of a question, or of a whole conversation.
fn words(task: &Task) -> String {
    let kept = |c: &char| c.is_alphanumeric() || c.is_whitespace();
    let turns: Vec<&str> = task.messages.iter().map(|turn| &*turn.content).collect();
    let text: String = turns
        .join(" ")
        .to_lowercase()
        .chars()
        .filter(kept)
        .collect();
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
    let (first, others): (Vec<_>, Vec<_>) = FILES
        .iter()
        .cloned()
        .partition(|(path, _)| FIRST_KINDS.contains(&kind(path)));
    assert_eq!((first.len(), count(&first)), (5, 641));
    assert_eq!((others.len(), count(&others)), (9, 930));
    // 1634 of the same kinds, and plain ones.
    let (plain, same): (Vec<_>, Vec<_>) = files_of("development")
        .into_iter()
        .partition(|(path, _)| kind(path) == "plain");
    assert_eq!((same.len(), count(&same), count(&plain)), (14, 1634, 81));
    let kinds = |files: &[(PathBuf, Vec<Task>)]| -> HashSet<String> {
        let kinds = files.iter().map(|(path, _)| kind(path).to_owned());
        kinds.collect()
    };
    assert_eq!(kinds(&FILES), kinds(&same));
}

/// Texts that answer nothing: the question, and the turns before it.
fn echoes(task: &Task) -> Vec<String> {
    if task.code().is_some() {
        return vec![task.question.clone()];
    }
    let said = task.messages.iter().map(|turn| turn.content.clone());
    let said: Vec<String> = said.collect();
    let answers: Vec<String> = said.iter().skip(1).step_by(2).cloned().collect();
    let mut echoes = vec![
        format!("{}\n{}", task.question, task.question),
        said.join("\n"),
        answers.join("\n"),
        String::new(),
    ];
    echoes.extend(said);
    echoes
}

#[test]
fn no_question_is_its_own_answer_and_no_earlier_answer_is() {
    let development = files_of("development");
    for (path, tasks) in FILES.iter().chain(&development) {
        // Each code task runs a program; empty ones were run when the file was made.
        let most = if kind(path) == "code" { 8 } else { tasks.len() };
        for task in tasks.iter().take(most) {
            for echo in echoes(task) {
                assert!(!task.check(&echo), "{} {}: {echo}", path.display(), task.id);
            }
        }
    }
}

#[test]
fn only_open_questions_have_no_right_answer() {
    for (path, tasks) in FILES.iter() {
        let open = kind(path).starts_with("open");
        assert!(
            tasks.iter().all(|task| task.is_open() == open),
            "{}",
            path.display()
        );
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
        ("conversations-001", "Beijing.", "Tokyo, not Beijing"),
        ("conversations-003", "That makes 24.", "17 + 7 = 25"),
        ("facts-es-001", "Está en Chile.", "En Perú."),
        ("facts-de-003", "Man spricht Dänisch.", "Dänen"),
        ("gsm8k-test-799", "3 * 2 - 2 * 1 = $4.00.", "It is 4 of 6."),
        ("bbh-hyperbaton-178", "The answer is B.", "(A), not B"),
        (
            "humaneval-43",
            "```python\ndef pairs_sum_to_zero(l):\n    \
             return any(-x in l[i + 1:] for i, x in enumerate(l))\n```",
            "    return any(-x in l for x in l)",
        ),
    ] {
        assert!(task(id).check(right), "{id}: {right}");
        assert!(!task(id).check(wrong), "{id}: {wrong}");
    }
}
