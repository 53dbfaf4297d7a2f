//! The rounds as moves: scripted members play every case of `tests/rounds/cases.json`, which the
//! drivers play as well (`crates/rounds/tests/cases.rs`, `web/src/worker/round.test.ts`).
//!
//! `CONCLAVE_WRITE=1` writes the events and moves of each case, against which the TypeScript driver
//! is tested without the machine.

use crate::cases;

use std::collections::BTreeMap;

use conclave_ensemble::{Draft, Event, Failed, Move, Query, Rounds, Score, VerifiedScore};
use serde_json::{Value, json};

use crate::cases::{Case, Script};

/// A member that follows its script.
struct Scripted<'a> {
    index: usize,
    script: &'a Script,
    made: BTreeMap<&'static str, usize>,
}

struct Stage {
    calls: Vec<String>,
    stopped: bool,
}

impl Scripted<'_> {
    /// Records a call; returns its number among the member's calls of that name, from 1. Fails
    /// where the script says so.
    fn call(&mut self, name: &'static str, what: &str, stage: &mut Stage) -> Result<usize, Failed> {
        let number = self.made.entry(name).or_default();
        *number += 1;
        stage.calls.push(format!("{} {name}{what}", self.index));
        let call = format!("{name} {number}");
        stage.stopped |= self.script.stops.as_ref() == Some(&call);
        match self.script.fails.get(&call) {
            Some(&kind) => Err(Failed {
                member: self.index,
                kind,
            }),
            None => Ok(*number),
        }
    }

    fn draft(
        &mut self,
        tokens: usize,
        branch: f64,
        novel: bool,
        stage: &mut Stage,
    ) -> Result<Option<Draft>, Failed> {
        let novel = if novel { " novel" } else { "" };
        let number = self.call("draft", &format!(" {tokens}{novel}"), stage)?;
        let drafts = &self.script.drafts;
        let draft = |text: &String| Draft {
            ended: text.ends_with('.'),
            tokens: text.chars().count(),
            text: text.clone(),
            second: None,
        };
        let text = &drafts[(number - 1).min(drafts.len() - 1)];
        Ok(text.as_ref().map(|text| {
            let second = self.script.seconds.get(text).filter(|_| branch > 0.0);
            Draft {
                second: second.map(|second| Box::new(draft(second))),
                ..draft(text)
            }
        }))
    }

    fn verify(
        &mut self,
        candidates: &[conclave_ensemble::Candidate],
        stage: &mut Stage,
    ) -> Result<Vec<VerifiedScore>, Failed> {
        let texts = candidates.iter().map(|one| format!(" {:?}", one.text));
        let number = self.call("verify", &texts.collect::<String>(), stage)?;
        if self.script.silent.contains(&number) {
            return Ok(Vec::new());
        }
        let score = |one: &conclave_ensemble::Candidate| {
            let nats = self.script.surprises.get(&one.text).copied().unwrap_or(2.0);
            VerifiedScore {
                score: Score {
                    harmonic: Some(-nats),
                    ..Score::default()
                },
                tokens: one.text.chars().count(),
            }
        };
        Ok(candidates.iter().map(score).collect())
    }
}

fn outcome<T>(made: Vec<Result<T, Failed>>, event: impl FnOnce(Vec<T>) -> Event) -> Event {
    let failed: Vec<Failed> = made
        .iter()
        .filter_map(|one| one.as_ref().err())
        .copied()
        .collect();
    match failed.is_empty() {
        true => event(made.into_iter().flatten().collect()),
        false => Event::Failed(failed),
    }
}

