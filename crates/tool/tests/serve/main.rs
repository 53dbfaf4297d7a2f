//! `conclave serve` as a program: its output, access, shutdown and memory use.

mod away;
mod chained;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
#[cfg(unix)]
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[path = "../../../member/tests/speaker/mod.rs"]
mod speaker;

use speaker::Speaker;

const KEY: &str = "the-key-of-the-tests";

/// Server of an ensemble of the bundled members, killed when dropped.
struct Served {
    program: Child,
    address: String,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    command.args(["serve", "--device", "cpu"]).args(arguments);
    command.env_remove("CONCLAVE_KEY").stdin(Stdio::null());
    command
}

impl Served {
    fn new(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::logging(arguments, environment, Stdio::null())
    }

    /// Writes its log there.
    fn logging(arguments: &[&str], environment: &[(&str, &str)], log: Stdio) -> Self {
        let free: &[&str] = match arguments.contains(&"--port") {
            true => &[],
            false => &["--port", "0"],
        };
        let mut command = command(free);
        command.args(arguments).envs(environment.iter().copied());
        command.stdout(Stdio::piped()).stderr(log);
        let mut program = command.spawn().expect("the tool starts");
        let mut line = String::new();
        let output = program.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("http://")
            .and_then(|line| line.strip_suffix("/v1"));
        let address = address.expect("it says where it is").to_owned();
        Self { program, address }
    }

    /// Sends a raw request; returns the status and the body.
    fn send(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {KEY}\r\nContent-Length: {length}\r\n\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    fn ask(&self, stream: bool) -> (u16, String) {
        let body = json!({
            "messages": [{ "role": "user", "content": "What is 347 + 85?" }],
            "temperature": 0, "stream": stream,
        });
        self.send("POST /v1/chat/completions", &body.to_string())
    }

    /// Sends a request, and hangs up once so many bytes of its stream have come.
    #[cfg(target_os = "linux")]
    fn leave(&self, bytes: usize) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = json!({
            "messages": [{ "role": "user", "content": "What is 347 + 85?" }],
            "temperature": 0, "stream": true,
        });
        let (body, address) = (body.to_string(), &self.address);
        let length = body.len();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let _ = stream.read_exact(&mut vec![0; bytes]);
    }

