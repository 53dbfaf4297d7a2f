//! The cache: listing, removing, updating, concurrent processes, and a killed one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::hub::{CHUNK, Hub, bytes};
use conclave_hub::{Cache, HubError, Options, Progress, fetch};
use serde_json::{Value, json};

const MODEL: &str = "hf:owner/repo/model.gguf";
const SIZE: usize = 20 * CHUNK as usize;

/// Not a test: run by the tests as a child process.
#[test]
#[ignore = "started by the tests of several processes"]
fn a_process_of_its_own() {
    let set = |name| std::env::var(name).unwrap();
    let options = Options {
        endpoint: set("HUB"),
        chunk_bytes: CHUNK,
        connections: 2,
        ..Options::default()
    };
    let mut waited = false;
    let mut progress = |told| {
        if told == Progress::Waiting && !waited {
            waited = true;
            println!("waiting");
        }
    };
    let path = fetch(
        &MODEL.parse().unwrap(),
        &Cache::new(set("CACHE")),
        &options,
        &mut progress,
        &AtomicBool::new(false),
    )
    .unwrap();
    println!("waited {waited} {}", fs::metadata(path).unwrap().len());
}

fn process(hub: &Hub) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "keeps_models::a_process_of_its_own",
            "--nocapture",
        ])
        .env("HUB", &hub.options.endpoint)
        .env("CACHE", hub.cache.root())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until a downloading process has stored so many bytes; returns how many it has.
