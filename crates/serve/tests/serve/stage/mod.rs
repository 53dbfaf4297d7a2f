//! A real server on a free port, with the bundled members, and its HTTP clients.
#![allow(dead_code, reason = "each file of tests uses its part")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use conclave_ensemble::{Candidate, Settings};
use conclave_member::{
    Begun, ChosenToken, Draft, Judged, JudgedToken, Member, Message, Thinking, Thought,
    VerifiedScore,
};
use conclave_model::{Cpu, LoadOptions, Sampling};
use conclave_remote::RemoteError;
use conclave_rounds::{AnyMember, FormOf, MoveError, TakePart};
use conclave_serve::{Config, Ensemble, Server};
use conclave_weights::Memory;
use serde_json::{Value, json};
use tokio::sync::oneshot;

pub const NAMES: [&str; 3] = ["Ada", "Quill", "Juno"];

/// A question whose answer takes several rounds.
pub const SUM: &str = "What is 347 + 85?";

/// The file of a bundled member.
pub fn file(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/members");
    std::fs::read(format!("{folder}/{}.gguf", name.to_lowercase())).unwrap()
}

/// The bundled members, on the CPU.
pub fn bundled() -> Vec<Member> {
    let load = |name: &&str| {
        let source = Memory::file(format!("{name}.gguf"), file(name));
        let options = LoadOptions::with_context(1024);
        let mut silent = |_| ();
        let load = Member::load(name, &source, &Cpu::ALONE, options, &mut silent);
        pollster::block_on(load).unwrap()
    };
    NAMES.iter().map(load).collect()
}

/// Servers that run in this process: their number, or [`ALONE`].
static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// One server whose test reads the log, which is the process's.
const ALONE: usize = usize::MAX;

/// A server's place among those that run.
struct Turn;

impl Turn {
    fn any() -> Self {
        let running = RUNNING.0.lock().unwrap();
        *RUNNING
            .1
            .wait_while(running, |count| *count == ALONE)
            .unwrap() += 1;
        Self
    }

    fn alone() -> Self {
        let running = RUNNING.0.lock().unwrap();
        *RUNNING.1.wait_while(running, |count| *count > 0).unwrap() = ALONE;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = RUNNING.0.lock().unwrap();
        *running = if *running == ALONE { 0 } else { *running - 1 };
        RUNNING.1.notify_all();
    }
}

/// The server's thread, joined when dropped.
pub struct Stage {
    pub address: SocketAddr,
    agent: ureq::Agent,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
    /// Given up after the server has ended.
    _turn: Turn,
}

/// Defaults of most tests.
pub fn config() -> Config {
    Config {
        host: "127.0.0.1".to_owned(),
        port: 0,
        key: None,
        origins: Vec::new(),
        waiting: 128,
    }
}

impl Stage {
    /// The bundled members.
    pub fn new() -> Self {
        Self::with(config())
    }

    /// The bundled members with this configuration.
    pub fn with(config: Config) -> Self {
        Self::with_members(config, Settings::default(), || {
            bundled().into_iter().map(AnyMember::from).collect()
        })
    }

    /// Members that are created on the thread that runs them.
    pub fn with_members<M: TakePart>(
        config: Config,
        settings: Settings,
        members: impl FnOnce() -> Vec<M> + Send + 'static,
    ) -> Self {
        Self::start(config, settings, members, Turn::any())
    }

    /// The same, with no other server in this process, whose requests would be logged, too.
    pub fn alone<M: TakePart>(
        config: Config,
        settings: Settings,
        members: impl FnOnce() -> Vec<M> + Send + 'static,
    ) -> Self {
        Self::start(config, settings, members, Turn::alone())
    }

    fn start<M: TakePart>(
        config: Config,
        settings: Settings,
        members: impl FnOnce() -> Vec<M> + Send + 'static,
        turn: Turn,
    ) -> Self {
        let server = Server::bind(config).unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let ensemble = Ensemble {
            settings,
            sampling: Sampling::default(),
            thinking: Thinking::default(),
        };
        let running = std::thread::spawn(move || {
            let shutdown = async {
                let _ = stopped.await;
            };
            server.run(&mut members(), &ensemble, shutdown).unwrap();
        });
        Self {
            address,
            agent: agent(),
            stop: Some(stop),
            running: Some(running),
            _turn: turn,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        read(self.agent.get(self.url(path)).call().unwrap())
    }

    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        read(post(&self.agent, &self.url(path), body).unwrap())
    }

