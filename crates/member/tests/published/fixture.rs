//! The fixtures under `tests/fixtures/published`, and their models.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use conclave_kernels::{AdapterChoice, Launcher};
use conclave_member::Message;
use conclave_model::{Backend, Cpu, LoadOptions, Model, Session, Threads};
use conclave_weights::{Checkpoint, Disk};
use serde::Deserialize;

/// Tokens of a prompt that exceeds Gemma's window of 512.
const BEYOND_THE_WINDOW: usize = 640;

/// More than the longest text with its continuation.
const CONTEXT: usize = 2048;

/// A model's references: `MODEL.json`.
#[derive(Deserialize)]
pub struct Reference {
    pub file: String,
    pub vocabulary: usize,
    /// Every `stride`-th of each row of logits is stored, beside the largest.
    stride: usize,
    pub prompts: Vec<Prompt>,
    pub conversations: Vec<Conversation>,
    pub greedy: Vec<Greedy>,
    pub in_line: Vec<InLine>,
    pub perplexity: Perplexity,
}

#[derive(Deserialize)]
pub struct Prompt {
    pub name: String,
    pub text: String,
    /// Text that the ids spell, if the tokenizer composes characters.
    pub read: Option<String>,
    /// With BOS, if the model requires it.
    pub ids: Vec<u32>,
    pub rows: Vec<Row>,
}

/// The logits after the first `length` ids of a prompt.
#[derive(Deserialize)]
pub struct Row {
    pub length: usize,
    /// The largest magnitude of the row.
    pub largest: f64,
    /// Ids of the largest logits, in order.
    top: Vec<usize>,
    /// The stored logits with their ids: the largest, and a share of all.
    #[serde(skip)]
    pub kept: Vec<(usize, f32)>,
}

#[derive(Deserialize)]
pub struct Conversation {
    pub messages: Vec<Message>,
    pub text: String,
    pub ids: Vec<u32>,
}

#[derive(Deserialize)]
pub struct Greedy {
    pub prompt: Vec<u32>,
    pub ids: Vec<u32>,
    pub ended: bool,
    pub text: String,
}

#[derive(Deserialize)]
pub struct InLine {
    pub prefix: Vec<u32>,
    pub candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
pub struct Candidate {
    pub text: String,
    pub ids: Vec<u32>,
    pub mean_logit: f64,
    pub mean_logprob: f64,
    /// The mean of its rows' largest magnitudes.
    pub largest: f64,
}

#[derive(Deserialize)]
pub struct Perplexity {
    /// The text's file, beside this one.
    pub text: String,
    pub tokens: usize,
    /// That of llama.cpp.
    pub value: f64,
    pub transformers: f64,
}

fn fixture(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/published")
        .join(file)
}

impl Reference {
    pub fn read(model: &str) -> Self {
        let text = std::fs::read_to_string(fixture(&format!("{model}.json"))).unwrap();
        let mut reference: Self = serde_json::from_str(&text).unwrap();
        let bytes = std::fs::read(fixture(&format!("{model}.f32"))).unwrap();
        let (floats, rest) = bytes.as_chunks();
        let mut floats = floats.iter().map(|four| f32::from_le_bytes(*four));
        let rows = reference.prompts.iter_mut().flat_map(|one| &mut one.rows);
        for (number, row) in rows.enumerate() {
            let share = number % reference.stride..reference.vocabulary;
            let ids = row
                .top
                .iter()
                .copied()
                .chain(share.step_by(reference.stride));
            row.kept = ids.clone().zip(&mut floats).collect();
            assert_eq!(row.kept.len(), ids.count(), "{model}.f32 ends early");
        }
        assert!(
            floats.next().is_none() && rest.is_empty(),
            "{model}.f32 has other rows"
        );
        reference
    }

