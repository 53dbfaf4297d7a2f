//! `conclave eval` as users run it: task files, resumed records, and figures that match the
//! recorded answers.

mod records;

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

const QUESTIONS: &str = r#"
{"id": "sum", "question": "What is 12 + 30?", "answer": ["42", "forty-two"]}
{"id": "less", "question": "What is 58 - 23?", "answer": {"regex": "Answer: 35\\.$"}}
{"id": "never", "question": "What is 5 + 6?", "answer": "no such words"}
"#;

fn eval(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["--device", "cpu", "eval", "--workers", "1"])
        .args(args)
        .output()
        .expect("the tool starts")
}

fn json_of(args: &[&str]) -> Value {
    let output = eval(&[args, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failure_of(args: &[&str]) -> String {
    let output = eval(args);
    assert!(!output.status.success(), "{args:?} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

/// A file of this test, whose name ends in `name`.
fn path(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("conclave-eval-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn written(name: &str, content: &str) -> String {
    std::fs::write(path(name), content).unwrap();
    path(name).to_string_lossy().into_owned()
}

/// A path without a file.
fn free(name: &str) -> String {
    let _ = std::fs::remove_file(path(name));
    path(name).to_string_lossy().into_owned()
}

fn lines(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The answers, without what varies between runs.
fn answers(record: &str) -> Vec<Value> {
    let mut lines = lines(record);
    for line in &mut lines {
        without_noise(line);
    }
    lines.split_off(1)
}

/// Removes times and scores, whose last digits depend on how much of a conversation was read at
/// once.
fn without_noise(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for noise in ["seconds", "scores", "normalised", "totals", "weights"] {
                fields.remove(noise);
            }
            fields.values_mut().for_each(without_noise);
        }
        Value::Array(list) => list.iter_mut().for_each(without_noise),
        _ => (),
    }
}

fn way<'a>(report: &'a Value, name: &str) -> &'a Value {
    let ways = report["figures"]["ways"].as_array().unwrap();
    let way = ways.iter().find(|way| way["name"] == name);
    way.unwrap_or_else(|| panic!("no {name}: {report}"))
}

#[test]
fn figures_are_those_of_the_recorded_answers() {
    let tasks = written("figures.jsonl", QUESTIONS);
    let record = free("figures-record.jsonl");
    let report = json_of(&[
        "--tasks",
        &tasks,
        "--rules",
        "paper,paper+scoring=likelihood",
        "--baselines",
        "--record",
        &record,
    ]);
    let answers = lines(&record).split_off(1);
    assert_eq!(answers.len(), 3);
    let names = ["Ada", "Quill", "Juno"];
    let count = |of: &dyn Fn(&Value) -> bool| answers.iter().filter(|line| of(line)).count();
    for (index, name) in names.iter().enumerate() {
        for how in ["greedy", "sampled"] {
            let row = way(&report, &format!("{name} alone, {how}"));
            let right = count(&|line| line["alone"][index][how]["right"] == true);
            assert_eq!(row["right"], right, "{name}, {how}");
        }
        assert!(way(&report, &format!("{name}, majority of its samples"))["percent"].is_f64());
    }
    // All three members can add, and no answer is `no such words`.
    let ada = way(&report, "Ada alone, greedy");
    assert_eq!(ada["right"], 2);
    assert_eq!(ada["groups"], json!({ "figures": 200.0 / 3.0 }));
    assert_eq!(ada["interval"], json!({ "low": 0.0, "high": 100.0 }));
    for (index, rule) in ["paper", "paper+scoring=likelihood"].iter().enumerate() {
        let row = way(&report, &format!("ensemble, {rule}"));
        assert_eq!(
            row["right"],
            count(&|line| line["rules"][index]["right"] == true)
        );
        let tokens = |line: &Value| line["rules"][index]["tokens"].as_f64().unwrap();
        let mean = answers.iter().map(tokens).sum::<f64>() / 3.0;
        assert!((row["tokens"].as_f64().unwrap() - mean).abs() < 1e-9);
        // Each of three members drafts and verifies: more expensive than any of them alone.
        assert!(mean > 2.0 * ada["tokens"].as_f64().unwrap());
        let rounds = &report["figures"]["rules"][index];
        let won = |segments: &Value| segments["won"].as_u64().unwrap();
        let segments = rounds["segments"].as_array().unwrap();
        assert_eq!(rounds["rounds"], segments.iter().map(won).sum::<u64>());
        assert_eq!(
            (&rounds["active"], &rounds["saved"]),
            (&json!(3.0), &json!(0.0))
        );
    }
    // Samples were drawn until they cost as much as the ensemble under the first rule, and no
    // further.
    for line in &answers {
        let paid = |samples: &[Value]| {
            let tokens = samples.iter().map(|one| one["tokens"].as_u64().unwrap());
            tokens.sum::<u64>()
        };
        for alone in line["alone"].as_array().unwrap() {
            let samples = alone["samples"].as_array().unwrap();
            let budget = line["rules"][0]["tokens"].as_u64().unwrap();
            assert!(paid(samples) >= budget && paid(&samples[..samples.len() - 1]) < budget);
            assert!(alone["surprise"].as_f64().unwrap() > 0.0);
        }
    }
    let text = String::from_utf8(eval(&["--tasks", &tasks, "--limit", "1"]).stdout).unwrap();
    assert!(text.starts_with("| % right of 1 | all |"), "{text}");
    assert!(
        text.contains("\n| **ensemble, harmonic** | 100.0 |"),
        "{text}"
    );
}

/// The answer to a question doesn't depend on earlier questions.
#[test]
fn questions_are_independent() {
    let (both, one) = (free("both.jsonl"), free("one.jsonl"));
    let tasks = written("independent.jsonl", QUESTIONS);
    json_of(&["--tasks", &tasks, "--samples", "2", "--record", &both]);
    let last: Vec<&str> = QUESTIONS.trim().lines().skip(2).collect();
    written("independent.jsonl", last[0]);
    json_of(&["--tasks", &tasks, "--samples", "2", "--record", &one]);
    assert_eq!(answers(&one), answers(&both)[2..]);
}

#[test]
fn limits_and_failures_are_told_and_end_nothing() {
    let long = "word ".repeat(80);
    let tasks = [
        json!({"question": long, "answer": "word"}),
        json!({"question": "What is 12 + 30?", "answer": "42"}),
    ];
    let tasks = tasks.map(|task| task.to_string()).join("\n");
    let tasks = written("limits.jsonl", &tasks);
    let record = free("limits-record.jsonl");
    let report = json_of(&["--tasks", &tasks, "--context", "100", "--record", &record]);
    for name in [
        "Quill alone, greedy",
        "ensemble, harmonic",
        "majority of greedy answers",
    ] {
        let row = way(&report, name);
        assert_eq!(
            (&row["failed"], &row["right"]),
            (&json!(1), &json!(1)),
            "{name}"
        );
    }
    let first = &answers(&record)[0]["alone"][0]["greedy"];
    assert!(
        first["error"].as_str().unwrap().contains("context"),
        "{first}"
    );

    let short = json_of(&["--tasks", &tasks, "--tokens", "4", "--greedy"]);
    for name in ["Ada alone, greedy", "ensemble, harmonic"] {
        assert_eq!(way(&short, name)["cut"], 100.0, "{name}");
    }
}

/// Members alone and the ensemble have the same token limit, however short the rounds.
#[test]
fn members_and_ensemble_have_the_same_room() {
    let tasks = written("room.jsonl", QUESTIONS);
    let record = free("room-record.jsonl");
    let rules = "harmonic+segmentTokens=1,harmonic+segmentTokens=1+maxRounds=2";
    let report = json_of(&[
        "--tasks", &tasks, "--tokens", "12", "--greedy", "--rules", rules, "--record", &record,
    ]);
    let settings = |rule: usize| &report["run"]["rules"][rule]["settings"];
    assert_eq!(settings(0)["maxRounds"], 10_000);
    assert_eq!(settings(0)["maxCharacters"], 1_000_000);
    assert_eq!(settings(1)["maxRounds"], 2, "where it is asked for");
    for line in answers(&record) {
        // A round adds a token: twelve of them, where two rounds end the other answer.
        assert_eq!(line["rules"][0]["rounds"], 12, "{line}");
        assert_eq!(line["rules"][1]["rounds"], 2, "{line}");
        assert_eq!(line["rules"][0]["cut"], true);
        assert_eq!(line["alone"][0]["greedy"]["cut"], true);
    }
}

#[test]
fn members_read_the_whole_conversation() {
    let last = json!({"role": "user", "content": "What is 12 + 30?"});
    let turns = json!([
        {"role": "user", "content": "What is 58 - 23?"},
        {"role": "assistant", "content": "Answer: 35."},
        last,
    ]);
    let tasks = [
        json!({"id": "one", "messages": [last], "answer": "42"}),
        json!({"id": "three", "messages": turns, "answer": "42"}),
        json!({"id": "question", "question": "What is 12 + 30?", "answer": "42"}),
    ];
    let tasks = tasks.map(|task| task.to_string()).join("\n");
    let tasks = written("turns.jsonl", &tasks);
    let record = free("turns-record.jsonl");
    let baselines = [
        "--tasks",
        &tasks,
        "--greedy",
        "--baselines",
        "--record",
        &record,
    ];
    json_of(&baselines);
    let lines = answers(&record);
    let surprise = |line: &Value| line["alone"][0]["surprise"].as_f64().unwrap();
    let answer = |line: &Value| line["alone"][0]["greedy"]["text"].clone();
    assert_eq!(answer(&lines[0]), answer(&lines[2]));
    assert_eq!(surprise(&lines[0]), surprise(&lines[2]));
    assert_ne!(
        surprise(&lines[1]),
        surprise(&lines[2]),
        "turns stand before it"
    );
    assert_eq!(lines[1]["messages"], turns);
    assert_eq!(lines[1]["question"], "What is 12 + 30?");
    assert!(lines[0].get("messages").is_none(), "{}", lines[0]);

    // The same question after other turns is another question.
    let changed = std::fs::read_to_string(&tasks)
        .unwrap()
        .replace("58 - 23", "58 - 24");
    std::fs::write(&tasks, changed).unwrap();
    json_of(&[&baselines[..], &["--resume"]].concat());
    assert_eq!(self::lines(&record).len(), 5, "it was asked anew");
}

#[test]
fn code_is_run_and_open_questions_have_no_right_answer() {
    let tasks = [
        // The members write no Python: their answer is put in a string that the test inspects.
        json!({"id": "runs", "question": "What is 12 + 30?",
            "answer": {"python": "\"\"\"\nassert '42' in text", "prefix": "text = \"\"\""}}),
        json!({"id": "fails", "question": "What is 12 + 30?",
            "answer": {"python": "assert False"}}),
        json!({"id": "open", "question": "What is 12 + 30?", "answer": {"open": true}}),
    ];
    let tasks = tasks.map(|task| task.to_string()).join("\n");
    let tasks = written("code.jsonl", &tasks);
    let record = free("code-record.jsonl");
    let report = json_of(&["--tasks", &tasks, "--greedy", "--record", &record]);
    let lines = answers(&record);
    let right = |line: &Value| line["alone"][0]["greedy"]["right"] == true;
    assert!(right(&lines[0]), "{}", lines[0]);
    assert!(right(&lines[0]), "{}", lines[0]);
    assert!(!right(&lines[1]) && !right(&lines[2]), "{lines:?}");
    assert!(lines[1]["code"].is_string() && lines[2]["open"] == true);
    assert_eq!(report["figures"]["asked"], 3);

    let skipped = json_of(&["--tasks", &tasks, "--skip-code"]);
    assert_eq!(skipped["figures"]["asked"], 1);
    let only = std::fs::read_to_string(&tasks).unwrap();
    let only = written("code-only.jsonl", only.lines().next().unwrap());
    assert!(failure_of(&["--tasks", &only, "--skip-code"]).contains("without --skip-code"));

    // Without an interpreter nothing is asked.
    let never = free("code-never.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args([
            "--device", "cpu", "eval", "--tasks", &only, "--record", &never,
        ])
        .env("PATH", "")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("--skip-code"),
        "{said}"
    );
    assert!(!path("code-never.jsonl").exists(), "no record was begun");
}

#[test]
fn members_that_leave_save_calls() {
    let tasks = written("exit.jsonl", QUESTIONS);
    let report = json_of(&[
        "--tasks",
        &tasks,
        "--segment-tokens",
        "10",
        "--exit-warmup",
        "1",
        "--exit-temperature",
        "0.01",
        "--exit-threshold",
        "1",
    ]);
    let rounds = &report["figures"]["rules"][0];
    assert!(rounds["active"].as_f64().unwrap() < 3.0, "{rounds}");
    assert!(rounds["saved"].as_f64().unwrap() > 0.0, "{rounds}");
    assert_eq!(way(&report, "ensemble, harmonic")["failed"], 0);
}

#[test]
fn draws_differ_by_seed_and_open_answers_are_scored_by_the_reference() {
    let open = json!({"id": "open", "question": "What is 7 + 8?", "answer": {"open": true}});
    let tasks = written("draws.jsonl", &[QUESTIONS, &open.to_string()].concat());
    let record = free("draws-record.jsonl");
    let args = [
        "--tasks",
        &tasks,
        "--greedy",
        "--temperature",
        "1.5",
        "--seed",
        "4",
        "--draws",
        "4,5",
        "--reference",
        "Ada",
        "--record",
        &record,
    ];
    let report = json_of(&args);
    let lines = answers(&record);
    // The ensemble's own answer is greedy; the draw with the run's seed equals that of the members
    // alone.
    let draws = |line: &Value| line["draws"].as_array().unwrap().clone();
    assert!(lines.iter().all(|line| draws(line).len() == 2));
    for line in &lines {
        for member in 0..3 {
            assert_eq!(
                draws(line)[0]["alone"][member],
                line["alone"][member]["sampled"]
            );
        }
    }
    assert!(
        lines
            .iter()
            .any(|line| draws(line)[0]["alone"] != draws(line)[1]["alone"])
    );
    let rows = report["figures"]["draws"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let right = |line: &Value, draw: usize| line["draws"][draw]["alone"][0]["right"] == true;
    let count = |draw: usize| lines.iter().filter(|line| right(line, draw)).count();
    let percent = 100.0 * (count(0) + count(1)) as f64 / 6.0;
    assert!((rows[0]["percent"].as_f64().unwrap() - percent).abs() < 1e-9);

    // The same answer has another log-probability under another reference; only open answers are
    // scored.
    let other = free("draws-other.jsonl");
    json_of(&[
        "--tasks",
        &tasks,
        "--greedy",
        "--reference",
        "Quill",
        "--record",
        &other,
    ]);
    let (last, figures) = (&lines[3], &report["figures"]);
    let given = |line: &Value| line["alone"][0]["greedy"].clone();
    let nats = |given: Value| given["surprise"]["nats"].as_f64().unwrap();
    let (own, others) = (given(last), given(&answers(&other)[3]));
    assert_eq!(own["text"], others["text"]);
    assert_eq!(
        own["surprise"]["bytes"],
        own["text"].as_str().unwrap().len()
    );
    let own = nats(own);
    assert!((own - nats(others)).abs() > 1e-6 && own > 0.0, "{own}");
    assert!(given(&lines[0]).get("surprise").is_none());
    assert_eq!(
        (&figures["open"], &figures["asked"]),
        (&json!(1), &json!(4))
    );
    let ada = &figures["openWays"][0];
    let tokens = last["alone"][0]["greedy"]["surprise"]["tokens"]
        .as_f64()
        .unwrap();
    assert!((ada["natsPerToken"].as_f64().unwrap() - own / tokens).abs() < 1e-9);

    let refused = |more: &[&str]| failure_of(&[&["--tasks", tasks.as_str()], more].concat());
    assert!(refused(&["--reference", "Bo"]).contains("Ada, Quill, Juno"));
    assert!(refused(&["--draws", "1,1"]).contains("twice"));
    assert!(refused(&["--draws", "1", "--temperature", "0"]).contains("--temperature"));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let tasks = written("refused.jsonl", QUESTIONS);
    let broken = written("broken.jsonl", "\n{\"question\": \"Why?\"}");
    let said = failure_of(&["--tasks", &tasks, &broken]);
    assert!(
        said.contains("broken.jsonl, line 2: missing field `answer`"),
        "{said}"
    );
    assert!(failure_of(&["--tasks", &tasks, &tasks]).contains("rename"));
    assert!(failure_of(&["--tasks", "no-such-file.jsonl"]).contains("no-such-file.jsonl"));
    assert!(
        failure_of(&["--tasks", &tasks, "--rules", "loud"])
            .contains("choose one of harmonic, leader, paper")
    );
    let refused = |rule: &str| failure_of(&["--tasks", &tasks, "--rules", rule]);
    assert!(refused("paper+loudness=3").contains("unknown field `loudness`"));
    assert!(refused("paper+fast").contains("SWITCH=VALUE"));
    assert!(refused("paper+segmentTokens=99").contains("from 1 to 64"));
    let cold = ["--tasks", &tasks, "--temperature", "0", "--samples", "3"];
    assert!(failure_of(&cold).contains("--temperature"));
    assert!(failure_of(&["--tasks", &tasks, "--samples", "all"]).contains("equal"));
    assert!(failure_of(&["--tasks", &tasks, "--resume"]).contains("--record"));
    assert!(failure_of(&["--tasks", &tasks, "--count", "3"]).contains("cannot be used with"));
}

#[test]
fn measured_strengths_are_written_and_trusted() {
    let questions = written("trust.jsonl", QUESTIONS);
    let trust = free("trust.json");
    let report = json_of(&["--tasks", &questions, "--greedy", "--write-trust", &trust]);
    let measured: Value = serde_json::from_str(&std::fs::read_to_string(&trust).unwrap()).unwrap();
    for member in ["Ada", "Quill", "Juno"] {
        let right = &way(&report, &format!("{member} alone, greedy"))["right"];
        assert_eq!(measured[member], json!({"right": right, "asked": 3}));
    }
    // Only Juno adds 5 + 6 in its own way; with enough trust it outvotes the two others.
    let sure = json!({"Ada": {"right": 0, "asked": 99}, "Quill": {"right": 0, "asked": 99},
        "Juno": {"right": 99, "asked": 99}});
    let sure = written("sure.json", &sure.to_string());
    let record = free("trusted.jsonl");
    json_of(&[
        "--tasks", &questions, "--greedy", "--trust", &sure, "--record", &record,
    ]);
    let outcomes = &lines(&record)[1..];
    let alone = |outcome: &Value, member: usize| outcome["alone"][member]["greedy"]["text"].clone();
    assert!(
        outcomes
            .iter()
            .any(|outcome| alone(outcome, 0) != alone(outcome, 2))
    );
    for outcome in outcomes {
        assert_eq!(outcome["rules"][0]["text"], alone(outcome, 2), "{outcome}");
    }
    let some = written("some.json", r#"{"Ada": {"right": 1, "asked": 2}}"#);
    let told = failure_of(&["--tasks", &questions, "--trust", &some]);
    assert!(told.contains("Quill is not in it; it has Ada"), "{told}");
    assert!(told.contains("--write-trust"), "{told}");
}