fn stores(hub: &Hub, child: &mut std::process::Child, bytes: u64) -> u64 {
    let start = Instant::now();
    loop {
        let listed = hub.cache.list().unwrap();
        match listed.first() {
            Some(model) if model.stored >= bytes => return model.stored,
            _ => {}
        }
        assert!(start.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_process_loses_no_finished_chunk() {
    let hub = Hub::start();
    let model = bytes(SIZE, 1);
    hub.put("owner/repo/model.gguf", &model);
    // Three seconds to show that nothing is waited for.
    hub.fault(&json!({"kind": "slow", "bytesPerSecond": 160_000, "times": 0}));
    let mut child = process(&hub);
    let stored = stores(&hub, &mut child, 4 * CHUNK);
    child.kill().unwrap();
    child.wait().unwrap();
    hub.heal();
    // Time for responses in flight to be counted.
    std::thread::sleep(Duration::from_millis(300));
    let kept = hub.cache.list().unwrap()[0].stored;
    assert!(kept >= stored && kept < SIZE as u64);
    hub.forget_log();
    let (path, _) = hub.fetch(MODEL);
    assert!(fs::read(path.unwrap()).unwrap() == model);
    assert_eq!(hub.sent(), SIZE as u64 - kept);
}

#[test]
fn a_second_process_waits_and_fetches_nothing() {
    let hub = Hub::start();
    hub.put("owner/repo/model.gguf", &bytes(SIZE, 1));
    // Lasts until the second process waits, with some seconds to spare.
    hub.fault(&json!({"kind": "slow", "bytesPerSecond": 80_000, "times": 0}));
    let mut first = process(&hub);
    stores(&hub, &mut first, 0);
    let mut second = process(&hub);
    let mut lines = BufReader::new(second.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().ends_with("waiting")),
        "it did not wait"
    );
    hub.heal();
    let said = String::from_utf8(first.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains(&format!("waited false {SIZE}")), "{said}");
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(said.contains(&format!("waited true {SIZE}")), "{said:?}");
    assert!(second.wait().unwrap().success());
    assert_eq!(hub.sent(), SIZE as u64);
}

#[test]
fn models_are_listed_and_removed() {
    let hub = Hub::start();
    hub.put("owner/repo/model.gguf", &bytes(SIZE, 1));
    hub.put("owner/repo/sub/part-00001-of-00002.gguf", &bytes(1000, 2));
    hub.put("owner/repo/sub/part-00002-of-00002.gguf", &bytes(2000, 3));
    let address = hub.at("/files/owner/repo/model.gguf");
    let parts = "hf:owner/repo/sub/part-00002-of-00002.gguf";
    assert_eq!(hub.cache.list().unwrap(), []);
    for reference in [MODEL, &address, parts] {
        hub.fetch(reference).0.unwrap();
    }
    let path = hub.fetch(parts).0.unwrap();
    assert!(
        path.ends_with("files/part-00001-of-00002.gguf")
            && path.with_file_name("part-00002-of-00002.gguf").exists()
    );
    let listed = hub.cache.list().unwrap();
    let shown: Vec<_> = listed
        .iter()
        .map(|m| {
            (
                m.reference.as_str(),
                m.bytes,
                m.stored,
                m.complete,
                m.verified,
            )
        })
        .collect();
    let size = SIZE as u64;
    assert_eq!(
        shown,
        [
            (MODEL, size, size, true, true),
            (
                "hf:owner/repo/sub/part-00001-of-00002.gguf",
                3000,
                3000,
                true,
                true
            ),
            (address.as_str(), size, size, true, false),
        ]
    );
    assert_eq!(listed[1].path, path);
    let remove = |reference: &str| hub.cache.remove(&reference.parse().unwrap());
    assert_eq!(remove(MODEL).unwrap(), size);
    let error = remove(MODEL).unwrap_err();
    assert!(
        matches!(error, HubError::NotStored { .. }) && error.to_string().contains("sub/part-00001"),
        "{error}"
    );
    assert_eq!(remove(parts).unwrap(), 3000);
    assert_eq!(remove(&address).unwrap(), size);
    assert_eq!(
        (hub.cached(), hub.cache.root().join("hf").exists()),
        (vec![], false)
    );
    assert!(
        remove("./mine.gguf")
            .unwrap_err()
            .to_string()
            .contains("a file of yours")
    );
}

#[test]
fn an_update_fetches_what_changed_and_only_that() {
    let mut hub = Hub::start();
    hub.put("owner/repo/config.json", b"{\"a\": 1}");
    hub.put("owner/repo/tokenizer.json", b"{}");
    hub.put("owner/repo/model.safetensors", &bytes(SIZE, 1));
    let path = hub.fetch("hf:owner/repo").0.unwrap();
    hub.put("owner/repo/config.json", b"{\"a\": 2, \"b\": 3}");
    hub.forget_log();
    assert_eq!(hub.fetch("hf:owner/repo").0.unwrap(), path);
    assert_eq!(
        (fs::read(path.join("config.json")).unwrap(), hub.log().len()),
        (b"{\"a\": 1}".to_vec(), 0)
    );
    hub.options.update = true;
    assert_eq!(hub.fetch("hf:owner/repo").0.unwrap(), path);
    assert_eq!(
        fs::read(path.join("config.json")).unwrap(),
        b"{\"a\": 2, \"b\": 3}"
    );
    assert!(fs::read(path.join("model.safetensors")).unwrap() == bytes(SIZE, 1));
    assert_eq!(hub.sent(), 18, "the weights are taken over");
    hub.forget_log();
    hub.fetch("hf:owner/repo").0.unwrap();
    assert_eq!(hub.log().len(), 1, "one question, and nothing to fetch");
    // A failed update leaves the stored model as it is.
    hub.put("owner/repo/model.safetensors", &bytes(SIZE, 2));
    hub.fault(&json!({"kind": "flip", "times": 0}));
    hub.fetch("hf:owner/repo").0.unwrap_err();
    hub.options.update = false;
    assert!(
        fs::read(
            hub.fetch("hf:owner/repo")
                .0
                .unwrap()
                .join("model.safetensors")
        )
        .unwrap()
            == bytes(SIZE, 1)
    );
}

#[test]
fn shards_come_with_their_index() {
    let hub = Hub::start();
    let names = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ];
    for (name, seed) in names.into_iter().zip(1..) {
        hub.put(&format!("owner/repo/{name}"), &bytes(SIZE / 2, seed));
    }
    let index = json!({"weight_map": {"a": names[0], "b": names[1], "c": names[1]}}).to_string();
    hub.put("owner/repo/model.safetensors.index.json", index.as_bytes());
    hub.put("owner/repo/config.json", b"{}");
    hub.put("owner/repo/tokenizer.json", b"{}");
    let path = hub.fetch("hf:owner/repo").0.unwrap();
    assert!(fs::read(path.join(names[1])).unwrap() == bytes(SIZE / 2, 2));
    // So does a mirror without a list of files.
    hub.cache.remove(&"hf:owner/repo".parse().unwrap()).unwrap();
    hub.fault(&json!({"kind": "404", "on": "api", "times": 0}));
    let path = hub.fetch("hf:owner/repo").0.unwrap();
    assert!(fs::read(path.join(names[1])).unwrap() == bytes(SIZE / 2, 2));
    assert!(hub.cache.list().unwrap()[0].verified);
}

#[test]
fn named_templates_keep_their_folder_and_an_update_brings_them() {
    let mut hub = Hub::start();
    hub.put("owner/repo/config.json", b"{}");
    hub.put("owner/repo/tokenizer.json", b"{}");
    hub.put("owner/repo/model.safetensors", &bytes(SIZE, 1));
    let templates = "owner/repo/additional_chat_templates";
    hub.put(&format!("{templates}/tool_use.jinja"), b"tools");
    hub.put(&format!("{templates}/notes.md"), b"no template");
    hub.put(&format!("{templates}/deeper/rag.jinja"), b"no template");
    hub.put("owner/repo/other/rag.jinja", b"no template");
    let found = |path: &Path| {
        let entries = fs::read_dir(path.join("additional_chat_templates")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    let path = hub.fetch("hf:owner/repo").0.unwrap();
    assert_eq!(found(&path), ["tool_use.jinja"]);
    let template = path.join("additional_chat_templates/tool_use.jinja");
    assert_eq!(fs::read(&template).unwrap(), b"tools");
    assert!(hub.cache.list().unwrap()[0].verified);
    // An earlier version stored the same commit without them.
    let plan = path.parent().unwrap().join("plan.json");
    let mut written: Value = serde_json::from_slice(&fs::read(&plan).unwrap()).unwrap();
    let files = written["files"].as_array_mut().unwrap();
    files.retain(|file| !file["name"].as_str().unwrap().ends_with(".jinja"));
    fs::write(&plan, written.to_string()).unwrap();
    fs::remove_dir_all(template.parent().unwrap()).unwrap();
    hub.options.update = true;
    hub.forget_log();
    assert_eq!(hub.fetch("hf:owner/repo").0.unwrap(), path);
    assert_eq!(fs::read(&template).unwrap(), b"tools");
    assert!(hub.sent() < 100, "the weights are taken over");
}

#[test]
fn a_wish_to_stop_is_heard_and_keeps_what_is_finished() {
    let hub = Hub::start();
    hub.put("owner/repo/model.gguf", &bytes(SIZE, 1));
    hub.fault(&json!({"kind": "slow", "bytesPerSecond": 400_000, "times": 0}));
    let cancel = AtomicBool::new(false);
    let mut progress = |told| {
        if matches!(told, Progress::Downloading { loaded, .. } if loaded > 6 * CHUNK) {
            cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let error = fetch(
        &MODEL.parse().unwrap(),
        &hub.cache,
        &hub.options,
        &mut progress,
        &cancel,
    )
    .unwrap_err();
    assert!(matches!(error, HubError::Stopped), "{error}");
    assert!(hub.cache.list().unwrap()[0].stored > 0);
}

#[test]
fn a_damaged_plan_is_no_model() {
    let hub = Hub::start();
    hub.put("owner/repo/model.gguf", &bytes(SIZE, 1));
    let path = hub.fetch(MODEL).0.unwrap();
    let plan = path.ancestors().nth(2).unwrap().join("plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    for damaged in [
        text.replace("model.gguf", "../../x"),
        text[..text.len() / 2].to_owned(),
        String::new(),
    ] {
        fs::write(&plan, damaged).unwrap();
        assert_eq!(hub.cache.find(&MODEL.parse().unwrap()), None);
    }
    assert_eq!(hub.fetch(MODEL).0.unwrap(), path);
    fs::write(&path, b"short").unwrap();
    assert_eq!(hub.cache.find(&MODEL.parse().unwrap()), None);
    hub.fetch(MODEL).0.unwrap();
    assert!(fs::read(path).unwrap() == bytes(SIZE, 1));
}
