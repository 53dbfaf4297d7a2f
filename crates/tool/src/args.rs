//! The command line and its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use conclave_hub::Reference;
use conclave_member::Thinking;
use conclave_model::LoadOptions;
use conclave_weights::Format;
use serde::Serialize;

mod drawing;
mod eval;
mod method;

pub use drawing::Drawing;
pub use eval::Eval;
pub use method::{Method, check};

/// Several small language models that answer as one.
///
/// In each round every member drafts a segment, every member scores all drafts in one pass, all
/// keep the best, and the votes are reweighted (SpecFuse / SpecEM). Without --members the three
/// bundled toys answer.
#[derive(Debug, Parser)]
#[command(
    name = "conclave",
    version,
    after_help = "Examples:\n  \
        conclave chat \"What is 347 + 85?\" --show-votes\n  \
        conclave chat --member NAME \"Sort these words: pear, apple, fig.\"\n  \
        conclave chat --json-schema person.json \"Who wrote Faust? Answer as JSON.\"\n  \
        conclave chat --members a.gguf,hf:OWNER/REPO/b.gguf \"What is a fugue?\"\n  \
        conclave inspect model.gguf\n  \
        conclave generate --model model.gguf --tokens 1,2,3 --count 24 --greedy\n  \
        conclave replay run.json --rule paper\n  \
        conclave serve --members a.gguf,b.gguf --port 8080\n  \
        conclave eval --seed 7 --count 60\n  \
        conclave models pull hf:OWNER/REPO/FILE.gguf\n\n\
        A model is a GGUF file (of several parts any), a Hugging Face folder, `-` (a GGUF file on \
        standard\n\
        input), hf:OWNER/REPO/FILE.gguf, hf:OWNER/REPO (the folder), each with @REVISION if not \
        main, or the\n\
        address of a GGUF file. What is not here is downloaded once, checked, kept, and used \
        offline.\n\n\
        A member may live behind a server of OpenAI's interface (vLLM, llama.cpp, …), which then \
        hears the\n\
        conversation: https://HOST/v1#MODEL. Its key is the variable CONCLAVE_KEY_HOST \
        (API_EXAMPLE_COM for\n\
        api.example.com, LOCALHOST_8000 for localhost:8000) or a line `HOST KEY` of --keys FILE; \
        it is neither\n\
        recorded nor shown. Such members take part in `chat` and `serve`."
)]
pub struct Cli {
    /// Device: `auto` (a GPU if there is a real one, else the CPU), `gpu` (the first adapter),
    /// `cpu`, or part of an adapter's name; built with `--features burn` also `burn` (the open core
    /// on a GPU) and `burn-cpu`.
    #[arg(long, global = true, default_value = "auto", value_name = "DEVICE")]
    pub device: String,
    /// Threads of the CPU's work [default: one per core].
    #[arg(
        long,
        global = true,
        value_name = "COUNT",
        value_parser = value_parser!(u16).range(1..=1024)
    )]
    pub threads: Option<u16>,
    /// Print exactly one JSON object on standard output.
    #[arg(long, global = true)]
    pub json: bool,
    /// Folder of downloaded models; else `CONCLAVE_MODELS`, else one in the cache folder.
    #[arg(long, global = true, value_name = "FOLDER")]
    pub models_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Models that the command reads, to be replaced by their paths; and the list for their names,
    /// where those matter.
    pub fn models(&mut self) -> (Vec<&mut PathBuf>, Option<&mut Vec<String>>) {
        let members = match &mut self.command {
            Command::Chat(chat) => &mut chat.members,
            Command::Serve(serve) => &mut serve.members,
            Command::Eval(eval) => &mut eval.members,
            Command::Bench(bench) => &mut bench.members,
            Command::Logits(Logits { model, .. })
            | Command::Generate(Generate { model, .. })
            | Command::Verify(Verify { model, .. }) => return (vec![&mut model.path], None),
            Command::Tokenize(Tokenize { model, .. })
            | Command::Template(Template { model, .. })
            | Command::Inspect(Inspect { model, .. }) => return (vec![model], None),
            Command::Replay(_) | Command::Models { .. } => return (Vec::new(), None),
        };
        members.part();
        (members.files.iter_mut().collect(), Some(&mut members.names))
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask the ensemble, or one member alone.
    Chat(Box<Chat>),
    /// Serve the ensemble through OpenAI's interface, for its clients and everything built on them.
    ///
    /// POST /v1/chat/completions, /v1/responses, /v1/completions, /v1/embeddings and
    /// /apply-template; GET /v1/models, /metrics, /health and /openapi.json. The model `conclave`
    /// is the ensemble; each member is a model under its own name, too, and then answers alone.
    /// Requests are answered one at a time, in turns between clients. Ctrl-C finishes the current
    /// answer first.
    #[command(after_help = "Examples:\n  \
            conclave serve\n  \
            conclave serve --members a.gguf,hf:OWNER/REPO/b.gguf --port 9000 --rule leader\n  \
            CONCLAVE_KEY=... conclave serve --host 0.0.0.0\n  \
            conclave serve --origin http://localhost:5173\n\n\
            Ask it:\n  \
            curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \
            \\\n    \
            -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is 347 + 85?\"}]}'\n\n\
            Log-probabilities of /v1/completions (`echo`, `logprobs`, `max_tokens: 0`) are those \
            of the member\n\
            that is asked, and of the first where `conclave` is.")]
    Serve(Box<Serve>),
    /// Print the logits of a model after given tokens.
    Logits(Logits),
    /// Continue given tokens.
    Generate(Generate),
    /// Score candidates after a prefix, all in one pass.
    Verify(Verify),
    /// Print the token ids of a text, and the text they decode to.
    Tokenize(Tokenize),
    /// Render a conversation with a model's own chat template.
    Template(Template),
    /// Describe a model, its weights and the memory it takes, from its header alone.
    Inspect(Inspect),
    /// List, download or remove models.
    Models {
        /// The action; without it, models are listed.
        #[command(subcommand)]
        command: Option<Models>,
    },
    /// Play a recorded run through the method under other settings.
    Replay(Replay),
    /// Examine members and ensemble on questions whose answers can be checked.
    ///
    /// Every member answers alone, greedily and sampled; the ensemble answers under each rule; and
    /// a vote, chrF and an oracle choose among the whole answers. Figures have 95 % intervals
    /// (bootstrap; differences to the best member are paired), tokens run and time; questions lost
    /// and gained in comparison with the best member, by group too; and the share that every member
    /// answers wrong, which no choice among whole answers can recover.
    #[command(after_help = eval::HELP)]
    Eval(Box<Eval>),
    /// Measure how long members and rounds take on a device.
    Bench(Bench),
}

