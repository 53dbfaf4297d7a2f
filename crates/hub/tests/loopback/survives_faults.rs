//! Faults of hubs, file hosts and connections: each download succeeds or ends with a clear message,
//! nothing stored is lost, nothing is fetched twice, and no wrong bytes are kept.

use std::fs;
use std::time::{Duration, Instant};

use crate::hub::{CHUNK, Hub, bytes, troubles};
use conclave_hub::{HubError, Progress};
use serde_json::json;

const MODEL: &str = "hf:owner/repo/model.gguf";
const SIZE: usize = 5 * CHUNK as usize + 1234;

fn one_model() -> (Hub, Vec<u8>) {
    let hub = Hub::start();
    let model = bytes(SIZE, 7);
    hub.put("owner/repo/model.gguf", &model);
    (hub, model)
}

/// Fetches with a fault set and expects the right bytes; returns the reports and the bytes sent.
fn survives(fault: serde_json::Value) -> (Vec<String>, u64) {
    let (hub, model) = one_model();
    hub.fault(&fault);
    let (path, told) = hub.fetch(MODEL);
    assert!(
        fs::read(path.unwrap()).unwrap() == model,
        "{fault}: other bytes"
    );
    assert_eq!(
        hub.cached().len(),
        2,
        "{fault}: something is left beside plan and model: {:?}",
        hub.cached()
    );
    (
        troubles(&told).into_iter().map(str::to_owned).collect(),
        hub.sent(),
    )
}

/// Fetches with a fault set; expects an error with a given text, and no model in the cache.
fn refuses(fault: serde_json::Value, words: &[&str]) -> (Hub, Vec<u8>) {
    let (hub, model) = one_model();
    hub.fault(&fault);
    let (outcome, _) = hub.fetch(MODEL);
    let error = outcome.unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "{fault}: {error}");
    }
    assert_eq!(hub.cache.find(&MODEL.parse().unwrap()), None);
    (hub, model)
}

#[test]
fn faults_end_as_tool_and_page_agreed_on() {
    let table = include_str!("../../../../tests/hub/faults.json");
    let table: serde_json::Value = serde_json::from_str(table).unwrap();
    let mut hub = Hub::start();
    let model = bytes(31 * CHUNK as usize / 2, 7);
    hub.put("owner/model/weights.gguf", &model);
    hub.put("owner/empty/none.gguf", &[]);
    hub.options.attempts = 4;
    let reference = "hf:owner/model/weights.gguf";
    for (kind, case) in ["survived", "told"].into_iter().flat_map(|kind| {
        table[kind]
            .as_array()
            .unwrap()
            .iter()
            .map(move |case| (kind, case))
    }) {
        let stalls = case["faults"].to_string().contains("\"stall\"");
        hub.options.stall = Duration::from_secs(if stalls { 2 } else { 3600 });
        hub.heal();
        hub.forget_log();
        hub.fault(&case["faults"]);
        let (outcome, told) = hub.fetch(case["what"].as_str().unwrap_or(reference));
        let said = match &outcome {
            Ok(_) => troubles(&told).join(" | "),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome.is_ok(), kind == "survived", "{case}: {said}");
        assert!(
            said.contains(case["tool"].as_str().unwrap_or_default()),
            "{case}: {said}"
        );
        if let Some(extra) = case["extra"].as_u64() {
            assert_eq!(hub.sent(), (1 + extra) * model.len() as u64, "{case}");
        }
        // The fault does not spoil the next attempt.
        hub.heal();
        assert!(
            fs::read(hub.fetch(reference).0.unwrap()).unwrap() == model,
            "{case}"
        );
        hub.cache.remove(&reference.parse().unwrap()).unwrap();
    }
}

#[test]
fn a_good_line_brings_every_byte_once_and_then_none() {
    let (hub, model) = one_model();
    let (path, told) = hub.fetch(MODEL);
    let path = path.unwrap();
    assert!(fs::read(&path).unwrap() == model);
    assert_eq!(hub.sent(), SIZE as u64);
    assert!(matches!(told[0], Progress::Asking));
    let end = Progress::Downloading {
        loaded: SIZE as u64,
        total: SIZE as u64,
        rate: 0.0,
        seconds_left: Some(0),
    };
    assert!(told.contains(&end), "{told:?}");
    // Again, with the hub gone: no request is made.
    hub.forget_log();
    let (again, told) = hub.fetch("hf:owner/repo/model.gguf@main");
    assert_eq!((again.unwrap(), told.len(), hub.log().len()), (path, 0, 0));
}