/// Results of a move, one after the other; `in_turn` until one fails.
fn each<'a, 'b, T>(
    members: &mut [Scripted<'a>],
    who: &[usize],
    in_turn: bool,
    mut make: impl FnMut(&mut Scripted<'a>) -> Result<T, Failed> + 'b,
) -> Vec<Result<T, Failed>> {
    let mut made = Vec::new();
    for &member in who {
        let one = make(&mut members[member]);
        let failed = one.is_err();
        made.push(one);
        if in_turn && failed {
            break;
        }
    }
    made
}

/// Events of a case.
struct Played {
    calls: Vec<String>,
    told: Vec<String>,
    text: String,
    end: String,
    moves: Vec<[Value; 2]>,
}

fn play(case: &Case) -> Played {
    let mut query = Query::new(case.members.len(), case.settings()).unwrap();
    let strengths: Vec<f64> = case.members.iter().map(Script::strength).collect();
    query
        .trust(&strengths, &vec![true; strengths.len()])
        .unwrap();
    query.ask(case.turns.iter().map(String::as_str));
    let mut rounds = Rounds::new(query, case.limits.clone(), case.on_one_device);
    let mut text = String::new();
    for segment in &case.accepted {
        text += &rounds.resume(segment, segment.chars().count());
    }
    let scripted = case.members.iter().enumerate();
    let mut members: Vec<Scripted<'_>> = scripted
        .map(|(index, script)| Scripted {
            index,
            script,
            made: BTreeMap::new(),
        })
        .collect();
    let mut stage = Stage {
        calls: Vec::new(),
        stopped: false,
    };
    let (mut told, mut moves) = (Vec::new(), Vec::new());
    let mut event = Event::Begun {
        drafts: case.members.iter().map(|one| !one.judges_only).collect(),
        failed: Vec::new(),
    };
    let end = loop {
        let mut ask = |event: Event, rounds: &mut Rounds| {
            let said = serde_json::to_value(Wire::from(&event)).unwrap();
            let next = rounds.next(event).unwrap();
            moves.push([said, rounded(serde_json::to_value(&next).unwrap())]);
            next
        };
        let mut next = ask(event, &mut rounds);
        let waits = matches!(
            next,
            Move::Draft { .. } | Move::Verify { .. } | Move::Keep { .. }
        );
        if waits && stage.stopped {
            next = ask(Event::Stopped, &mut rounds);
        }
        event = match next {
            Move::Draft {
                members: who,
                tokens,
                branch,
                novel,
                in_turn,
            } => {
                let drafts = each(&mut members, &who, in_turn, |one| {
                    one.draft(tokens, branch, novel, &mut stage)
                });
                outcome(drafts, Event::Drafted)
            }
            Move::Verify {
                members: who,
                candidates,
                in_turn,
            } => {
                let verify = |one: &mut Scripted<'_>| one.verify(&candidates, &mut stage);
                outcome(each(&mut members, &who, in_turn, verify), Event::Verified)
            }
            Move::Keep {
                members: who,
                winner,
            } => {
                let what = format!(" {winner}");
                let keep = |one: &mut Scripted<'_>| one.call("keep", &what, &mut stage);
                outcome(each(&mut members, &who, false, keep), |_| Event::Kept)
            }
            Move::Round { round } => {
                let writers = round
                    .writers
                    .iter()
                    .map(|&one| round.drafters[one].to_string());
                let writers: Vec<String> = writers.collect();
                let exited = round.exited.iter().map(|one| format!(", {one} exits"));
                told.push(format!(
                    "round {}: {:?} by {}{}",
                    round.round,
                    round.text,
                    writers.join(" and "),
                    exited.collect::<String>()
                ));
                for member in &round.exited {
                    stage.calls.push(format!("{member} release"));
                }
                text += &round.text;
                Event::Next
            }
            Move::Leave { member, round } => {
                told.push(format!("{member} leaves in round {round}"));
                stage.calls.push(format!("{member} release"));
                Event::Next
            }
            Move::Fail { member } => break format!("{member} fails"),
            Move::Done { stop } => break stop.name().to_owned(),
        };
    };
    text += &rounds.rest();
    Played {
        calls: stage.calls,
        told,
        text,
        end,
        moves,
    }
}

/// Rounded to six digits, on which all machines agree.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            json!((number.as_f64().unwrap() * 1e6).round() / 1e6)
        }
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, rounded(value)));
            Value::Object(fields.collect())
        }
        value => value,
    }
}

/// An event as drivers in JavaScript write it.
struct Wire(Value);

impl From<&Event> for Wire {
    fn from(event: &Event) -> Self {
        Self(match event {
            Event::Begun { drafts, failed } => {
                json!({ "begun": { "drafts": drafts, "failed": failed } })
            }
            Event::Drafted(drafts) => json!({ "drafted": drafts }),
            Event::Verified(scores) => json!({ "verified": scores }),
            Event::Failed(failed) => json!({ "failed": failed }),
            Event::Kept => json!("kept"),
            Event::Next => json!("next"),
            Event::Stopped => json!("stopped"),
        })
    }
}

impl serde::Serialize for Wire {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The table as JSON, one line per field and per move.
fn table(cases: &[Value]) -> String {
    let fields = [
        "name",
        "members",
        "settings",
        "turns",
        "limits",
        "onOneDevice",
        "accepted",
        "calls",
        "told",
        "text",
        "end",
    ];
    let case = |case: &Value| {
        let written = fields.iter().filter(|field| !case[*field].is_null());
        let written = written.map(|field| format!("  {field:?}: {},\n", case[*field]));
        let moves = case["moves"].as_array().unwrap().iter();
        let moves: Vec<String> = moves.map(|pair| format!("    {pair}")).collect();
        let (written, moves) = (written.collect::<String>(), moves.join(",\n"));
        format!(" {{\n{written}  \"moves\": [\n{moves}\n  ]\n }}")
    };
    let cases: Vec<String> = cases.iter().map(case).collect();
    format!("[\n{}\n]\n", cases.join(",\n"))
}

#[test]
fn every_case_is_played_as_it_is_written() {
    let path = cases::path();
    let mut written: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let write = std::env::var_os("CONCLAVE_WRITE").is_some();
    for value in &mut written {
        let case: Case = serde_json::from_value(value.clone()).unwrap();
        let played = play(&case);
        let name = &case.name;
        println!(
            "{name}: {:?} {:?} {:?} {}",
            played.calls, played.told, played.text, played.end
        );
        assert_eq!(played.calls, case.calls, "{name}");
        assert_eq!(played.told, case.told, "{name}");
        assert_eq!((played.text, played.end), (case.text, case.end), "{name}");
        match write {
            true => value["moves"] = serde_json::to_value(played.moves).unwrap(),
            false => assert_eq!(
                played.moves, case.moves,
                "{name}: CONCLAVE_WRITE=1 writes them"
            ),
        }
        for [event, _] in &case.moves {
            let read: Event = serde_json::from_value(event.clone()).unwrap();
            assert_eq!(
                &serde_json::to_value(Wire::from(&read)).unwrap(),
                event,
                "{name}"
            );
        }
    }
    if write {
        std::fs::write(path, table(&written)).unwrap();
    }
}
