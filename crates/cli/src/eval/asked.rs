//! What is asked: questions of task files, or generated ones.

use std::collections::HashSet;

use conclave_eval::tasks::{self, Task};
use conclave_skills::{Question, check, final_answer, question};

use crate::args;
use crate::failure::Failure;

/// One question, and how its answers are checked.
pub enum Asked {
    /// Number `index` of the generated ones.
    Generated {
        /// Which.
        index: u64,
        /// The question.
        question: Question,
    },
    /// One of a file.
    Task {
        /// The file's name without its ending.
        file: String,
        /// The question.
        task: Task,
    },
}

/// The questions that the command line asks for.
///
/// # Errors
/// What is wrong with a task file.
pub fn all(args: &args::Eval) -> Result<Vec<Asked>, Failure> {
    if args.tasks.is_empty() {
        let generated = |index| Asked::Generated {
            index,
            question: question(args.drawing.seed, index),
        };
        return Ok((0..args.count).map(generated).collect());
    }
    let mut all = Vec::new();
    let mut files = HashSet::new();
    for path in &args.tasks {
        let tasks = tasks::read(path)?;
        let file = path.file_stem().unwrap_or(path.as_os_str());
        let file = file.to_string_lossy().into_owned();
        if !files.insert(file.clone()) {
            return Err(Failure::Usage(format!(
                "two task files are called {file}; the report goes by their names, so rename one"
            )));
        }
        let limit = args.limit.unwrap_or(tasks.len());
        all.extend(tasks.into_iter().take(limit).map(|task| Asked::Task {
            file: file.clone(),
            task,
        }));
    }
    Ok(all)
}

impl Asked {
    /// What it is reported with: its skill or its file.
    pub fn group(&self) -> &str {
        match self {
            Self::Generated { question, .. } => question.skill.name(),
            Self::Task { file, .. } => file,
        }
    }

    /// Its name within the group.
    pub fn id(&self) -> String {
        match self {
            Self::Generated { index, .. } => index.to_string(),
            Self::Task { task, .. } => task.id.clone(),
        }
    }

    /// The user's message.
    pub fn text(&self) -> &str {
        match self {
            Self::Generated { question, .. } => &question.text,
            Self::Task { task, .. } => &task.question,
        }
    }

    /// Whether `answer` is right.
    pub fn right(&self, answer: &str) -> bool {
        match self {
            Self::Generated { question, .. } => check(question, answer),
            Self::Task { task, .. } => task.check(answer),
        }
    }

    /// What `answer` votes for.
    pub fn key(&self, answer: &str) -> String {
        match self {
            Self::Generated { .. } => final_answer(answer).unwrap_or_default(),
            Self::Task { task, .. } => task.key(answer),
        }
    }
}
