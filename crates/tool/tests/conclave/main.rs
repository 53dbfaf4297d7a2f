//! The tool as users run it: real files, one JSON object, errors that help.

mod chat;

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

#[test]
fn a_folder_says_what_is_left_out() {
    let folder = std::env::temp_dir().join(format!("conclave-{}-beside", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(member(), folder.join("m.gguf")).unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 270\n";
    std::fs::write(folder.join("big.gguf"), pointer).unwrap();
    let mut eye = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    for text in ["general.architecture", "clip"] {
        eye.extend((text.len() as u64).to_le_bytes());
        eye.extend(text.as_bytes());
        if text != "clip" {
            eye.extend(8_u32.to_le_bytes());
        }
    }
    std::fs::write(folder.join("mmproj.gguf"), eye).unwrap();
    let said = |file: &str| {
        let output = run(&["inspect", &folder.join(file).to_string_lossy()]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    };
    let lines = said("");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for words in [
        "big.gguf is a git-LFS pointer and not the file itself; it is left out",
        "mmproj.gguf is a model's eye or ear (mmproj) and no language model; it is left out",
    ] {
        assert!(lines.lines().any(|line| line == words), "{lines}");
    }
    assert_eq!(said("m.gguf"), "");
    std::fs::remove_dir_all(&folder).unwrap();

    // A file of a folder is its model's, which is named.
    std::fs::create_dir_all(&folder).unwrap();
    let path = parity("mistral-hf");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(Path::new(&path).join(file), folder.join(file)).unwrap();
    }
    std::fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    assert_eq!(said("model.safetensors"), "");
    for file in ["tokenizer.json", "config.json"] {
        let lines = said(file);
        let named = format!(
            "the model is the folder {}, which is taken",
            folder.display()
        );
        assert!(lines.trim_end().ends_with(&named), "{lines}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
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
    // A vocabulary alone: no tensors, and one entry of metadata or two.
    let entry = |key: &str, value: &str| {
        let sized = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        [sized(key), 8_u32.to_le_bytes().to_vec(), sized(value)].concat()
    };
    let entries = [
        entry("general.architecture", "llama"),
        entry("tokenizer.ggml.model", "gpt2"),
        entry("general.name", "Red\u{1b}[31m\nname"),
    ];
    let counts = [0, entries.len() as u64].map(u64::to_le_bytes).concat();
    let vocabulary = [b"GGUF\x03\0\0\0".to_vec(), counts, entries.concat()].concat();
    std::fs::write(&path, &vocabulary).unwrap();
    let said = failure_of(&[
        "--device", "cpu", "logits", "--model", &cut, "--tokens", "1",
    ]);
    assert!(said.contains("is a vocabulary without weights"), "{said}");
    let shown = run(&["inspect", &cut]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(
        shown.contains("name      Red\\u{1b}[31m\\nname\n") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    assert!(failure_of(&["chat", "--member", "nobody", "hi", "--device", "cpu"]).contains("Quill"));
    assert!(failure_of(&["chat", "hi", "--rate", "fast"]).contains("fixed-share"));
}

#[test]
fn a_template_that_is_none_is_named() {
    let chat = |members: &[&str], template: &str| {
        let asked = ["chat", "hi", "--device", "cpu", "--template", template];
        failure_of(&[&asked[..], members].concat())
    };
    let one = ["--members", &member()];
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 27\n";
    let pointer = written("lfs.jinja", pointer);
    let said = chat(&one, &pointer);
    assert!(said.contains("lfs.jinja is a git-LFS pointer"), "{said}");
    let said = chat(&[], &format!("Ada={pointer}"));
    assert!(said.contains("lfs.jinja is a git-LFS pointer"), "{said}");
    let said = chat(&one, &member());
    assert!(said.contains("ada.gguf is a GGUF file"), "{said}");

    let said = chat(&one, "Bob=x.jinja");
    assert!(said.contains("no member Bob; there are ada"), "{said}");
    let said = chat(&[], "Bob=x.jinja");
    assert!(
        said.contains("no member Bob; there are Ada, Quill"),
        "{said}"
    );
    // A file's name may have the sign.
    let said = chat(&one, "./Bob=x.jinja");
    assert!(!said.contains("no member"), "{said}");
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
    assert!(failure_of(&["chat", "hi", "--temperature", "nan"]).contains("from 0 to 10\n"));
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