    /// Waits some seconds until it answers nobody, and nobody waits.
    #[cfg(target_os = "linux")]
    fn idle(&self) {
        let begun = Instant::now();
        loop {
            let health: Value = serde_json::from_str(&self.send("GET /health", "").1).unwrap();
            if health["busy"] == false && health["waiting"] == 0 {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{health}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[cfg(unix)]
    fn signal(&self, signal: i32) {
        let id = i32::try_from(self.program.id()).unwrap();
        // SAFETY: a signal to a process that this test has started and not yet waited for.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }

    /// Waits some seconds for its end; returns its exit code.
    #[cfg(unix)]
    fn ended(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not end");
    }

    /// Resident memory in bytes.
    #[cfg(target_os = "linux")]
    fn resident(&self) -> u64 {
        let file = format!("/proc/{}/status", self.program.id());
        let status = std::fs::read_to_string(file).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        let kib: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
        1024 * kib
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Error message if the tool can't serve.
fn refused(arguments: &[&str]) -> String {
    let output = command(arguments).output().expect("the tool starts");
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn its_address_is_one_json_object_where_asked() {
    let mut command = command(&["--port", "0", "--json"]);
    let mut program = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = program.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut line).unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    let told: Value = serde_json::from_str(&line).expect("it is JSON");
    assert!(told["address"].as_str().unwrap().ends_with("/v1"), "{told}");
    assert_eq!(told["members"], json!(["Ada", "Quill", "Juno"]));
}

#[test]
fn a_setting_that_no_request_could_have_is_refused_at_the_start() {
    for (option, value, range) in [
        ("--max-rounds", "0", "from 1 to 10000"),
        ("--max-characters", "0", "from 1 to 1000000"),
        ("--temperature", "3", "from 0 to 2"),
    ] {
        let told = refused(&[option, value, "--port", "0"]);
        let names = told.contains(&format!("{option} {value}: ")) && told.contains(range);
        assert!(names, "{told}");
    }
    let told = refused(&["--context", "0", "--port", "0"]);
    assert!(
        told.contains("--context") && told.contains("at least 1"),
        "{told}"
    );
}

/// A device that has no room for a byte, in place of a disk that has none.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_ends_no_answer() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full");
    let lines = full().expect("Linux has it");
    let mut served = Served::logging(&[], &[], lines.into());
    for stream in [false, true, false] {
        let (status, told) = served.ask(stream);
        assert!(status == 200 && told.contains("432"), "{told}");
    }
    assert_eq!(served.send("POST /v1/chat/completions", "{").0, 400);
    served.signal(libc::SIGTERM);
    assert_eq!(served.ended(), Some(0));
}

#[test]
fn an_address_of_other_machines_needs_a_key() {
    let told = refused(&["--host", "0.0.0.0", "--port", "0"]);
    assert!(
        told.contains("--key") && told.contains("CONCLAVE_KEY"),
        "{told}"
    );
    assert!(refused(&["--key", "short"]).contains("at least 8"));
    assert!(refused(&["--origin", "example.org"]).contains("https://example.org"));
    let mut served = Served::new(&["--host", "0.0.0.0"], &[("CONCLAVE_KEY", KEY)]);
    served.address = served.address.replace("0.0.0.0", "127.0.0.1");
    let (status, models) = served.send("GET /v1/models", "");
    assert_eq!(status, 200);
    assert!(models.contains("Quill"), "{models}");
    let port = served.address.split_once(':').unwrap().1;
    let told = refused(&["--host", "0.0.0.0", "--key", KEY, "--port", port]);
    assert!(told.contains("choose another --port"), "{told}");
    served.send("GET /v1/models", "");
}

#[test]
#[cfg(unix)]
fn a_signal_ends_it_once_the_answer_on_its_way_is_told() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut served = Served::new(&[], &[]);
        let body = json!({
            "messages": [{ "role": "user", "content": "What is 347 + 85?" }],
            "temperature": 0, "stream": true,
        })
        .to_string();
        let mut stream = TcpStream::connect(&served.address).unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut told = String::new();
        while !told.contains("data: ") {
            assert!(reader.read_line(&mut told).unwrap() > 0, "{told}");
        }
        served.signal(signal);
        reader.read_to_string(&mut told).unwrap();
        assert!(told.contains("data: [DONE]"), "{told}");
        assert_eq!(served.ended(), Some(0));
        assert!(TcpStream::connect(&served.address).is_err());
    }
}

/// A folder with a model that sings, by this template.
fn singer(
    name: &str,
    template: impl Into<Option<&'static str>>,
    context: usize,
) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("conclave-{}-{name}", std::process::id()));
    let singer = Speaker {
        words: &["<|end|>", "<|user|>", "<|answer|>", " la", " li", " lo"],
        says: &[&["<|answer|>", " la", " li", " lo", " la"]],
        template: template.into(),
        context,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    singer.write(&folder);
    folder
}

const SINGS: &str = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>";

#[test]
#[cfg(unix)]
fn what_cannot_be_logged_ends_nothing() {
    let short = singer("short", SINGS, 64);
    let members = format!("{},{}", bundled("ada"), short.display());
    let mut command = command(&["--port", "0", "--members", &members]);
    let mut program = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    // Its log has no reader.
    drop(program.stderr.take());
    BufReader::new(program.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().trim_start_matches("http://");
    let address = address.trim_end_matches("/v1").to_owned();
    let mut served = Served { program, address };
    // One member leaves, which is logged.
    let question = "What is 347 + 85? ".repeat(20);
    let body = json!({ "messages": [{ "role": "user", "content": question }], "max_tokens": 8 });
    let (status, told) = served.send("POST /v1/chat/completions", &body.to_string());
    assert_eq!(status, 200, "{told}");
    assert!(told.contains("\"left\""), "{told}");
    served.signal(libc::SIGINT);
    assert_eq!(served.ended(), Some(0));
    std::fs::remove_dir_all(short).unwrap();
}

#[test]
fn a_template_that_is_none_costs_its_member_and_another_may_be_given() {
    let folder = singer("go", "{{- if .System }}{{ .System }}{{ end }}", 400);
    let members = format!("{},{}", bundled("ada"), folder.display());
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let models = |arguments: &[&str]| {
        let served = Served::new(arguments, &[]);
        served.send("GET /v1/models", "").1
    };
    assert!(!models(&["--members", &members]).contains(&name));
    let file = folder.with_extension("jinja");
    std::fs::write(&file, SINGS).unwrap();
    let given = format!("{name}={}", file.display());
    assert!(models(&["--members", &members, "--template", &given]).contains(&name));
    // Alone, its error names the fault and the remedy.
    let told = refused(&["--members", folder.to_str().unwrap()]);
    assert!(
        told.contains("Go template") && told.contains("--template"),
        "{told}"
    );
    let alone = ["--members", folder.to_str().unwrap(), "--template"];
    let file_name = file.to_str().unwrap();
    assert!(models(&[&alone[..], &[file_name]].concat()).contains(&name));
    // As a model's folder has it.
    let folders = json!({ "chat_template": SINGS, "bos_token": "<s>" });
    std::fs::write(&file, folders.to_string()).unwrap();
    assert!(models(&[&alone[..], &[file_name]].concat()).contains(&name));
    std::fs::write(&file, "{\"bos_token\": \"<s>\"}").unwrap();
    let told = refused(&[&alone[..], &[file_name]].concat());
    assert!(told.contains("JSON without a `chat_template`"), "{told}");
    // The file at fault is named, not the model's.
    std::fs::write(&file, "\n{% if %}").unwrap();
    let told = refused(&[&alone[..], &[file_name]].concat());
    assert!(
        told.contains(&format!("--template {file_name}: ")),
        "{told}"
    );
    assert!(told.contains("line 2"), "{told}");
    // Useless options are refused.
    let told = refused(&["--members", &members, "--template", file_name]);
    assert!(told.contains("NAME=FILE"), "{told}");
    assert!(refused(&["--template", "Ada=/nowhere.jinja"]).contains("/nowhere.jinja"));
    assert!(refused(&["--keys", "/nowhere"]).contains("no member lives behind a server"));
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_file(file).unwrap();
}

#[test]
fn this_machine_is_asked_by_its_name() {
    let mut served = Served::new(&["--host", "localhost"], &[]);
    let port = served.address.split_once(':').unwrap().1.to_owned();
    for host in ["127.0.0.1", "[::1]"] {
        // Not every machine has both kinds of address.
        if std::net::TcpListener::bind(format!("{host}:0")).is_ok() {
            served.address = format!("{host}:{port}");
            assert_eq!(served.send("GET /v1/models", "").0, 200);
        }
    }
}

#[test]
fn a_base_model_and_a_byte_order_mark_are_no_riddles() {
    let folder = singer("base", None, 1000);
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["chat", "What is 347 + 85?", "--device", "cpu", "--greedy"])
            .args(arguments)
            .output()
            .expect("the tool starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let said = run(&["--members", folder.to_str().unwrap(), "--max-rounds", "1"]);
    assert!(
        said.contains("no chat template") && said.contains("--template"),
        "{said}"
    );
    let schema = folder.join("schema.json");
    std::fs::write(&schema, "\u{feff}{\"type\": \"boolean\"}").unwrap();
    run(&["--json-schema", schema.to_str().unwrap()]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn only_the_request_and_the_room_end_an_answer() {
    let folder = singer("long", SINGS, 1500);
    let served = Served::new(&["--members", folder.to_str().unwrap()], &[]);
    let ask = |options: Value| {
        let mut body = options;
        body["messages"] = json!([{ "role": "user", "content": "Well?" }]);
        let (status, told) = served.send("POST /v1/chat/completions", &body.to_string());
        assert_eq!(status, 200, "{told}");
        let answer: Value = serde_json::from_str(&told).unwrap();
        let tokens = answer["usage"]["completion_tokens"].as_u64().unwrap();
        (
            answer["conclave"]["stop"].as_str().unwrap().to_owned(),
            tokens,
        )
    };
    // 4,096 characters are some 1,365 tokens of three letters.
    let (stop, tokens) = ask(json!({ "max_tokens": 1400 }));
    assert_eq!(stop, "tokens");
    assert!((1400..1404).contains(&tokens), "{tokens}");
    let (stop, tokens) = ask(json!({}));
    assert!(stop == "context" && tokens > 1404, "{stop} {tokens}");
    std::fs::remove_dir_all(folder).unwrap();
}

fn bundled(name: &str) -> String {
    format!(
        "{}/../../web/members/{name}.gguf",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// 64 clients, each sending a request as soon as it is answered: the number of answers, and the
/// server's memory after the first tenth of them and at the end.
#[cfg(target_os = "linux")]
fn besieged(seconds: u64) -> (usize, u64, u64) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::spawn;

    let served = Arc::new(Served::new(&[], &[]));
    let whole: Value = serde_json::from_str(&served.ask(false).1).unwrap();
    let whole = whole["choices"][0]["message"]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    let answers = Arc::new(AtomicUsize::new(0));
    let end = Instant::now() + Duration::from_secs(seconds);
    let clients: Vec<_> = (0..64)
        .map(|number| {
            let (served, answers, whole) =
                (Arc::clone(&served), Arc::clone(&answers), whole.clone());
            spawn(move || {
                while Instant::now() < end {
                    let streamed = number % 2 == 0;
                    let (status, body) = served.ask(streamed);
                    assert_eq!(status, 200, "{body}");
                    assert_eq!(
                        if streamed {
                            joined(&body)
                        } else {
                            content(&body)
                        },
                        whole
                    );
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs(seconds) / 10);
    let early = served.resident();
    for client in clients {
        client.join().unwrap();
    }
    (answers.load(Ordering::Relaxed), early, served.resident())
}

#[cfg(target_os = "linux")]
fn content(body: &str) -> String {
    let answer: Value = serde_json::from_str(body).unwrap();
    answer["choices"][0]["message"]["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Text of a stream, which must be complete. Lines of HTTP's own chunks are skipped.
#[cfg(target_os = "linux")]
fn joined(body: &str) -> String {
    assert!(body.contains("data: [DONE]"), "{body}");
    let chunks = body.lines().filter_map(|line| line.strip_prefix("data: {"));
    chunks
        .filter_map(|chunk| {
            let chunk: Value = serde_json::from_str(&format!("{{{chunk}")).unwrap();
            Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned())
        })
        .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn sixty_four_clients_do_not_make_it_grow() {
    let (answers, early, late) = besieged(10);
    assert!(answers >= 64, "{answers}");
    assert!(
        late < early + (8 << 20),
        "{answers} answers, {early} to {late} bytes"
    );
}
