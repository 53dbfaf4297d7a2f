//! The tool as users run it: real files, one JSON object, errors that help.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn parity(file: &str) -> String {
    let path = root().join("tests/fixtures/parity").join(file);
    path.to_string_lossy().into_owned()
}

fn member() -> String {
    root()
        .join("web/members/ada.gguf")
        .to_string_lossy()
        .into_owned()
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(args)
        .output()
        .expect("the tool starts")
}

/// A question that Ada knows.
const SUM: [&str; 3] = ["chat", "What is 12 + 30?", "--greedy"];

/// Runs the tool with `--json` on the CPU; it must print exactly one object.
fn json_of(args: &[&str]) -> Value {
    let output = run(&[args, &["--json", "--device", "cpu"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.trim().lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Runs the tool, which must fail, and returns its message.
fn failure_of(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "{args:?} succeeded");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn written(name: &str, content: &str) -> String {
    let path = std::env::temp_dir().join(format!("conclave-{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn logits_and_generate_agree_with_the_reference() {
    let reference = std::fs::read_to_string(parity("llama-gguf/reference.json")).unwrap();
    let reference: Value = serde_json::from_str(&reference).unwrap();
    let kept = std::fs::read(parity("llama-gguf/reference.f32")).unwrap();
    let vocabulary = reference["vocabulary"].as_u64().unwrap() as usize;
    let ids = |tokens: &Value| {
        let tokens = tokens.as_array().unwrap().iter().map(Value::to_string);
        tokens.collect::<Vec<_>>().join(",")
    };
    let model = parity("llama-gguf/model.gguf");
    // The first prompt is short, and its first and last rows are kept first.
    assert_eq!(reference["rows"][0], json!([0, 4]));
    let wanted: Vec<f32> = kept
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let tokens = ids(&reference["prompts"][0]);
    let all = json_of(&["logits", "--model", &model, "--tokens", &tokens, "--all"]);
    let last = json_of(&["logits", "--model", &model, "--tokens", &tokens]);
    assert_eq!(all["logits"].as_array().unwrap().len(), 5);
    for (found, wanted) in [
        (&all["logits"][0], &wanted[..vocabulary]),
        (&last["logits"], &wanted[vocabulary..2 * vocabulary]),
    ] {
        for (a, b) in found.as_array().unwrap().iter().zip(wanted) {
            assert!((a.as_f64().unwrap() as f32 - b).abs() < 1e-3);
        }
    }
    let greedy = &reference["greedy"];
    let tokens = ids(&greedy["prompt"]);
    let generated = json_of(&[
        "generate", "--model", &model, "--tokens", &tokens, "--count", "24", "--greedy",
    ]);
    assert_eq!(generated["tokens"], greedy["continuation"]);
}

#[test]
fn several_prompts_are_each_on_their_own_and_go_to_a_file() {
    let model = parity("llama-gguf/model.gguf");
    let path = written("logits.f32", "");
    let ask = |extra: &[&str]| {
        let args = [
            "--device", "cpu", "logits", "--model", &model, "--all", "--tokens", "9,10,11",
        ];
        json_of(&[&args, extra].concat())["logits"].clone()
    };
    let alone = ask(&[]);
    let both = ask(&["--tokens", "12,13"]);
    assert_eq!(both[0], alone);
    assert_eq!(both[1].as_array().unwrap().len(), 2);
    let said = json_of(&[
        "--device", "cpu", "logits", "--model", &model, "--all", "--tokens", "9,10,11", "--tokens",
        "12,13", "--raw", &path,
    ]);
    let bytes = std::fs::read(&path).unwrap();
    let vocabulary = alone[0].as_array().unwrap().len();
    assert_eq!(said, json!({ "rows": 5, "vocabulary": vocabulary }));
    assert_eq!(bytes.len(), 5 * vocabulary * 4);
    for (row, found) in bytes.chunks_exact(vocabulary * 4).enumerate() {
        let wanted = if row < 3 {
            &both[0][row]
        } else {
            &both[1][row - 3]
        };
        let first = f32::from_le_bytes(found[..4].try_into().unwrap());
        assert_eq!(first, wanted[0].as_f64().unwrap() as f32);
    }
}

#[test]
fn verify_scores_each_candidate_as_if_alone() {
    let model = parity("llama-gguf/model.gguf");
    let verify = |candidates: &[&str]| {
        let mut args = vec!["verify", "--model", &model, "--prefix-tokens", "1,2,3"];
        for candidate in candidates {
            args.extend(["--candidate-tokens", candidate]);
        }
        json_of(&args)["candidates"].clone()
    };
    let together = verify(&["4,5,6", "7", "8,9"]);
    for (index, candidate) in ["4,5,6", "7", "8,9"].iter().enumerate() {
        let alone = &verify(&[candidate])[0];
        for score in ["mean_logit", "mean_logprob"] {
            let (a, b) = (together[index][score].as_f64(), alone[score].as_f64());
            assert!(
                (a.unwrap() - b.unwrap()).abs() < 1e-4,
                "{score} of {candidate}"
            );
        }
    }
}

#[test]
fn tokens_and_templates_come_from_the_file() {
    let text = "What is 347 + 85? <|end|> é 🙂";
    let tokenized = json_of(&["tokenize", "--model", &member(), "--text", text]);
    let plain = json_of(&[
        "tokenize",
        "--model",
        &member(),
        "--text",
        text,
        "--continuation",
    ]);
    assert_eq!(plain["text"], text);
    assert!(plain["ids"].as_array().unwrap().len() > tokenized["ids"].as_array().unwrap().len());

    let messages = json!([{"role": "user", "content": "Hello."}]).to_string();
    let file = written("messages.json", &messages);
    let render = |extra: &[&str]| {
        let args = ["template", "--model", &member(), "--messages", &file];
        json_of(&[&args[..], extra].concat())["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (open, closed) = (render(&["--add-generation-prompt"]), render(&[]));
    assert!(closed.contains("Hello.") && open.starts_with(&closed) && open.len() > closed.len());
}

#[test]
fn inspect_says_what_a_file_holds() {
    let inspected = json_of(&["inspect", &parity("gemma-gguf/model.gguf")]);
    assert_eq!(inspected["runs"], true);
    assert_eq!(inspected["template"], Value::Null, "it has no tokenizer");
    assert_eq!(inspected["model"]["config"]["architecture"], "gemma");
    assert_eq!(inspected["model"]["quantisation"], "Q8_0");
    assert!(!inspected["tensors"].as_array().unwrap().is_empty());
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/members/ada.gguf");
    assert_eq!(json_of(&["inspect", bundled])["template"], true);
}

/// The authors' printed weights, from scores that realise their counts.
#[test]
fn replay_reproduces_a_recorded_run() {
    let run = json!({
        "members": ["a", "b", "c"],
        "rounds": [
            {"scores": [[2.3, 2.6, 3.2], [1.4, 1.6, 2.2], [0.6, 0.3, 0.5]]},
            {"scores": [[5.0, 4.0, 3.0], [5.0, 4.5, 3.0], [5.0, 4.0, 3.5]]},
        ],
    });
    let file = written("run.json", &run.to_string());
    let replayed = json_of(&["replay", &file, "--rule", "paper"]);
    let first = &replayed["rounds"][0];
    assert_eq!(first["winner"], 2);
    let row = first["normalised"][0].as_array().unwrap();
    for (share, wanted) in row.iter().zip([2.3 / 8.1, 2.6 / 8.1, 3.2 / 8.1]) {
        assert!((share.as_f64().unwrap() - wanted).abs() < 1e-12);
    }
    let flat = json_of(&["replay", &file, "--rule", "paper", "--alpha", "0"]);
    for weight in flat["rounds"][1]["weights"].as_array().unwrap() {
        assert!((weight.as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-12);
    }
    let printed = ["replay", &file, "--rule", "paper"];
    let printed = [&printed[..], &["--rate", "printed", "--update", "after"]].concat();
    let printed = json_of(&printed);
    assert_ne!(
        printed["rounds"][1]["weights"],
        replayed["rounds"][1]["weights"]
    );
}

/// Three bundled members answer, and the recorded run replays to the same weights.
#[test]
fn the_bundled_members_answer_and_the_record_replays() {
    let file = written("record.json", "");
    let args = ["chat", "What is 12 + 30?", "--record", &file, "--seed", "3"];
    let answer = json_of(&args);
    assert_eq!(answer["members"].as_array().unwrap().len(), 3);
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

#[test]
fn errors_name_the_fault_and_the_way_out() {
    let broken = written("broken.gguf", "GGUF but not really");
    assert!(failure_of(&["inspect", &broken]).contains("GGUF"));
    assert!(failure_of(&["inspect", "no-such-file.gguf"]).contains("no-such-file.gguf"));
    let file = std::fs::read(parity("qwen3-gguf/model.gguf")).unwrap();
    let path = std::env::temp_dir().join(format!("conclave-{}-cut.gguf", std::process::id()));
    std::fs::write(&path, &file[..file.len() - 1000]).unwrap();
    let cut = path.to_string_lossy();
    let said = failure_of(&["inspect", &cut]);
    assert!(said.contains("truncated: tensor"), "{said}");
    let said = failure_of(&[
        "--device", "cpu", "logits", "--model", &cut, "--tokens", "1",
    ]);
    assert!(said.contains("tensor"), "{said}");
    let model = parity("qwen3-gguf/model.gguf");
    let said = failure_of(&[
        "--device", "cpu", "logits", "--model", &model, "--tokens", "99999",
    ]);
    assert!(
        said.contains("99999") && said.contains("vocabulary"),
        "{said}"
    );
    let said = failure_of(&[
        "--device",
        "no such adapter",
        "logits",
        "--model",
        &model,
        "--tokens",
        "1",
    ]);
    assert!(said.contains("adapter"), "{said}");
    assert!(failure_of(&["chat", "--member", "nobody", "hi", "--device", "cpu"]).contains("Quill"));
    assert!(failure_of(&["chat", "hi", "--rate", "fast"]).contains("fixed-share"));
}

#[test]
fn logits_fill_the_context_and_are_numbers() {
    let model = parity("llama-gguf/model.gguf");
    let whole = ["5"; 512].join(", ");
    let last = json_of(&["logits", "--model", &model, "--tokens", &whole]);
    let all = json_of(&["logits", "--model", &model, "--tokens", &whole, "--all"]);
    let wanted = all["logits"][511].as_array().unwrap();
    for (found, wanted) in last["logits"].as_array().unwrap().iter().zip(wanted) {
        assert!((found.as_f64().unwrap() - wanted.as_f64().unwrap()).abs() < 1e-3);
    }
    let beyond = ["5"; 513].join(",");
    let said = failure_of(&[
        "--device", "cpu", "logits", "--model", &model, "--tokens", &beyond,
    ]);
    let most = "context of 512 tokens, the most that the model was made for";
    assert!(said.contains(most) && !said.contains("--context"), "{said}");

    let mut file = std::fs::read(&model).unwrap();
    let gguf = conclave_weights::Gguf::parse_whole(&file).unwrap();
    let norm = |tensor: &&conclave_weights::Tensor| tensor.name == "output_norm.weight";
    let start = gguf.tensors().iter().find(norm).unwrap().offset as usize;
    file[start..start + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let path = std::env::temp_dir().join(format!("conclave-{}-nan.gguf", std::process::id()));
    std::fs::write(&path, &file).unwrap();
    let path = path.to_string_lossy();
    for extra in [&[][..], &["--all"]] {
        let args = [
            "--device", "cpu", "logits", "--model", &path, "--tokens", "1,2",
        ];
        assert!(failure_of(&[&args, extra].concat()).contains("not finite"));
    }
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let model = parity("llama-gguf/model.gguf");
    for count in ["0", "18446744073709551615"] {
        let args = [
            "generate", "--model", &model, "--tokens", "1", "--count", count,
        ];
        assert!(failure_of(&args).contains("--count"));
    }
    assert!(failure_of(&["chat", " ", "--device", "cpu"]).contains("question is empty"));
    assert!(failure_of(&["chat", "hi", "--temperature", "nan"]).contains("from 0 to 100"));
    assert!(failure_of(&["chat", "hi", "--top-p", "3"]).contains("from 0 to 1"));
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let model = parity("llama-gguf/model.gguf");
    let tokens = ["5"; 512].join(",");
    let mut child = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args([
            "--device", "cpu", "logits", "--model", &model, "--tokens", &tokens, "--all",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output was closed"), "{said}");
}

/// A conversation from a pipe: one answer per line, and the last one's run in the record.
#[test]
fn a_conversation_is_recorded_too() {
    let questions = written("questions.txt", "What is 12 + 30?\nWhat is 5 + 6?\n");
    let record = written("conversation.json", "");
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["--device", "cpu", "chat", "--record", &record, "--exit"])
        .stdin(std::fs::File::open(&questions).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let run: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    assert_eq!(run["question"], "What is 5 + 6?");
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