#[test]
fn cut_lines_go_on_at_the_byte() {
    // Breaks every response after 10 000 bytes: more failures than are allowed without progress in
    // between.
    let (said, sent) = survives(json!({"kind": "cut", "after": 10_000, "times": 0}));
    assert!(
        said.len() == 30
            && said
                .iter()
                .all(|what| what.contains("the connection broke")),
        "{said:?}"
    );
    assert_eq!(sent, SIZE as u64, "nothing is fetched twice");
}

#[test]
fn busy_servers_are_waited_for_as_long_as_they_ask() {
    for on in ["bytes", "resolve", "api"] {
        let start = Instant::now();
        let (said, sent) = survives(json!({"kind": "429", "on": on, "retryAfter": 1, "times": 1}));
        assert!(said.len() == 1 && said[0].contains("429"), "{said:?}");
        assert!(start.elapsed() >= Duration::from_secs(1), "{on}");
        assert_eq!(sent, SIZE as u64);
        let (said, _) = survives(json!({"kind": "503", "on": on, "times": 2}));
        assert!(said.len() == 2 && said[0].contains("503"), "{said:?}");
    }
    refuses(
        json!({"kind": "429", "on": "api", "retryAfter": 3600}),
        &["3600 s", "429"],
    );
}

#[test]
fn wrong_ranges_lengths_and_416_are_asked_for_again() {
    for kind in ["wrong-range", "wrong-length", "416", "425", "500"] {
        let (said, _) = survives(json!({"kind": kind, "times": 2}));
        let all_said = !said.is_empty() && !said.iter().any(|what| what.contains("digest"));
        assert!(
            all_said,
            "{kind} is seen at once, not by the digest of the whole: {said:?}"
        );
    }
    // A server that answers every range with 416 is asked for the whole file.
    let (hub, model) = one_model();
    hub.fault(&json!({"kind": "416", "times": 3}));
    assert!(fs::read(hub.fetch(MODEL).0.unwrap()).unwrap() == model);
}

#[test]
fn servers_without_ranges_send_one_stream() {
    // A plain file host that ignores ranges: one request for one byte, one for the file.
    let (hub, model) = one_model();
    hub.fault(&json!({"kind": "no-range", "times": 0}));
    let (path, _) = hub.fetch(&hub.at("/files/owner/repo/model.gguf"));
    assert!(fs::read(path.unwrap()).unwrap() == model);
    assert_eq!(hub.log().len(), 2, "{:?}", hub.log());
}

#[test]
fn wrong_bytes_are_never_used_and_never_kept() {
    let (hub, model) = refuses(
        json!({"kind": "flip", "after": 500, "times": 0}),
        &["another digest", "model.gguf", "nothing of it was kept"],
    );
    assert_eq!(hub.cached(), Vec::<std::path::PathBuf>::new());
    hub.heal();
    assert!(fs::read(hub.fetch(MODEL).0.unwrap()).unwrap() == model);
}

#[test]
fn small_files_are_checked_by_gits_own_id() {
    let hub = Hub::start();
    for (name, size) in [
        ("config.json", 500),
        ("tokenizer.json", 3000),
        ("model.safetensors", SIZE),
        ("README.md", 10),
        ("model.bin", 99),
    ] {
        hub.put(&format!("owner/repo/{name}"), &bytes(size, 3));
    }
    hub.fault(&json!({"kind": "flip", "file": "config.json", "times": 2}));
    let error = hub.fetch("hf:owner/repo").0.unwrap_err().to_string();
    assert!(error.contains("config.json arrived twice"), "{error}");
    let kept = hub.cache.list().unwrap()[0].stored;
    assert_eq!(kept, SIZE as u64 + 3000, "what is right stays");
    hub.cache.remove(&"hf:owner/repo".parse().unwrap()).unwrap();
    hub.forget_log();
    hub.fault(&json!({"kind": "flip", "file": "config.json", "times": 1}));
    let (path, told) = hub.fetch("hf:owner/repo");
    let path = path.unwrap();
    assert!(
        troubles(&told)
            .iter()
            .any(|what| what.contains("another digest")),
        "{told:?}"
    );
    let mut names: Vec<_> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["config.json", "model.safetensors", "tokenizer.json"]
    );
    assert!(fs::read(path.join("config.json")).unwrap() == bytes(500, 3));
    assert_eq!(
        hub.sent(),
        (SIZE + 3500 + 500) as u64,
        "only the wrong file is fetched again"
    );
}

