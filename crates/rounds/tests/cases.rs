//! The driver against every case of `tests/rounds/cases.json`, with scripted members. The rounds'
//! decisions are tested in `crates/ensemble/tests/ensemble/moves.rs`; here, that members make
//! exactly the moves of the state machine.

#[path = "../../ensemble/tests/cases/mod.rs"]
#[allow(dead_code, reason = "the recorded moves are the machine's own")]
mod cases;

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use conclave_ensemble::{Candidate, Failure, Score, Settings};
use conclave_kernels::GpuError;
use conclave_member::{Begun, Draft, MemberError, Message, Thought, VerifiedScore};
use conclave_model::{ModelError, Sampling, Threads};
use conclave_remote::RemoteError;
use conclave_rounds::{
    Answer, AnswerError, Ask, FormOf, Left, MoveError, Question, Round, TakePart, Watch, answer,
};

use cases::{Case, Script};

#[derive(Default)]
struct Stage {
    calls: Vec<String>,
    told: Vec<String>,
    stopped: bool,
}

/// A place where two threads wait for each other.
#[derive(Default)]
struct Meeting {
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    fn wait(&self) {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.changed.notify_all();
        let limit = Duration::from_secs(60);
        let all = self
            .changed
            .wait_timeout_while(arrived, limit, |arrived| *arrived < 2);
        assert!(
            !all.unwrap().1.timed_out(),
            "no other member drafts meanwhile"
        );
    }
}

struct Scripted<'a> {
    index: usize,
    case: &'a Case,
    stage: &'a Mutex<Stage>,
    threads: Threads,
    /// Where every draft waits for another's, if anywhere.
    meeting: Option<&'a Meeting>,
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
        let mut stage = self.stage.lock().unwrap();
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

    fn threads(&self) -> Threads {
        self.threads
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
        let fails = self.script().fails.contains_key("think 1");
        fails.then(|| self.call("think", "")).transpose()?;
        Ok(Thought::default())
    }

    fn drafts(&self) -> bool {
        !self.script().judges_only
    }

    async fn draft(&mut self, limit: usize, branch: f64, novel: bool) -> Result<Draft, MoveError> {
        self.meeting.into_iter().for_each(Meeting::wait);
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
        self.stage.lock().unwrap().calls.push(line);
    }
}

/// An error after which a member abstains.
fn late() -> RemoteError {
    RemoteError::Away {
        host: "nowhere".to_owned(),
        why: "scripted".to_owned(),
    }
}

struct Heard<'a>(&'a Mutex<Stage>);

impl Watch for Heard<'_> {
    fn round(&mut self, round: &Round, text: &str) {
        let mut stage = self.0.lock().unwrap();
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
        self.0.lock().unwrap().told.push(line);
    }

    fn go_on(&mut self) -> bool {
        !self.0.lock().unwrap().stopped
    }
}

/// Calls of concurrent members, sorted within each move.
fn sorted(calls: &[String]) -> Vec<String> {
    let move_of = |call: &String| call.split(' ').nth(1).map(str::to_owned);
    let mut calls = calls.to_vec();
    for one_move in calls.chunk_by_mut(|a, b| move_of(a) == move_of(b)) {
        one_move.sort();
    }
    calls
}

/// Lets members with these threads each answer as a case has it.
fn run(
    case: &Case,
    threads: Threads,
    meeting: Option<&Meeting>,
) -> (Result<Answer, AnswerError>, Stage) {
    let settings = case.settings();
    let stage = Mutex::<Stage>::default();
    let scripted = |index| Scripted {
        index,
        case,
        stage: &stage,
        threads,
        meeting,
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
    drop(members);
    (said, stage.into_inner().unwrap())
}

/// Plays a case by members with these threads each.
fn play(case: &Case, threads: Threads, meeting: Option<&Meeting>) {
    let name = &case.name;
    let (said, stage) = run(case, threads, meeting);
    match threads {
        Threads::ONE => assert_eq!(stage.calls, case.calls, "{name}"),
        _ => assert_eq!(sorted(&stage.calls), sorted(&case.calls), "{name}"),
    }
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

/// The cases but those of answers that are resumed, which only the page does.
fn cases() -> Vec<Case> {
    let file = std::fs::read_to_string(cases::path()).unwrap();
    let mut cases: Vec<Case> = serde_json::from_str(&file).unwrap();
    cases.retain(|case| case.accepted.is_empty());
    cases
}

#[test]
fn every_case_is_driven_as_it_is_written() {
    for case in cases() {
        play(&case, Threads::ONE, None);
        play(&case, Threads::new(4), None);
    }
}

#[test]
fn members_with_threads_draft_at_the_same_time() {
    let both_draft = |case: &&Case| {
        let drafts =
            |(member, call): (usize, &String)| call.starts_with(&format!("{member} draft"));
        case.members.len() == 2 && case.calls.iter().take(2).enumerate().all(drafts)
    };
    let all = cases();
    let case = all.iter().find(both_draft).unwrap();
    play(case, Threads::new(2), Some(&Meeting::default()));
}

#[test]
fn a_member_that_fails_as_it_thinks_leaves_the_answer_to_the_others() {
    let mut cases = cases().into_iter();
    let is_plain = |case: &Case| {
        case.members.len() == 2 && case.members.iter().all(|member| member.fails.is_empty())
    };
    let mut case = cases.find(is_plain).unwrap();
    let fails = |case: &mut Case, index: usize| {
        let fails = &mut case.members[index].fails;
        fails.insert("think 1".to_owned(), Failure::ContextFull);
    };
    fails(&mut case, 1);
    let (said, stage) = run(&case, Threads::ONE, None);
    assert_eq!(stage.told[0], "1 leaves in round 1");
    assert!(!said.unwrap().text.is_empty());
    fails(&mut case, 0);
    let (said, _) = run(&case, Threads::ONE, None);
    assert!(matches!(said, Err(AnswerError::Of { member, .. }) if member == "1"));
}
