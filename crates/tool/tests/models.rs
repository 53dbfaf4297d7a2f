//! Downloaded models, as users of the tool get and name them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A hub that serves the bundled members, and a cache folder.
struct Hub {
    server: Child,
    endpoint: String,
    folder: PathBuf,
}

impl Hub {
    fn start(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("conclave-tool-{}-{name}", std::process::id()));
        let repository = folder.join("root/toys/bundled-GGUF");
        std::fs::create_dir_all(&repository).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for member in ["ada.gguf", "quill.gguf"] {
            std::fs::copy(
                root.join("web/members").join(member),
                repository.join(member),
            )
            .unwrap();
        }
        let mut server = Command::new("node")
            .arg(root.join("tests/hub/hub.mjs"))
            .arg("--root")
            .arg(folder.join("root"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs the hub");
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ports: Value = serde_json::from_str(&line).unwrap();
        Self {
            server,
            endpoint: format!("http://127.0.0.1:{}", ports["port"]),
            folder,
        }
    }

    fn run(&self, args: &[&str]) -> (bool, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(args)
            .env("HF_ENDPOINT", &self.endpoint)
            .env("CONCLAVE_MODELS", self.folder.join("cache"))
            .env_remove("HF_TOKEN")
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.success(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn json(&self, args: &[&str]) -> Value {
        let (good, out, error) = self.run(&[args, &["--json", "--device", "cpu"]].concat());
        assert!(good, "{args:?}: {error}");
        assert_eq!(
            (out.trim().lines().count(), error.as_str()),
            (1, ""),
            "{out}"
        );
        serde_json::from_str(&out).unwrap()
    }

    fn stop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const ADA: &str = "hf:toys/bundled-GGUF/ada.gguf";

#[test]
fn a_reference_works_wherever_a_model_is_named_and_offline_ever_after() {
    let mut hub = Hub::start("reference");
    let args = ["tokenize", "--model", ADA, "--text", "What is 347 + 85?"];
    let ids = hub.json(&args)["ids"].clone();
    assert!(!ids.as_array().unwrap().is_empty());
    let quill = format!("{}/files/toys/bundled-GGUF/quill.gguf", hub.endpoint);
    let members = format!("{ADA},{quill}");
    let chat = [
        "chat",
        "--members",
        &members,
        "--greedy",
        "--max-rounds",
        "1",
        "What is 347 + 85?",
    ];
    let names = |run: &Value| run["members"].clone();
    let answer = hub.json(&chat);
    hub.stop();
    assert_eq!(hub.json(&args)["ids"], ids, "offline");
    assert_eq!(names(&hub.json(&chat)), names(&answer));
    let shown = names(&answer).to_string();
    assert!(
        shown.contains("\"ada\"") && shown.contains("\"quill\""),
        "{shown}"
    );
    let (good, out, error) = hub.run(&["inspect", "hf:toys/bundled-GGUF/quill.gguf", "--json"]);
    assert!(
        !good && out.is_empty() && error.contains("no server answers there"),
        "{error}"
    );
}

#[test]
fn models_are_pulled_listed_and_removed() {
    let hub = Hub::start("models");
    let (_, nothing, _) = hub.run(&["models"]);
    assert!(nothing.contains("conclave models pull hf:"), "{nothing}");
    let (good, path, error) = hub.run(&["models", "pull", ADA]);
    assert!(good && error.is_empty(), "{error}");
    assert!(Path::new(path.trim()).is_file());
    let listed = hub.json(&["models", "list"]);
    let size = std::fs::metadata(path.trim()).unwrap().len();
    assert_eq!(listed["models"][0]["reference"], ADA);
    assert_eq!(listed["models"][0]["stored"], size);
    assert_eq!(listed["models"][0]["verified"], true);
    assert!(hub.run(&["models"]).1.contains(ADA));
    assert_eq!(
        hub.json(&["models", "pull", ADA, "--update"])["path"],
        path.trim()
    );
    assert_eq!(hub.json(&["models", "remove", ADA])["freed"], size);
    assert!(!Path::new(path.trim()).exists());
    let (good, _, error) = hub.run(&["models", "remove", ADA]);
    assert!(!good && error.contains("is not stored"), "{error}");
}

#[test]
fn a_wrong_reference_is_answered_by_a_right_one() {
    let hub = Hub::start("wrong");
    let said = |args: &[&str]| {
        let (good, out, error) = hub.run(args);
        assert!(!good && out.is_empty(), "{args:?}");
        error
    };
    assert!(
        said(&["inspect", "hf:toys/bundled-GGUF"]).contains("hf:toys/bundled-GGUF/quill.gguf (")
    );
    assert!(said(&["inspect", "hf:toys"]).contains("write hf:OWNER/REPO/FILE.gguf"));
    assert!(
        said(&["inspect", "toys/bundled-GGUF/ada.gguf"])
            .contains("write hf:toys/bundled-GGUF/ada.gguf")
    );
    assert!(said(&["models", "pull", "https://example.org/x.bin"]).contains(".gguf"));
    let models = hub
        .folder
        .join("cache/nowhere")
        .to_string_lossy()
        .into_owned();
    assert!(
        hub.run(&["models", "--models-dir", &models])
            .1
            .contains("nowhere")
    );
}