#[test]
fn a_line_that_stays_broken_ends_in_words_and_keeps_what_it_brought() {
    let (hub, model) = refuses(
        json!({"kind": "cut", "skip": 3, "after": 0, "times": 0}),
        &["the connection broke", "6 times", "goes on from there"],
    );
    let listed = hub.cache.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert!(
        !listed[0].complete && listed[0].stored >= 2 * CHUNK,
        "{listed:?}"
    );
    let (before, _) = (hub.sent(), hub.heal());
    let (path, told) = hub.fetch(MODEL);
    assert!(fs::read(path.unwrap()).unwrap() == model);
    assert!(
        told.iter()
            .any(|progress| matches!(progress, Progress::Checking { .. }))
    );
    assert_eq!(
        hub.sent() - before,
        SIZE as u64 - listed[0].stored,
        "what was there is not fetched again"
    );
    assert!(
        !told.contains(&Progress::Asking),
        "the commit is that of the beginning"
    );
}

#[test]
fn a_damaged_chunk_is_found_when_a_download_goes_on() {
    let (hub, model) = refuses(
        json!({"kind": "cut", "skip": 3, "after": 0, "times": 0}),
        &["broke"],
    );
    let part = hub
        .cached()
        .into_iter()
        .find(|path| path.ends_with("files/model.gguf.part"))
        .unwrap();
    let mut damaged = fs::read(&part).unwrap();
    let stored = hub.cache.list().unwrap()[0].stored;
    let at = (0..damaged.len())
        .find(|&at| damaged[at] == model[at] && damaged[at] != 0)
        .unwrap();
    damaged[at] ^= 1;
    fs::write(&part, damaged).unwrap();
    hub.heal();
    hub.forget_log();
    let (path, told) = hub.fetch(MODEL);
    assert!(fs::read(path.unwrap()).unwrap() == model);
    assert_eq!(
        troubles(&told),
        Vec::<&str>::new(),
        "found before, not by the digest of the whole"
    );
    assert_eq!(hub.sent(), SIZE as u64 - stored + CHUNK);
}