/// `conclave models`.
#[derive(Debug, Subcommand)]
pub enum Models {
    /// List all models, including incomplete ones.
    List,
    /// Download a model, or resume a broken download; prints its path.
    #[command(after_help = "Examples:\n  \
            conclave models pull hf:OWNER/REPO/model-Q4_K_M.gguf\n  \
            conclave models pull hf:OWNER/REPO@v1.0\n  \
            conclave models pull https://example.org/model.gguf\n\n\
            HF_TOKEN is sent to the hub for repositories that require one, and nowhere else; \
            HF_ENDPOINT names\n\
            a mirror; HTTPS_PROXY and NO_PROXY are obeyed.")]
    Pull {
        /// hf:OWNER/REPO/FILE.gguf, hf:OWNER/REPO, or an address; @REVISION for a revision other
        /// than main.
        model: Reference,
        /// Check whether a downloaded model has changed, and download the changes.
        #[arg(long)]
        update: bool,
    },
    /// Remove a model, complete or not.
    Remove {
        /// As `conclave models` shows it.
        model: Reference,
    },
}

#[derive(Debug, Args)]
pub struct Chat {
    /// The question; without it, questions are read from the terminal, one per line.
    pub question: Option<String>,
    /// Ask only this member, by name, without voting.
    #[arg(long, value_name = "NAME")]
    pub member: Option<String>,
    /// Begin with this system message: how the members should answer.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// After each segment, show its writer, all candidates and the weights.
    #[arg(long)]
    pub show_votes: bool,
    /// Answer with a JSON document of the schema in this file: members draft nothing else. They
    /// don't read it, so say in the question what is wanted. An answer that a limit cuts off is
    /// incomplete. Members behind servers only score then.
    #[arg(long, value_name = "FILE")]
    pub json_schema: Option<PathBuf>,
    /// Write the run as JSON to this file, for `conclave replay`; in a conversation, the last
    /// answer's.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    #[command(flatten)]
    pub members: Members,
    #[command(flatten)]
    pub method: Method,
    #[command(flatten)]
    pub drawing: Drawing,
}

