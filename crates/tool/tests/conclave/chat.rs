//! Answers of the bundled members: votes, leaders, records, conversations, forms.

use std::process::Command;

use serde_json::{Value, json};

use crate::{failure_of, json_of, member, run, written};

/// A question that Ada knows.
const SUM: [&str; 3] = ["chat", "What is 12 + 30?", "--greedy"];

/// Three bundled members answer, and the recorded run replays to the same weights.
#[test]
fn the_bundled_members_answer_and_the_record_replays() {
    let file = written("record.json", "");
    let args = ["chat", "What is 12 + 30?", "--record", &file, "--seed", "3"];
    let answer = json_of(&args);
    assert_eq!(answer["members"].as_array().unwrap().len(), 3);
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(recorded["sampling"]["seed"], 3);
    let rounds = answer["rounds"].as_array().unwrap();
    let joined: String = rounds
        .iter()
        .map(|round| {
            let winner = round["winner"].as_u64().unwrap() as usize;
            round["candidates"][winner]["text"].as_str().unwrap()
        })
        .collect();
    assert_eq!(answer["answer"], joined);
    assert!(!joined.is_empty());
    assert_eq!(
        json_of(&args)["answer"],
        joined,
        "the same seed, the same text"
    );

    let replayed = json_of(&["replay", &file]);
    for (played, recorded) in replayed["rounds"].as_array().unwrap().iter().zip(rounds) {
        assert_eq!(played["winner"], recorded["winner"]);
        assert_eq!(played["weights"], recorded["weights"]);
    }
    let alone = json_of(&["chat", "What is 12 + 30?", "--member", "quill"]);
    assert_eq!(alone["members"], json!(["Quill"]));
}

#[test]
fn one_of_two_members_of_the_same_name_is_asked() {
    let two = format!("{0},{0}", member());
    let asked = |name: &str| {
        let of_two = ["--members", &two, "--member", name];
        json_of(&[&SUM[..], &of_two].concat())["members"].clone()
    };
    assert_eq!(asked("ADA"), json!(["ada"]));
    assert_eq!(asked("ada-2"), json!(["ada-2"]));
    let of_two = ["--members", &two, "--member", "Bo", "--device", "cpu"];
    let said = failure_of(&[&SUM[..], &of_two].concat());
    assert!(said.contains("there are ada, ada-2"), "{said}");
}

/// A leader, whichever member it is, drafts alone if it is never doubted, and never if it always
/// is.
#[test]
fn a_leader_drafts_alone_and_what_is_doubted_is_drafted_by_all() {
    let file = written("led.json", "");
    let ask = |doubt: &str| {
        let leader = ["--rule", "leader", "--doubt", doubt, "--record", &file];
        json_of(&[&SUM[..], &leader].concat())
    };
    let trusted = ask("1000");
    let rounds = trusted["rounds"].as_array().unwrap();
    assert!(!rounds.is_empty());
    for round in rounds {
        assert_eq!(round["drafters"], json!([0]));
        assert_eq!(round["active"], json!([0, 1, 2]));
        assert_eq!(round["candidates"].as_array().unwrap().len(), 1);
        assert_eq!(round["scores"].as_array().unwrap().len(), 3);
        assert_eq!(
            (&round["normalised"], &round["winner"]),
            (&json!([]), &json!(0))
        );
    }
    let alone = json_of(&[
        "--device",
        "cpu",
        "chat",
        "What is 12 + 30?",
        "--greedy",
        "--member",
        "ada",
    ]);
    assert_eq!(trusted["answer"], alone["answer"]);
    assert_eq!(
        json_of(&["replay", &file])["rounds"],
        json!([]),
        "there was no vote"
    );

    let doubted = ask("0");
    let all = json_of(&["--device", "cpu", "chat", "What is 12 + 30?", "--greedy"]);
    assert_eq!(doubted["answer"], all["answer"]);
    for (doubted, all) in doubted["rounds"]
        .as_array()
        .unwrap()
        .iter()
        .zip(all["rounds"].as_array().unwrap())
    {
        assert_eq!(doubted["drafters"], json!([0, 1, 2]));
        for part in ["candidates", "winner", "weights"] {
            assert_eq!(doubted[part], all[part], "{part}");
        }
    }
    assert_eq!(
        json_of(&["replay", &file])["rounds"]
            .as_array()
            .unwrap()
            .len(),
        doubted["rounds"].as_array().unwrap().len()
    );

    // Votes name the leader, at any index.
    let shown = run(&[
        "--device",
        "cpu",
        "chat",
        "What is 12 + 30?",
        "--greedy",
        "--rule",
        "leader",
        "--doubt",
        "1000",
        "--show-votes",
    ]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("* Ada") && shown.contains("leads; no member doubts it"),
        "{shown}"
    );
}

