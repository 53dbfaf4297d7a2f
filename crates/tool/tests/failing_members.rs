//! Members that fail during an answer, and members that think: models with scripted output.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

#[path = "../../member/tests/speaker/mod.rs"]
mod speaker;

use speaker::Speaker;

const WORDS: &[&str] = &[
    "<|end|>",
    "<|user|>",
    "<|answer|>",
    " la",
    " li",
    " lo",
    " lu",
    "<think>",
    "</think>",
    "\n\n",
    "Hmm",
    "Yes",
    ".",
];

const TEMPLATE: &str =
    "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>";

/// Sings endlessly.
const SONG: &[&[&str]] = &[&["<|answer|>", " la", " li", " lo", " la"]];

fn singer(context: usize) -> Speaker<'static> {
    Speaker {
        words: WORDS,
        says: SONG,
        template: Some(TEMPLATE),
        context,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    }
}

/// Folder with models of these names.
struct Stage(PathBuf);

impl Stage {
    fn new(name: &str, models: &[(&str, Speaker<'_>)]) -> Self {
        let folder = std::env::temp_dir().join(format!("conclave-{}-{name}", std::process::id()));
        for (name, model) in models {
            model.write(&folder.join(name));
        }
        Self(folder)
    }

    /// Answer of the members of these names as JSON, and the output beside it.
    fn chat(&self, names: &[&str], more: &[&str]) -> (Value, String) {
        let paths: Vec<String> = names
            .iter()
            .map(|name| self.0.join(name).display().to_string())
            .collect();
        let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["chat", "Well?", "--members", &paths.join(",")])
            .args(["--json", "--device", "cpu", "--greedy"])
            // A song repeats itself.
            .args(["--segment-tokens", "10", "--max-repeats", "10000"])
            .args(more)
            .output()
            .expect("the tool starts");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        (serde_json::from_slice(&output.stdout).unwrap(), said)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Participants of each round.
fn active(answer: &Value) -> Vec<Value> {
    let rounds = answer["rounds"].as_array().unwrap();
    rounds.iter().map(|round| round["active"].clone()).collect()
}

#[test]
fn a_member_whose_context_is_full_leaves_and_the_others_go_on() {
    let stage = Stage::new("full", &[("Short", singer(64)), ("Long", singer(400))]);
    let (answer, said) = stage.chat(&["Short", "Long"], &["--max-rounds", "30"]);
    assert_eq!(answer["stopped"], "rounds");
    let active = active(&answer);
    assert_eq!(active.len(), 30);
    let together = active
        .iter()
        .take_while(|who| **who == json!([0, 1]))
        .count();
    assert!((4..=7).contains(&together), "{active:?}");
    assert!(active[together..].iter().all(|who| *who == json!([1])));
    let left = &answer["left"];
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(
        (&left[0]["member"], &left[0]["round"]),
        (&json!(0), &json!(together + 1))
    );
    assert!(
        left[0]["error"].as_str().unwrap().contains("context of 64"),
        "{left}"
    );
    assert!(
        said.contains("Short leaves: ") && said.contains("the others go on"),
        "{said}"
    );
    // Nine whole words a round, none of them lost or duplicated.
    let song = " la li lo".repeat(100);
    let text = answer["answer"].as_str().unwrap();
    assert!(
        song.trim_start().starts_with(text) && text.len() >= 700,
        "{text}"
    );
    // The record can be replayed.
    let file = stage.path().join("run.json");
    std::fs::write(&file, answer.to_string()).unwrap();
    let replayed = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["replay", &file.display().to_string(), "--json"])
        .output()
        .unwrap();
    assert!(
        replayed.status.success(),
        "{}",
        String::from_utf8_lossy(&replayed.stderr)
    );
}

#[test]
fn when_all_contexts_are_full_the_answer_is_over() {
    let stage = Stage::new("all-full", &[("A", singer(64)), ("B", singer(90))]);
    let (answer, said) = stage.chat(&["A", "B"], &[]);
    assert_eq!(answer["stopped"], "context");
    assert_eq!(answer["left"].as_array().unwrap().len(), 1, "{said}");
    assert!(
        answer["answer"].as_str().unwrap().len() > 3 * 60,
        "{answer}"
    );
    let (answer, _) = stage.chat(&["A"], &[]);
    assert_eq!(
        (&answer["stopped"], &answer["left"]),
        (&json!("context"), &json!([]))
    );
    // No other context would help, and a song that is not to repeat itself is over before.
    for (more, why) in [
        (
            &["--max-repeats", "10000"][..],
            "(stopped: the context is full)",
        ),
        (
            &["--segment-tokens", "10"],
            "(stopped: the answer only repeats itself; --max-repeats allows more)",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["chat", "Well?", "--device", "cpu", "--greedy", "--members"])
            .arg(stage.path().join("A"))
            .args(more)
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_member_that_fails_leaves_and_the_others_go_on() {
    let broken = Speaker {
        says: &[&["<|answer|>", " la", " li", " lo", " lu"]],
        broken: Some(" lo"),
        ..singer(400)
    };
    let stage = Stage::new("broken", &[("Sound", singer(400)), ("Broken", broken)]);
    for names in [["Sound", "Broken"], ["Broken", "Sound"]] {
        let (answer, said) = stage.chat(&names, &["--max-rounds", "5"]);
        assert_eq!(answer["stopped"], "rounds");
        let index = names.iter().position(|name| *name == "Broken").unwrap();
        assert_eq!(answer["left"][0]["member"], json!(index));
        assert!(
            said.contains("Broken leaves: ") && said.contains("not finite"),
            "{said}"
        );
        assert_eq!(active(&answer).last(), Some(&json!([1 - index])));
        assert!(
            " la li lo"
                .repeat(20)
                .trim_start()
                .starts_with(answer["answer"].as_str().unwrap())
        );
    }
    // Alone, its failure is the answer's.
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["chat", "Well?", "--device", "cpu", "--greedy", "--members"])
        .arg(stage.path().join("Broken"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("Broken: "),
        "{said}"
    );
}

#[test]
fn thoughts_are_recorded_and_no_part_of_the_answer() {
    let thinker = |template| Speaker {
        says: &[&[
            "<|answer|>",
            "<think>",
            "Hmm",
            "</think>",
            "\n\n",
            "Yes",
            ".",
            "<|end|>",
        ]],
        template: Some(template),
        ..singer(400)
    };
    let stage = Stage::new(
        "thinking",
        &[("Thinker", thinker(TEMPLATE)), ("Other", thinker(TEMPLATE))],
    );
    for (mode, thought) in [("off", ""), ("on", "Hmm"), ("auto", "Hmm")] {
        let (answer, _) = stage.chat(&["Thinker", "Other"], &["--thinking", mode]);
        assert_eq!(answer["answer"], "Yes.", "{mode}");
        assert_eq!(answer["thinking"], mode);
        for said in answer["thoughts"].as_array().unwrap() {
            assert_eq!(said["text"], thought, "{mode}");
        }
        let rounds = answer["rounds"].to_string();
        assert!(
            !rounds.contains("Hmm") && !rounds.contains("think"),
            "{rounds}"
        );
    }
    let (answer, _) = stage.chat(&["Thinker"], &[]);
    assert_eq!(answer["thinking"], "off", "unless it is asked for");
}