#[derive(Args)]
pub struct Serve {
    /// Address or name to listen on: `localhost` is this machine by IPv4 and IPv6. Any but this
    /// machine's own needs a key.
    #[arg(long, default_value = "localhost", value_name = "ADDRESS")]
    pub host: String,
    /// Port; 0 for a free one.
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Key that clients must send as `Authorization: Bearer KEY`; else `CONCLAVE_KEY`, which other
    /// users of this machine can't see.
    #[arg(long)]
    pub key: Option<String>,
    /// Allow requests from pages of this origin (`https://example.org`); repeatable. `*` is any
    /// text without a `/` (`http://localhost:*`, `vscode-webview://*`), `null` a page without an
    /// origin. Otherwise no page may send any.
    #[arg(long = "origin", value_name = "ORIGIN")]
    pub origins: Vec<String>,
    /// Maximum waiting requests, at most half of them from one address; more are refused (429).
    #[arg(long, default_value_t = 128, value_name = "REQUESTS", value_parser = count)]
    pub waiting: usize,
    #[command(flatten)]
    pub members: Members,
    #[command(flatten)]
    pub method: Method,
    /// Sampling of the drafts, for requests that don't set it. The seed is that of the first
    /// request without one.
    #[command(flatten)]
    pub drawing: Drawing,
}

impl std::fmt::Debug for Serve {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serve")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Models that take part.
#[derive(Debug, Args)]
pub struct Members {
    /// Models of the members, one to eight, as files, folders, hf:OWNER/REPO/FILE.gguf or
    /// addresses; the bundled three if not given. https://HOST/v1#MODEL is one behind a server.
    #[arg(long = "members", value_name = "MODELS", value_delimiter = ',')]
    pub files: Vec<PathBuf>,
    /// Names of the members, once their files are known.
    #[arg(skip)]
    pub names: Vec<String>,
    /// Members behind servers, each with its index among all, once separated from files.
    #[arg(skip)]
    pub remote: Vec<(usize, String)>,
    /// File of servers' keys, one line `HOST KEY` each.
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Chat template that replaces that of the member NAME: a file of Jinja, or a model's JSON file
    /// with a `chat_template`. The option can be repeated. Without NAME= it applies to the only
    /// member, or to the remote members without a template of their own.
    #[arg(long = "template", value_name = "[NAME=]FILE")]
    pub templates: Vec<String>,
    /// Seconds that a round waits for a member behind a server; a late one abstains, and leaves
    /// after three rounds in a row.
    #[arg(
        long,
        default_value_t = 20.0,
        value_name = "SECONDS",
        value_parser = |value: &str| within(value, 0.1, 3600.0)
    )]
    pub patience: f32,
    /// Strengths of members as measured by `conclave eval --write-trust`: a JSON object of their
    /// names, each with `right` and `asked`. Without it, a member's size and whether it chats are
    /// used.
    #[arg(long, value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// Tokens of context, at most what a model was made for.
    #[arg(long, default_value_t = 4096, value_name = "TOKENS", value_parser = tokens)]
    pub context: usize,
    /// Quantise unquantised weights while loading (F32, F16, BF16 and FP8; FP8 becomes Q8_0 without
    /// this).
    #[arg(long, value_name = "q8_0|q4_0", value_parser = quantised)]
    pub quantise: Option<Format>,
    /// Whether members that can think do so before they answer: `off`, `on`, or `auto` (the chat
    /// template's default). Thoughts are not part of the answer.
    #[arg(long, default_value = "off", value_name = "off|on|auto", value_parser = thinking)]
    pub thinking: Thinking,
}

