//! What is asked: questions of task files, or generated ones.

use std::collections::HashSet;

use conclave_eval::outcome::Outcome;
use conclave_eval::python::Python;
use conclave_eval::tasks::{self, Task};
use conclave_member::Message;
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
        let kept = |task: &Task| !args.skip_code || task.code().is_none();
        let limit = args.limit.unwrap_or(tasks.len());
        let tasks = tasks.into_iter().filter(kept).take(limit);
        all.extend(tasks.map(|task| Asked::Task {
            file: file.clone(),
            task,
        }));
    }
    if all.is_empty() {
        return Err(Failure::Usage(
            "every task is checked by running code; ask them without --skip-code, or others"
                .to_owned(),
        ));
    }
    Ok(all)
}

/// The interpreter that answers' code is run by, if any of `questions` asks for code.
///
/// # Errors
/// [`Failure::Usage`] where one does and there is no interpreter.
pub fn python(questions: &[Asked]) -> Result<Option<Python>, Failure> {
    let wanted = questions.iter().any(|asked| asked.code().is_some());
    let found = wanted.then(Python::find).transpose();
    found.map_err(|error| Failure::Usage(error.to_string()))
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

    /// The user's last message.
    pub fn text(&self) -> &str {
        match self {
            Self::Generated { question, .. } => &question.text,
            Self::Task { task, .. } => &task.question,
        }
    }

    /// The whole conversation, as members read it.
    pub fn messages(&self) -> Vec<Message> {
        match self {
            Self::Generated { question, .. } => vec![Message::new("user", &question.text)],
            Self::Task { task, .. } => task
                .messages
                .iter()
                .map(|turn| Message::new(&turn.role, &turn.content))
                .collect(),
        }
    }

    /// Whether no answer is right or wrong.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Task { task, .. } if task.is_open())
    }

    /// A digest of the test that answers' code is run with, where there is one.
    pub fn code(&self) -> Option<String> {
        let Self::Task { task, .. } = self else {
            return None;
        };
        let code = task.code()?;
        let prefix = code.prefix.as_deref().unwrap_or_default();
        let parts = [prefix.as_bytes(), b"\0", code.test.as_bytes()].concat();
        Some(format!("{:016x}", fnv1a(parts.into_iter())))
    }

    /// An outcome without answers yet.
    pub fn outcome(&self) -> Outcome {
        let turns = match self {
            Self::Task { task, .. } if task.messages.len() > 1 => task.messages.clone(),
            _ => Vec::new(),
        };
        Outcome {
            group: self.group().to_owned(),
            id: self.id(),
            question: self.text().to_owned(),
            messages: turns,
            open: self.is_open(),
            code: self.code(),
            ..Outcome::default()
        }
    }

    /// Whether `known` are answers to this very question.
    pub fn answered_by(&self, known: &Outcome) -> bool {
        let own = self.outcome();
        known.question == own.question && known.messages == own.messages
    }

    /// Says of every recorded answer whether it is right as the question is checked now, whatever
    /// was right then. Code that was run with the same test before is not run again.
    ///
    /// # Errors
    /// As [`judge`](Self::judge).
    pub fn judge_again(
        &self,
        outcome: &mut Outcome,
        python: Option<&Python>,
    ) -> Result<(), Failure> {
        match self.code() {
            Some(code) if outcome.code.as_ref() == Some(&code) => Ok(()),
            _ => self.judge(outcome, python),
        }
    }

    /// Says of every answer of `outcome` whether it is right.
    ///
    /// # Errors
    /// [`Failure::Usage`] where code can't be run.
    pub fn judge(&self, outcome: &mut Outcome, python: Option<&Python>) -> Result<(), Failure> {
        let code = self.code();
        (outcome.open, outcome.code) = (self.is_open(), code);
        outcome.judge(
            |answer| match self {
                Self::Generated { question, .. } => Ok(check(question, answer)),
                Self::Task { task, .. } => task
                    .verdict(answer, python)
                    .map_err(|error| Failure::Usage(error.to_string())),
            },
            |answer| self.key(answer),
        )
    }

    /// The text that `answer` is compared with other answers by.
    fn key(&self, answer: &str) -> String {
        match self {
            Self::Generated { .. } => final_answer(answer).unwrap_or_default(),
            Self::Task { task, .. } => task.key(answer),
        }
    }
}

/// A digest of `bytes`: 64 bits, FNV-1a.
pub fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