    /// The file itself.
    pub fn source(&self) -> Disk {
        let folder = std::env::var_os("CONCLAVE_PUBLISHED").expect(
            "CONCLAVE_PUBLISHED names no folder; `cargo xtask test --only real` fetches the models \
             and sets it",
        );
        let path = PathBuf::from(folder).join(&self.file);
        Disk::open(&path).unwrap_or_else(|error| {
            panic!(
                "{}: {error}; `cargo xtask models` fetches it",
                path.display()
            )
        })
    }
}

impl Perplexity {
    /// The text.
    pub fn text(&self) -> String {
        let text = std::fs::read_to_string(fixture(&self.text)).unwrap();
        text.trim().to_owned()
    }
}

/// Device of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    Cpu,
    /// The CPU with three threads.
    Threads,
    Gpu,
}

impl Device {
    pub const fn cpu() -> Self {
        Self::Cpu
    }

    pub const fn threads() -> Self {
        Self::Threads
    }

    pub const fn gpu() -> Self {
        Self::Gpu
    }

    /// Whether texts of so many tokens are run. A CPU emulating a GPU is slow: lavapipe takes half
    /// a minute for a thousand tokens, SwiftShader minutes. `CONCLAVE_SHORT` limits both to short
    /// texts.
    fn runs(self, tokens: usize) -> bool {
        match self {
            Self::Cpu | Self::Threads => true,
            Self::Gpu => {
                let adapter = gpu().adapter();
                let longer = adapter.name.contains("llvmpipe")
                    && std::env::var_os("CONCLAVE_SHORT").is_none();
                let short = tokens <= if longer { 128 } else { 40 };
                !adapter.software || short || (longer && tokens == BEYOND_THE_WINDOW)
            }
        }
    }

    fn backend(self) -> &'static dyn Backend {
        match self {
            Self::Cpu => &Cpu::ALONE,
            Self::Threads => &const { Cpu(Threads::new(3)) },
            Self::Gpu => gpu(),
        }
    }
}

/// One device serves all tests.
fn gpu() -> &'static Launcher {
    static GPU: OnceLock<Launcher> = OnceLock::new();
    GPU.get_or_init(|| {
        pollster::block_on(Launcher::init(AdapterChoice::Best)).expect(
            "no GPU adapter: install a Vulkan driver, in software mesa-vulkan-drivers (lavapipe)",
        )
    })
}

/// A published model on a device, with its references.
pub struct Published {
    pub name: &'static str,
    pub device: Device,
    pub reference: Reference,
    session: &'static Mutex<Session>,
}

impl Published {
    /// The model, which is loaded once for all tests.
    pub fn on(name: &'static str, device: Device) -> Self {
        type Sessions = HashMap<(&'static str, Device), &'static Mutex<Session>>;
        static LOADED: OnceLock<Mutex<Sessions>> = OnceLock::new();
        let reference = Reference::read(name);
        let loaded = LOADED.get_or_init(Mutex::default);
        let session = *unpoisoned(loaded)
            .entry((name, device))
            .or_insert_with(|| Box::leak(Box::new(Mutex::new(load(&reference, device)))));
        Self {
            name,
            device,
            reference,
            session,
        }
    }

    /// The references whose texts, of `tokens` tokens, this device has time for.
    pub fn run<'a, T>(&self, all: &'a [T], tokens: impl Fn(&T) -> usize) -> Vec<&'a T> {
        let run: Vec<_> = all
            .iter()
            .filter(|one| self.device.runs(tokens(one)))
            .collect();
        assert!(!run.is_empty(), "{} runs nothing", self.title());
        run
    }

    /// Its session, for one test at a time.
    pub fn session(&self) -> MutexGuard<'static, Session> {
        unpoisoned(self.session)
    }

    /// The model and device, for a message.
    pub fn title(&self) -> String {
        format!("{} on {:?}", self.name, self.device)
    }

    /// Prints a result: shown with `--show-output`.
    pub fn found(&self, what: &str) {
        println!("{}: {what}", self.title());
    }
}

/// A session stays usable after a failed test.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(reference: &Reference, device: Device) -> Session {
    let source = reference.source();
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
    let options = LoadOptions::with_context(CONTEXT);
    let mut silent = |_| ();
    let backend = device.backend();
    let model = Model::load(&checkpoint, &source, backend, options, &mut silent);
    Session::new(pollster::block_on(model).unwrap())
}