impl Members {
    /// Separates members behind servers from files.
    fn part(&mut self) {
        for (place, file) in std::mem::take(&mut self.files).into_iter().enumerate() {
            match file.to_str() {
                Some(text) if conclave_remote::Address::is_one(text) => {
                    self.remote.push((place, text.to_owned()));
                }
                _ => self.files.push(file),
            }
        }
    }

    /// Returns whether none were named, so that the bundled ones answer.
    pub fn bundled(&self) -> bool {
        self.files.is_empty() && self.remote.is_empty()
    }

    /// Options for loading the members.
    pub fn options(&self) -> LoadOptions {
        LoadOptions {
            context: self.context,
            quantise: self.quantise,
        }
    }
}

/// `conclave bench`.
///
/// Its JSON is specified in web/src/bench/report.ts; `cargo xtask bench` makes models, computes
/// ratios and compares with other engines.
#[derive(Debug, Args)]
pub struct Bench {
    /// Tokens of the conversation.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "128",
        value_name = "NUMBERS"
    )]
    pub prefixes: Vec<usize>,
    /// Numbers of members, the first of those given; with more than one, rounds are measured.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "3",
        value_name = "NUMBERS"
    )]
    pub ensembles: Vec<usize>,
    /// Drafting members in the rounds, each measured.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    pub drafting: Vec<Drafting>,
    /// L, the tokens of a draft.
    #[arg(long, default_value_t = 10, value_parser = count)]
    pub segment_tokens: usize,
    /// Repeats of each measurement.
    #[arg(long, default_value_t = 5, value_parser = count)]
    pub repeats: usize,
    /// Start no repeat of a measurement after so many seconds; each runs at least once.
    #[arg(
        long,
        default_value_t = 300.0,
        value_name = "SECONDS",
        value_parser = |value: &str| within(value, 0.0, 1e6)
    )]
    pub limit_seconds: f32,
    #[command(flatten)]
    pub members: Members,
    #[command(flatten)]
    pub drawing: Drawing,
}

/// Drafting members of a measured round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Drafting {
    /// All members.
    All,
    /// Only the leader, which is trusted here whatever it drafts.
    Leader,
}

/// Parses the thinking mode.
fn thinking(value: &str) -> Result<Thinking, String> {
    match value {
        "off" => Ok(Thinking::Off),
        "on" => Ok(Thinking::On),
        "auto" => Ok(Thinking::Auto),
        _ => Err("choose off, on or auto".to_owned()),
    }
}

/// Parses a number from `low` to `high`; rejects NaN.
fn within(value: &str, low: f32, high: f32) -> Result<f32, String> {
    let number = value.parse().ok();
    number
        .filter(|number| (low..=high).contains(number))
        .ok_or_else(|| format!("choose a number from {low} to {high}"))
}

/// Parses a whole number from 1 to 10,000.
fn count(value: &str) -> Result<usize, String> {
    let number = value.parse().ok();
    number
        .filter(|number| (1..=10_000).contains(number))
        .ok_or_else(|| "choose a whole number from 1 to 10,000".to_owned())
}

/// A number of tokens of context.
fn tokens(value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "choose a whole number of tokens, at least 1".to_owned())
}

/// A model to run, and the format of its weights.
#[derive(Debug, Clone, Args)]
pub struct Chosen {
    /// A file, a folder, hf:OWNER/REPO/FILE.gguf, or an address.
    #[arg(long = "model", value_name = "MODEL")]
    pub path: PathBuf,
    /// Quantise unquantised weights while loading (F32, F16, BF16 and FP8; FP8 becomes Q8_0 without
    /// this).
    #[arg(long, value_name = "q8_0|q4_0", value_parser = quantised)]
    pub quantise: Option<Format>,
}

