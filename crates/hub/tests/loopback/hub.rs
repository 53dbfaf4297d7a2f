//! A local hub: `tests/hub/hub.mjs` over a temporary folder, with a cache beside it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use conclave_hub::{Cache, HubError, Options, Progress, fetch};
use serde_json::Value;

/// Small, so that a test file has several chunks.
pub const CHUNK: u64 = 64 << 10;

pub struct Hub {
    server: Child,
    pub port: u16,
    pub folder: PathBuf,
    pub cache: Cache,
    pub options: Options,
}

impl Hub {
    /// Starts a hub that serves files from another port, as the hub's store does.
    pub fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "conclave-hub-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("root")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hub/hub.mjs");
        let mut server = Command::new("node")
            .arg(script)
            .arg("--root")
            .arg(folder.join("root"))
            .args(["--cdn-port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs the hub");
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ports: Value = serde_json::from_str(&line).unwrap();
        let port = u16::try_from(ports["port"].as_u64().unwrap()).unwrap();
        let options = Options {
            endpoint: format!("http://127.0.0.1:{port}"),
            chunk_bytes: CHUNK,
            // A busy machine stalls too: each test that stalls a connection sets its own timeout.
            stall: Duration::from_secs(3600),
            pause: Duration::from_millis(10),
            ..Options::default()
        };
        let cache = Cache::new(folder.join("cache"));
        Self {
            server,
            port,
            folder,
            cache,
            options,
        }
    }

    /// Adds a file to a repository.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.folder.join("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Injects a fault, as described in the script.
    pub fn fault(&self, fault: &Value) {
        ureq::post(self.at("/faults"))
            .send(fault.to_string())
            .unwrap();
    }

    /// Clears all faults.
    pub fn heal(&self) {
        ureq::delete(self.at("/faults")).call().unwrap();
    }

    /// Requests so far.
    pub fn log(&self) -> Vec<Value> {
        let text = ureq::get(self.at("/log"))
            .call()
            .unwrap()
            .body_mut()
            .read_to_string()
            .unwrap();
        serde_json::from_str::<Value>(&text)
            .unwrap()
            .as_array()
            .unwrap()
            .clone()
    }

    /// Bytes of models sent so far.
    pub fn sent(&self) -> u64 {
        let log = self.log();
        let files = log
            .iter()
            .filter(|entry| !entry["path"].as_str().unwrap().starts_with("/api/models"));
        files.map(|entry| entry["sent"].as_u64().unwrap()).sum()
    }

    pub fn forget_log(&self) {
        ureq::delete(self.at("/log")).call().unwrap();
    }

    pub fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Fetches a model as the tool does; returns the path and the progress reports.
    pub fn fetch(&self, reference: &str) -> (Result<PathBuf, HubError>, Vec<Progress>) {
        let mut told = Vec::new();
        let reference = reference.parse().unwrap();
        let outcome = fetch(
            &reference,
            &self.cache,
            &self.options,
            &mut |progress| told.push(progress),
            &AtomicBool::new(false),
        );
        (outcome, told)
    }

    /// Lists every file in the cache except locks.
    pub fn cached(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(self.cache.root(), &mut found);
        let locks = self.cache.root().join("locks");
        found.retain(|path| !path.starts_with(&locks));
        found
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => walk(&path, found),
            path => found.push(path),
        }
    }
}

/// Bytes without repetition at any two offsets.
pub fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count).map(|_| (next() >> 24) as u8).collect()
}

/// Failures that were reported.
pub fn troubles(told: &[Progress]) -> Vec<&str> {
    told.iter()
        .filter_map(|progress| match progress {
            Progress::Trouble { what, .. } => Some(what.as_str()),
            _ => None,
        })
        .collect()
}