#[test]
fn the_strongest_member_answers_alone_while_it_is_sure() {
    let strengths = json!({
        "Ada": {"right": 9, "asked": 10}, "Quill": {"right": 1, "asked": 10},
        "Juno": {"right": 1, "asked": 10},
    });
    let trust = written("strengths.json", &strengths.to_string());
    let file = written("alone.json", "");
    let ask = |nats: &str| {
        let trusted = ["--trust", &trust, "--alone", nats, "--record", &file];
        json_of(&[&SUM[..], &trusted].concat())
    };
    let alone = ask("1.5");
    assert!(
        alone["answer"].as_str().unwrap().ends_with("42."),
        "{alone}"
    );
    let round = &alone["rounds"][0];
    assert_eq!(round["drafters"], json!([0]));
    assert_eq!(round["active"], json!([0, 1, 2]));
    let asked: Vec<usize> = round["scores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().len())
        .collect();
    assert_eq!(asked, [1, 0, 0]);
    assert_eq!(round["normalised"], json!([]));
    assert_eq!(
        json_of(&["replay", &file])["rounds"],
        json!([]),
        "there was no vote"
    );

    // 0 asks all in any case.
    let together = ask("0");
    assert_eq!(
        together["rounds"][0]["scores"][1].as_array().unwrap().len(),
        3
    );

    let shown = run(&[
        "--device",
        "cpu",
        "chat",
        "What is 12 + 30?",
        "--greedy",
        "--trust",
        &trust,
        "--show-votes",
    ]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("* Ada") && shown.contains("is sure; no other was asked"),
        "{shown}"
    );
}

/// A conversation from a pipe: one answer per line that is not blank, and the last one's run in the
/// record, with all turns before it, since a rule may compare candidates with these.
#[test]
fn a_conversation_is_recorded_too() {
    let questions = written("questions.txt", "What is 12 + 30?\n\n  \nWhat is 5 + 6?\n");
    let record = written("conversation.json", "");
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["--device", "cpu", "chat", "--record", &record, "--exit"])
        .args(["--system", "Answer in a sentence."])
        .stdin(std::fs::File::open(&questions).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let run: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    assert_eq!(run["question"], "What is 5 + 6?");
    let turn = |role: &str, content: &str| json!({ "role": role, "content": content });
    let first = said.lines().next().unwrap();
    let turns = [
        turn("system", "Answer in a sentence."),
        turn("user", "What is 12 + 30?"),
        turn("assistant", first),
        turn("user", "What is 5 + 6?"),
    ];
    assert_eq!(run["messages"], json!(turns));
    assert!(
        said.ends_with(&format!("{}\n", run["answer"].as_str().unwrap())),
        "{said}"
    );
    assert!(
        !json_of(&["replay", &record, "--no-exit"])["rounds"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// More turns than the context holds: the oldest are left out, and the conversation goes on.
#[test]
fn a_conversation_outgrows_its_context() {
    let lines: String = (10..22).map(|n| format!("What is {n} + 30?\n")).collect();
    let questions = written("long.txt", &lines);
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["--device", "cpu", "chat", "--context", "160", "--greedy"])
        .stdin(std::fs::File::open(&questions).unwrap())
        .output()
        .unwrap();
    let (said, told) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(output.status.success(), "{told}");
    for n in 10..22 {
        assert!(
            said.contains(&format!("Answer: {}.", n + 30)),
            "{n}: {said}\n{told}"
        );
    }
    assert!(told.contains("the oldest question is left out"), "{told}");
}

#[test]
fn fast_mode_accepts_an_end_at_once_unverified() {
    let answer = json_of(&["chat", "What is 12 + 30?", "--fast", "--seed", "3"]);
    let rounds = answer["rounds"].as_array().unwrap();
    let (last, earlier) = rounds.split_last().unwrap();
    assert!(earlier.iter().all(|round| round["verified"] == true));
    assert_eq!(last["verified"], false);
    assert!(last["scores"].as_array().unwrap().is_empty());
    let winner = last["winner"].as_u64().unwrap() as usize;
    assert_eq!(last["candidates"][winner]["ended"], true);
    assert_eq!(answer["stopped"], "ended");
}

#[test]
fn a_context_that_fills_in_mid_answer_keeps_the_text() {
    let args = ["chat", "Tell me a short story about an owl."];
    let answer = json_of(&[&args[..], &["--context", "40"]].concat());
    assert_eq!(answer["stopped"], "context");
    assert!(!answer["answer"].as_str().unwrap().is_empty());
    let said = failure_of(&[&args[..], &["--context", "8", "--device", "cpu"]].concat());
    assert!(said.contains("Ada: ") && said.contains("context"), "{said}");
    assert!(said.contains("`--context N`, up to 1024"), "{said}");
    let output = run(&[&args[..], &["--context", "40", "--device", "cpu"]].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    let wanted = "(stopped: the context is full; --context allows more)";
    assert!(told.contains(wanted), "{told}");
}

#[test]
fn an_answer_by_a_schema_is_a_document_of_it() {
    let schema = written(
        "sum.json",
        r#"{
            "type": "object",
            "properties": {
                "sum": {"type": "integer", "minimum": 0, "maximum": 9999},
                "words": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3}
            },
            "required": ["sum", "words"],
            "additionalProperties": false
        }"#,
    );
    for rule in ["harmonic", "leader", "paper"] {
        let question = "What is 347 + 85? Answer as JSON.";
        let run = json_of(&[
            "chat",
            question,
            "--json-schema",
            &schema,
            "--rule",
            rule,
            "--seed",
            "5",
        ]);
        assert_eq!(run["stopped"], "ended", "{run}");
        let answer = run["answer"].as_str().unwrap();
        let answer: Value = serde_json::from_str(answer).unwrap_or_else(|error| {
            panic!("{rule}: {answer}: {error}");
        });
        assert_eq!(answer.as_object().unwrap().len(), 2, "{answer}");
        assert!(answer["sum"].as_u64().unwrap() <= 9999, "{answer}");
        let words = answer["words"].as_array().unwrap();
        let short = |word: &Value| word.as_str().unwrap().chars().count() <= 8;
        assert!(words.len() <= 3 && words.iter().all(short), "{answer}");
    }
    // Cut off, it is incomplete, and the run says so.
    let run = json_of(&[
        "chat",
        "Hello",
        "--json-schema",
        &schema,
        "--max-rounds",
        "1",
    ]);
    assert_eq!(run["stopped"], "rounds");
    assert!(run["answer"].as_str().unwrap().starts_with('{'));

    let strange = written(
        "strange.json",
        r#"{"properties": {"a": {"uniqueItems": true}}}"#,
    );
    let told = failure_of(&[
        "chat",
        "Hello",
        "--json-schema",
        &strange,
        "--device",
        "cpu",
    ]);
    assert!(
        told.contains("#/properties/a") && told.contains("uniqueItems"),
        "{told}"
    );
}

#[test]
fn a_chat_tells_people_who_wrote_the_answer_and_programs_nothing_but_the_run() {
    let asked = |more: &[&str]| {
        let asked = [
            "chat",
            "What is 347 + 85?",
            "--device",
            "cpu",
            "--max-rounds",
            "2",
        ];
        let output = run(&[&asked[..], more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    };
    let (answer, said) = asked(&[]);
    let line = said.lines().last().unwrap();
    assert!(
        line.starts_with("(Written by ") && line.contains(" segment") && line.ends_with(".)"),
        "{said}"
    );
    for name in ["Ada", "Quill", "Juno"] {
        assert!(line.contains(name), "{said}");
    }
    assert!(!answer.contains("Written by"), "{answer}");
    for alone in [&["--member", "ada"][..], &["--json"][..]] {
        let (_, said) = asked(alone);
        assert!(!said.contains("Written by"), "{said}");
    }
}
