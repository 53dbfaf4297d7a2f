//! The driver against every case of `tests/rounds/cases.json`, with scripted members. The rounds'
//! decisions are tested in `crates/ensemble/tests/ensemble/moves.rs`; here, that members make
//! exactly the moves of the state machine.

#[path = "../../ensemble/tests/cases/mod.rs"]
#[allow(dead_code, reason = "the recorded moves are the machine's own")]
mod cases;

use std::cell::RefCell;
use std::collections::BTreeMap;

use conclave_ensemble::{Candidate, Failure, Score, Settings};
use conclave_kernels::GpuError;
use conclave_member::{Begun, Draft, MemberError, Message, Thought, VerifiedScore};
use conclave_model::{ModelError, Sampling};
use conclave_remote::RemoteError;
use conclave_rounds::{
    AnswerError, Ask, FormOf, Left, MoveError, Question, Round, TakePart, Watch, answer,
};

use cases::{Case, Script};

#[derive(Default)]
struct Stage {
    calls: Vec<String>,
    told: Vec<String>,
    stopped: bool,
}

struct Scripted<'a> {
    index: usize,
    case: &'a Case,
    stage: &'a RefCell<Stage>,
    made: BTreeMap<&'static str, usize>,
}

impl Scripted<'_> {
    fn script(&self) -> &Script {
        &self.case.members[self.index]
    }

    fn call(&mut self, name: &'static str, what: &str) -> Result<usize, MoveError> {
        let number = self.made.entry(name).or_default();
        *number += 1;
        let number = *number;
        let call = format!("{name} {number}");
        let mut stage = self.stage.borrow_mut();
        stage.calls.push(format!("{} {name}{what}", self.index));
        stage.stopped |= self.script().stops.as_ref() == Some(&call);
        let model = |error| MoveError::Local(MemberError::Model(error));
        match self.script().fails.get(&call) {
            None => Ok(number),
            Some(Failure::ContextFull) => Err(model(ModelError::ContextFull {
                needed: 2,
                context: 1,
                largest: 1,
            })),
            // The native driver assumes that all members share one.
            Some(Failure::Device) if self.case.on_one_device => {
                let reason = "scripted".to_owned();
                Err(model(ModelError::Gpu(GpuError::OutOfMemory { reason })))
            }
            Some(_) => Err(MoveError::Unknown("do this")),
        }
    }
}

impl TakePart for Scripted<'_> {
    fn name(&self) -> &str {
        ["0", "1", "2", "3"][self.index]
    }

    fn strength(&self) -> f64 {
        self.script().strength()
    }

    async fn measure(&self, _messages: &[Message]) -> Result<usize, MoveError> {
        Ok(1)
    }

    fn hold(&mut self, _form: Option<FormOf<'_>>) -> Result<(), MoveError> {
        Ok(())
    }

    async fn begin_while(
        &mut self,
        _messages: &[Message],
        _sampling: Sampling,
        _stream: u64,
        _go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        Ok(Begun {
            prefix: 1,
            run: 1,
            stopped: false,
        })
    }

    async fn think_while(
        &mut self,
        _go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MoveError> {
        Ok(Thought::default())
    }

    fn drafts(&self) -> bool {
        !self.script().judges_only
    }

    async fn draft(&mut self, limit: usize, branch: f64, novel: bool) -> Result<Draft, MoveError> {
        let novel = if novel { " novel" } else { "" };
        let number = self.call("draft", &format!(" {limit}{novel}"))?;
        let script = self.script();
        let draft = |text: &String| Draft {
            ended: text.ends_with('.'),
            tokens: text.chars().count(),
            text: text.clone(),
            second: None,
        };
        let text = &script.drafts[(number - 1).min(script.drafts.len() - 1)];
        let text = text.as_ref().ok_or_else(|| MoveError::Remote(late()))?;
        let second = script.seconds.get(text).filter(|_| branch > 0.0);
        Ok(Draft {
            second: second.map(|second| Box::new(draft(second))),
            ..draft(text)
        })
    }

    async fn verify(
        &mut self,
        candidates: &[Candidate],
        _settings: &Settings,
    ) -> Result<Vec<VerifiedScore>, MoveError> {
        let texts = candidates.iter().map(|one| format!(" {:?}", one.text));
        let number = self.call("verify", &texts.collect::<String>())?;
        if self.script().silent.contains(&number) {
            return Err(MoveError::Remote(late()));
        }
        let score = |one: &Candidate| VerifiedScore {
            score: Score {
                harmonic: Some(-self.script().surprises.get(&one.text).unwrap_or(&2.0)),
                ..Score::default()
            },
            tokens: one.text.chars().count(),
        };
        Ok(candidates.iter().map(score).collect())
    }

    async fn keep(&mut self, winner: usize) -> Result<(), MoveError> {
        self.call("keep", &format!(" {winner}")).map(|_| ())
    }

    fn release(&mut self) {
        let line = format!("{} release", self.index);
        self.stage.borrow_mut().calls.push(line);
    }
}

/// An error after which a member abstains.
fn late() -> RemoteError {
    RemoteError::Away {
        host: "nowhere".to_owned(),
        why: "scripted".to_owned(),
    }
}

struct Heard<'a>(&'a RefCell<Stage>);

impl Watch for Heard<'_> {
    fn round(&mut self, round: &Round, text: &str) {
        let mut stage = self.0.borrow_mut();
        let number = 1 + stage
            .told
            .iter()
            .filter(|line| line.starts_with("round"))
            .count();
        let writers = round
            .writers
            .iter()
            .map(|&one| round.drafters[one].to_string());
        let writers: Vec<String> = writers.collect();
        let exited = round.exited.iter().map(|one| format!(", {one} exits"));
        let line = format!(
            "round {number}: {text:?} by {}{}",
            writers.join(" and "),
            exited.collect::<String>()
        );
        stage.told.push(line);
    }

    fn left(&mut self, member: &str, left: &Left) {
        let line = format!("{member} leaves in round {}", left.round);
        self.0.borrow_mut().told.push(line);
    }

    fn go_on(&mut self) -> bool {
        !self.0.borrow().stopped
    }
}

fn play(case: &Case) {
    let name = &case.name;
    let settings = case.settings();
    let stage = RefCell::default();
    let scripted = |index| Scripted {
        index,
        case,
        stage: &stage,
        made: BTreeMap::new(),
    };
    let mut members: Vec<Scripted<'_>> = (0..case.members.len()).map(scripted).collect();
    let turns = case.turns.iter();
    let messages: Vec<Message> = turns.map(|text| Message::new("user", text)).collect();
    let ask = Ask {
        question: Question::Conversation(&messages),
        settings: &settings,
        sampling: Sampling::default(),
        limits: case.limits.clone(),
        form: None,
    };
    let said = pollster::block_on(answer(&mut members, &ask, &mut Heard(&stage)));
    let stage = stage.borrow();
    assert_eq!(stage.calls, case.calls, "{name}");
    assert_eq!(stage.told, case.told, "{name}");
    match said {
        Ok(said) => assert_eq!(
            (&said.text, said.stopped),
            (&case.text, &*case.end),
            "{name}"
        ),
        Err(AnswerError::Of { member, .. }) => {
            assert_eq!(format!("{member} fails"), case.end, "{name}");
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn every_case_is_driven_as_it_is_written() {
    let file = std::fs::read_to_string(cases::path()).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&file).unwrap();
    // Answers are only resumed in the page.
    for case in cases.iter().filter(|case| case.accepted.is_empty()) {
        play(case);
    }
}