    /// The answer to a conversation of one question, with these options.
    pub fn chat(&self, question: &str, options: Value) -> Value {
        let (status, answer) = self.post("/v1/chat/completions", &asked(question, options));
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub fn complete(&self, options: &Value) -> Value {
        let (status, answer) = self.post("/v1/completions", options);
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// A complete stream: its chunks, and whether it reached its end.
    pub fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        Streaming::begin(&self.agent, &self.url(path), body).rest()
    }

    pub fn health(&self) -> (bool, u64) {
        let (_, health) = self.get("/health");
        (
            health["busy"].as_bool().unwrap(),
            health["waiting"].as_u64().unwrap(),
        )
    }

    /// Waits until the server meets a condition, some seconds at most.
    pub fn until(&self, what: &str, mut is: impl FnMut((bool, u64)) -> bool) {
        let begun = Instant::now();
        while !is(self.health()) {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{what}: {:?}",
                self.health()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks the server to shut down, without waiting.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits until it has shut down.
    pub fn ended(&mut self) {
        self.running.take().unwrap().join().unwrap();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop();
        if let Some(running) = self.running.take() {
            let over = running.join();
            assert!(
                over.is_ok() || std::thread::panicking(),
                "the server broke down"
            );
        }
    }
}

/// A client that accepts every status.
pub fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config
        .timeout_global(Some(Duration::from_secs(120)))
        .build()
        .into()
}

type Response = ureq::http::Response<ureq::Body>;

pub fn post(agent: &ureq::Agent, url: &str, body: &Value) -> Result<Response, ureq::Error> {
    let request = agent.post(url).header("content-type", "application/json");
    request.send(body.to_string())
}

/// A response's status, and its body as JSON.
pub fn read(mut response: Response) -> (u16, Value) {
    let text = response.body_mut().read_to_string().unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (response.status().as_u16(), body)
}

/// The body of a chat request.
pub fn asked(question: &str, options: Value) -> Value {
    let mut body =
        json!({ "messages": [{ "role": "user", "content": question }], "temperature": 0 });
    for (name, value) in options.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// A stream in progress.
pub struct Streaming(BufReader<ureq::BodyReader<'static>>);

impl Streaming {
    pub fn begin(agent: &ureq::Agent, url: &str, body: &Value) -> Self {
        let mut body = body.clone();
        body["stream"] = json!(true);
        let response = post(agent, url, &body).unwrap();
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        Self(BufReader::new(response.into_body().into_reader()))
    }

    /// The next chunk; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line).unwrap();
            assert!(read > 0, "the stream broke off");
            match line.trim_end().strip_prefix("data: ") {
                Some("[DONE]") => return None,
                Some(data) => return Some(serde_json::from_str(data).unwrap()),
                None => {}
            }
        }
    }

    pub fn rest(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// The text of a stream's chunks.
pub fn text_of(chunks: &[Value]) -> String {
    let texts = chunks.iter().filter_map(|chunk| {
        let choice = chunk["choices"].get(0)?;
        choice["delta"]["content"]
            .as_str()
            .or(choice["text"].as_str())
    });
    texts.collect()
}

/// Members wait here while it is shut: however slow a machine is, their answer lasts until it
/// opens.
pub struct Gate(Way);

/// State of a [`Gate`]: number of drafts that may still pass.
#[derive(Clone)]
pub struct Way(Arc<(Mutex<usize>, Condvar)>);

impl Gate {
    pub fn new() -> Self {
        Self(Way(Arc::new((Mutex::new(usize::MAX), Condvar::new()))))
    }

    pub fn shut(&self) {
        self.shut_behind(0);
    }

    /// Lets so many drafts pass, and no more.
    pub fn shut_behind(&self, drafts: usize) {
        let (left, changed) = &*self.0.0;
        *left.lock().unwrap() = drafts;
        changed.notify_all();
    }

    pub fn open(&self) {
        self.shut_behind(usize::MAX);
    }

    pub fn way(&self) -> Way {
        self.0.clone()
    }
}

impl Drop for Gate {
    /// A failing test must not keep a server from shutting down.
    fn drop(&mut self) {
        self.open();
    }
}

impl Way {
    fn pass(&self) {
        let (left, changed) = &*self.0;
        let left = left.lock().unwrap();
        *changed.wait_while(left, |left| *left == 0).unwrap() -= 1;
    }
}

/// A real member that is slow, waits at a gate, fails on one word, and counts its drafts, and
/// tokens whose log-probabilities it returns.
pub struct Moody {
    member: Member,
    pause: Duration,
    way: Way,
    drafts: Arc<AtomicUsize>,
    breaks: bool,
    /// It behaves like a remote member whose server does not answer.
    pub late: bool,
    /// It behaves like a member whose server only judges.
    pub judges: bool,
}

/// Word at which a [`Moody`] member fails.
pub const BREAKS: &str = "Break down, please.";

impl Moody {
    pub fn new(member: Member, pause: Duration, way: Way, drafts: &Arc<AtomicUsize>) -> Self {
        Self {
            member,
            pause,
            way,
            drafts: Arc::clone(drafts),
            breaks: false,
            late: false,
            judges: false,
        }
    }
}

impl Moody {
    fn answers(&self) -> Result<(), MoveError> {
        let host = "far.example".to_owned();
        match self.late {
            true => Err(RemoteError::Late { host, seconds: 1 }.into()),
            false => Ok(()),
        }
    }
}

impl TakePart for Moody {
    fn name(&self) -> &str {
        self.member.name()
    }

    async fn measure(&self, messages: &[Message]) -> Result<usize, MoveError> {
        TakePart::measure(&self.member, messages).await
    }

    fn measure_text(&self, text: &str) -> Result<usize, MoveError> {
        match self.judges {
            true => Err(MoveError::Unknown("continue a bare text")),
            false => TakePart::measure_text(&self.member, text),
        }
    }

    fn drafts(&self) -> bool {
        !self.judges
    }

    fn hold(&mut self, form: Option<FormOf<'_>>) -> Result<(), MoveError> {
        self.member.hold(form)
    }

    async fn begin_while(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        self.breaks = messages.iter().any(|message| message.content == BREAKS);
        TakePart::begin_while(&mut self.member, messages, sampling, stream, go_on).await
    }

    async fn begin_text_while(
        &mut self,
        text: &str,
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        TakePart::begin_text_while(&mut self.member, text, sampling, stream, go_on).await
    }

    async fn judge_text(
        &mut self,
        text: &str,
        judged: &mut Judged,
    ) -> Result<Vec<JudgedToken>, MoveError> {
        TakePart::judge_text(&mut self.member, text, judged).await
    }

    async fn chosen(
        &mut self,
        most: usize,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Option<Vec<ChosenToken>>, MoveError> {
        let (way, drafts, pause) = (&self.way, &self.drafts, self.pause);
        let each = || {
            way.pass();
            drafts.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(pause);
            go_on()
        };
        TakePart::chosen(&mut self.member, most, each).await
    }

    async fn think_while(
        &mut self,
        go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MoveError> {
        TakePart::think_while(&mut self.member, go_on).await
    }

    async fn draft(&mut self, limit: usize, branch: f64, novel: bool) -> Result<Draft, MoveError> {
        assert!(!self.breaks, "it breaks down, as it was asked to");
        self.answers()?;
        self.way.pass();
        self.drafts.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(self.pause);
        TakePart::draft(&mut self.member, limit, branch, novel).await
    }

    async fn verify(
        &mut self,
        candidates: &[Candidate],
        settings: &Settings,
    ) -> Result<Vec<VerifiedScore>, MoveError> {
        self.answers()?;
        TakePart::verify(&mut self.member, candidates, settings).await
    }

    async fn keep(&mut self, winner: usize) -> Result<(), MoveError> {
        if self.late {
            return Ok(());
        }
        TakePart::keep(&mut self.member, winner).await
    }

    fn release(&mut self) {
        self.member.release();
    }
}
