//! The fixtures under `tests/fixtures/published`, and the models that they were made from.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use conclave_kernels::{AdapterChoice, Gpu};
use conclave_member::Message;
use conclave_model::{Backend, LoadOptions, Model, Session};
use conclave_weights::{Checkpoint, Disk};
use serde::Deserialize;

/// More than the longest text and what is drawn behind it.
const CONTEXT: usize = 2048;

/// What the references say of a model: `MODEL.json`.
#[derive(Deserialize)]
pub struct Reference {
    pub file: String,
    pub vocabulary: usize,
    /// Of each row of logits the largest are kept, so many …
    pub top: usize,
    /// … and every so many-th.
    pub stride: usize,
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
    /// With BOS, where the model wants one.
    pub ids: Vec<u32>,
    pub rows: Vec<Row>,
}

/// The logits after the first `length` ids of a prompt.
#[derive(Deserialize)]
pub struct Row {
    pub length: usize,
    /// The largest magnitude of them all.
    pub largest: f64,
    /// Ids of the largest, in that order.
    pub top: Vec<usize>,
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
    /// The file of the text, beside this one.
    pub text: String,
    pub tokens: usize,
    pub value: f64,
}

fn fixture(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/published")
        .join(file)
}

impl Reference {
    pub fn of(model: &str) -> Self {
        let text = std::fs::read_to_string(fixture(&format!("{model}.json"))).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// `MODEL.f32`: of each row of each prompt the largest logits, then every so many-th.
    pub fn logits_of(model: &str) -> Vec<f32> {
        let bytes = std::fs::read(fixture(&format!("{model}.f32"))).unwrap();
        let (floats, rest) = bytes.as_chunks();
        assert!(rest.is_empty());
        floats
            .iter()
            .map(|four| f32::from_le_bytes(*four))
            .collect()
    }

    /// The file itself.
    pub fn source(&self) -> Disk {
        let folder = std::env::var_os("CONCLAVE_PUBLISHED").expect(
            "CONCLAVE_PUBLISHED names no folder; `cargo xtask test --only real` fetches the models and sets it",
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

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    Cpu,
    Gpu,
}

impl Device {
    pub const fn cpu() -> Self {
        Self::Cpu
    }

    pub const fn gpu() -> Self {
        Self::Gpu
    }

    fn backend(self) -> Backend {
        static GPU: OnceLock<Gpu> = OnceLock::new();
        match self {
            Self::Cpu => Backend::Cpu,
            Self::Gpu => Backend::Gpu(
                GPU.get_or_init(|| pollster::block_on(Gpu::init(AdapterChoice::Best)).expect(
                    "no GPU adapter: install a Vulkan driver, in software mesa-vulkan-drivers (lavapipe)",
                ))
                .clone(),
            ),
        }
    }
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
        let reference = Reference::of(name);
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

    /// Its session, for one test at a time.
    pub fn session(&self) -> MutexGuard<'static, Session> {
        unpoisoned(self.session)
    }

    /// Which one it is, in a message.
    pub fn title(&self) -> String {
        format!("{} on {:?}", self.name, self.device)
    }

    /// Says what was found: shown with `--show-output`.
    pub fn found(&self, what: &str) {
        println!("{}: {what}", self.title());
    }
}

/// A test that failed with a session in its hands has left it usable.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(reference: &Reference, device: Device) -> Session {
    let source = reference.source();
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
    let options = LoadOptions::with_context(CONTEXT);
    let mut silent = |_| ();
    let backend = device.backend();
    let model = Model::load(&checkpoint, &source, &backend, options, &mut silent);
    Session::new(pollster::block_on(model).unwrap())
}