/// Formats to which weights can be quantised while loading.
fn quantised(name: &str) -> Result<Format, String> {
    let known = [Format::Q8_0, Format::Q4_0];
    known
        .into_iter()
        .find(|format| format.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| "choose q8_0 or q4_0".to_owned())
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// A file, a folder, hf:OWNER/REPO/FILE.gguf, or an address.
    pub model: PathBuf,
    /// Tokens of context for the memory estimate, at most what the model was made for.
    #[arg(long, default_value_t = 4096, value_name = "TOKENS", value_parser = tokens)]
    pub context: usize,
    /// Describe the model as if its weights were quantised while loading.
    #[arg(long, value_name = "q8_0|q4_0", value_parser = quantised)]
    pub quantise: Option<Format>,
    /// List every tensor.
    #[arg(long)]
    pub tensors: bool,
}

#[derive(Debug, Args)]
pub struct Logits {
    #[command(flatten)]
    pub model: Chosen,
    /// Token ids, comma separated; repeatable for several independent prompts.
    #[arg(long, required = true, value_name = "IDS")]
    pub tokens: Vec<TokenList>,
    /// Print logits after every token, not only the last.
    #[arg(long)]
    pub all: bool,
    /// Write the logits to this file, 32-bit floats in little-endian order, row after row, and
    /// print only their number.
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Generate {
    #[command(flatten)]
    pub model: Chosen,
    /// Token ids, comma separated.
    #[arg(long, value_delimiter = ',', required = true, value_parser = token_id)]
    pub tokens: Vec<u32>,
    /// Tokens to add; fewer if the model's context ends.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Stop at the model's end-of-answer tokens.
    #[arg(long)]
    pub stop: bool,
    #[command(flatten)]
    pub drawing: Drawing,
}

#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    pub model: Chosen,
    /// Token ids of the prefix, comma separated.
    #[arg(long, value_delimiter = ',', required = true, value_parser = token_id)]
    pub prefix_tokens: Vec<u32>,
    /// Token ids of one candidate, comma separated; once for each candidate.
    #[arg(long, required = true, value_name = "IDS")]
    pub candidate_tokens: Vec<TokenList>,
}

#[derive(Debug, Clone)]
pub struct TokenList(pub Vec<u32>);

impl std::str::FromStr for TokenList {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        list.split(',')
            .map(token_id)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn token_id(id: &str) -> Result<u32, String> {
    let id = id.trim();
    id.parse()
        .map_err(|_| format!("`{id}` is no token id; write ids as 3,4,5"))
}

#[derive(Debug, Args)]
pub struct Tokenize {
    /// A file, a folder, hf:OWNER/REPO/FILE.gguf, or an address.
    #[arg(long)]
    pub model: PathBuf,
    /// The text on its own: no start token, and the text of a control token becomes that token.
    #[arg(long)]
    pub text: String,
    /// Tokenise as a candidate that continues a text: control tokens are plain text, and no space
    /// is prepended.
    #[arg(long)]
    pub continuation: bool,
}

#[derive(Debug, Args)]
pub struct Template {
    /// A file, a folder, hf:OWNER/REPO/FILE.gguf, or an address.
    #[arg(long)]
    pub model: PathBuf,
    /// A JSON file: `[{"role": "user", "content": "…"}, …]`; `-` for standard input.
    #[arg(long)]
    pub messages: PathBuf,
    /// Add the beginning of the assistant's turn.
    #[arg(long)]
    pub add_generation_prompt: bool,
}

#[derive(Debug, Args)]
pub struct Replay {
    /// A recorded run: the page's download, `chat --record`'s file, or
    /// `{"members": […], "rounds": [{"scores": [[…], …]}, …]}`; `-` for standard input.
    pub file: PathBuf,
    #[command(flatten)]
    pub method: Method,
}