#[test]
fn refusals_say_what_to_do() {
    let denied = |kind: &str| json!({"kind": kind, "on": "api"});
    refuses(denied("401"), &["accept terms", "HF_TOKEN"]);
    refuses(denied("403"), &["accept terms", "HF_TOKEN"]);
    let (mut hub, _) = one_model();
    hub.options.token = Some("hf_secret".to_owned());
    hub.fault(&denied("403"));
    let error = hub.fetch(MODEL).0.unwrap_err().to_string();
    assert!(
        error.contains("has not been let in") && !error.contains("hf_secret"),
        "{error}"
    );
    let said = |reference: &str| hub.fetch(reference).0.unwrap_err().to_string();
    let error = said("hf:owner/repo/other.gguf");
    assert!(
        error.contains("is not there") && error.contains("hf:owner/repo/model.gguf (329 kB)"),
        "{error}"
    );
    assert!(said("hf:owner/repo").contains("no config.json"));
    assert!(
        said("hf:owner/nothing/a.gguf").contains("no such repository"),
        "{}",
        said("hf:owner/nothing/a.gguf")
    );
    assert!(said("hf:owner/repo/model.gguf@v9").contains("is not there"));
    assert!(said(&hub.at("/files/owner/repo/other.gguf")).contains("is not there"));
    assert!(said("owner/repo").contains("write hf:owner/repo"));
    assert_eq!(hub.cached(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let (mut hub, _) = one_model();
    hub.options.token = Some("hf_secret".to_owned());
    hub.fetch(MODEL).0.unwrap();
    let log = hub.log();
    let told = |part: &str| {
        log.iter()
            .filter(|entry| entry["path"].as_str().unwrap().starts_with(part))
            .map(|entry| entry["token"].as_bool().unwrap())
            .collect::<Vec<_>>()
    };
    assert!(!told("/api").is_empty() && told("/api").iter().all(|&token| token));
    assert!(!told("/owner").is_empty() && told("/owner").iter().all(|&token| token));
    assert!(
        !told("/cdn").is_empty() && told("/cdn").iter().all(|&token| !token),
        "the store is another server"
    );
}

#[test]
fn a_file_that_changes_under_way_begins_anew() {
    let (mut hub, model) = one_model();
    for host in ["files", "dated"] {
        let address = hub.at(&format!("/{host}/owner/repo/model.gguf"));
        hub.fault(&json!({"kind": "changed", "skip": 3, "times": 1}));
        let (path, _) = hub.fetch(&address);
        assert!(fs::read(path.unwrap()).unwrap() == model, "{host}");
    }
    // One byte shows the size, three ranges are ignored, and the whole is longer by then.
    let address = hub.at("/dated/owner/repo/model.gguf?longer");
    hub.fault(&json!([{"kind": "longer", "skip": 1, "times": 4}]));
    hub.options.connections = 1;
    let (path, _) = hub.fetch(&address);
    let path = path.unwrap();
    assert!(
        fs::read(path).unwrap() == model,
        "cut to the size of before"
    );
    let (hub, _) = one_model();
    hub.fault(&json!({"kind": "cut", "skip": 3, "after": 0, "times": 0}));
    let address = hub.at("/files/owner/repo/model.gguf");
    hub.fetch(&address).0.unwrap_err();
    hub.heal();
    let other = bytes(SIZE, 8);
    hub.put("owner/repo/model.gguf", &other);
    assert!(
        fs::read(hub.fetch(&address).0.unwrap()).unwrap() == other,
        "old and new bytes are never mixed"
    );
}

#[test]
fn a_file_replaced_under_way_is_not_mixed_with_its_successor() {
    let (hub, _) = one_model();
    let other = bytes(SIZE, 8);
    hub.put("owner/repo/other", &other);
    // Some seconds, in case they are needed.
    hub.fault(&json!({"kind": "slow", "bytesPerSecond": 80_000, "times": 0}));
    let root = hub.folder.join("root/owner/repo");
    let mut progress = |told| {
        if matches!(told, Progress::Downloading { loaded, .. } if loaded > CHUNK)
            && fs::rename(root.join("other"), root.join("model.gguf")).is_ok()
        {
            hub.heal();
        }
    };
    let address = hub.at("/files/owner/repo/model.gguf").parse().unwrap();
    let mut options = hub.options.clone();
    options.connections = 1;
    let never = std::sync::atomic::AtomicBool::new(false);
    let path = conclave_hub::fetch(&address, &hub.cache, &options, &mut progress, &never);
    assert!(fs::read(path.unwrap()).unwrap() == other);
}

#[test]
fn a_resumed_download_stays_with_its_commit_until_that_is_gone() {
    let (hub, _) = one_model();
    hub.fault(&json!({"kind": "cut", "skip": 3, "after": 0, "times": 0}));
    hub.fetch(MODEL).0.unwrap_err();
    hub.fault(&json!({"kind": "404", "times": 0}));
    hub.fetch(MODEL).0.unwrap_err();
    assert!(
        hub.cache.list().unwrap()[0].stored > 0,
        "while it is there, what arrived stays"
    );
    hub.heal();
    // The hub's commit follows its files: the first one is no longer served.
    let other = bytes(SIZE, 8);
    hub.put("owner/repo/model.gguf", &other);
    assert!(fs::read(hub.fetch(MODEL).0.unwrap()).unwrap() == other);
}

#[test]
fn a_disk_without_room_is_told_before_a_byte_is_fetched() {
    let (hub, _) = one_model();
    // A file with a hole of a disk's size; the local host would hash it, so its size is only
    // claimed.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut line = listener.accept().unwrap().0;
        let _ = line.read(&mut [0; 4096]);
        let _ = line.write_all(
            b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/9000000000000\r\n\
              Content-Length: 1\r\n\r\nx",
        );
        let _ = line.read(&mut [0; 4096]);
    });
    let error = hub
        .fetch(&format!("http://127.0.0.1:{port}/huge.gguf"))
        .0
        .unwrap_err();
    assert!(matches!(error, HubError::NoSpace { .. }), "{error}");
    assert!(
        error.to_string().contains("9000.00 GB more are needed"),
        "{error}"
    );
}
