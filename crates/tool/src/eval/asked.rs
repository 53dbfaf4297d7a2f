//! Questions from task files, or generated ones.

use std::collections::HashSet;

use conclave_eval::outcome::Outcome;
use conclave_eval::python::Python;
use conclave_eval::skills::{Question, check, final_answer, question};
use conclave_eval::tasks::{self, Task};
use conclave_member::Message;

use crate::args;
use crate::failure::Failure;

/// A question, and how its answers are checked.
pub enum Asked {
    Generated {
        index: u64,
        question: Question,
    },
    Task {
        /// The file's name without its extension.
        file: String,
        task: Task,
    },
}

/// Collects the questions that the command line selects.
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

/// Returns the interpreter for answers' code, if any of `questions` needs it.
///
/// # Errors
/// [`Failure::Usage`] if it is needed and missing.
pub fn python(questions: &[Asked]) -> Result<Option<Python>, Failure> {
    let wanted = questions.iter().any(|asked| asked.code().is_some());
    let found = wanted.then(Python::find).transpose();
    found.map_err(|error| Failure::Usage(error.to_string()))
}

impl Asked {
    /// Group in reports: its skill or file.
    pub fn group(&self) -> &str {
        match self {
            Self::Generated { question, .. } => question.skill.name(),
            Self::Task { file, .. } => file,
        }
    }

    /// Name within the group.
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

    /// Returns whether no answer is right or wrong.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Task { task, .. } if task.is_open())
    }

    /// Digest of the test that answers' code is run with, if any.
    pub fn code(&self) -> Option<String> {
        let Self::Task { task, .. } = self else {
            return None;
        };
        let code = task.code()?;
        let prefix = code.prefix.as_deref().unwrap_or_default();
        let parts = [prefix.as_bytes(), b"\0", code.test.as_bytes()].concat();
        Some(format!("{:016x}", fnv1a(parts.into_iter())))
    }

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

    /// Returns whether `known` has answers to this very question.
    pub fn answered_by(&self, known: &Outcome) -> bool {
        let own = self.outcome();
        known.question == own.question && known.messages == own.messages
    }

    /// Judges every recorded answer by the present check, whatever the recorded verdict. Code that
    /// was run with the same test is not run again.
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

    /// Judges every answer of `outcome`.
    ///
    /// # Errors
    /// [`Failure::Usage`] if code can't be run.
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

    /// Key for comparing `answer` with others.
    fn key(&self, answer: &str) -> String {
        match self {
            Self::Generated { .. } => final_answer(answer).unwrap_or_default(),
            Self::Task { task, .. } => task.key(answer),
        }
    }
}

/// 64-bit FNV-1a digest of `bytes`.
pub fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
