//! The command line: what can be asked for, and the help that teaches it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use conclave_ensemble::{Exit, Leader, Rate, Reward, Rule, Scoring, Settings, Update};
use conclave_hub::Reference;
use conclave_member::Thinking;
use conclave_model::{LoadOptions, Sampling};
use conclave_weights::Format;
use serde::Serialize;

mod eval;

pub use eval::Eval;

/// Several small language models that answer as one.
///
/// In each round every member drafts a segment, every member scores all drafts
/// in one in-line pass, the best is kept by all, and the votes are reweighted
/// (SpecFuse / SpecEM). Without --members the three bundled toys answer.
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
        A model is a GGUF file (of several parts any), a Hugging Face folder, `-` (a GGUF file on standard\n\
        input), hf:OWNER/REPO/FILE.gguf, hf:OWNER/REPO (the folder), each with @REVISION if not main, or the\n\
        address of a GGUF file. What is not here is downloaded once, checked, kept, and used offline.\n\n\
        A member may live behind a server of OpenAI's interface (vLLM, llama.cpp, …), which then hears the\n\
        conversation: https://HOST/v1#MODEL. Its key is the variable CONCLAVE_KEY_HOST (API_EXAMPLE_COM for\n\
        api.example.com, LOCALHOST_8000 for localhost:8000) or a line `HOST KEY` of --keys FILE; it is neither\n\
        recorded nor shown. Such members take part in `chat` and `serve`."
)]
pub struct Cli {
    /// Where to run: `auto` (a GPU if there is a real one, else the CPU),
    /// `gpu` (the first adapter), `cpu`, or part of an adapter's name; built with `--features burn`
    /// also `burn` (the open core on a GPU) and `burn-cpu`.
    #[arg(long, global = true, default_value = "auto", value_name = "DEVICE")]
    pub device: String,
    /// How many threads the CPU's work is shared by [default: one for each core].
    #[arg(long, global = true, value_name = "COUNT", value_parser = value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Print exactly one JSON object on standard output.
    #[arg(long, global = true)]
    pub json: bool,
    /// Where downloaded models are kept; else `CONCLAVE_MODELS`, else the folder for caches.
    #[arg(long, global = true, value_name = "FOLDER")]
    pub models_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The models that the command reads, to be replaced by where they are; and their names, where
    /// those matter.
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

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask the ensemble, or one member alone.
    Chat(Box<Chat>),
    /// Serve the ensemble behind OpenAI's interface: its clients, and whatever is built on them,
    /// use it as one model.
    ///
    /// POST /v1/chat/completions, POST /v1/completions, GET /v1/models and GET /health. The model
    /// `conclave` is all members; each is a model of its own name, too, and answers alone then.
    /// Requests are answered one after the other, in turns between clients. Ctrl-C lets the answer
    /// on its way end first.
    #[command(after_help = "Examples:\n  \
            conclave serve\n  \
            conclave serve --members a.gguf,hf:OWNER/REPO/b.gguf --port 9000 --rule leader\n  \
            CONCLAVE_KEY=... conclave serve --host 0.0.0.0\n  \
            conclave serve --origin http://localhost:5173\n\n\
            Ask it:\n  \
            curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n    \
            -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is 347 + 85?\"}]}'\n\n\
            Log-probabilities of /v1/completions (`echo`, `logprobs`, `max_tokens: 0`) are those of the member\n\
            that is asked, and of the first where `conclave` is.")]
    Serve(Box<Serve>),
    /// Logits of a model after given tokens.
    Logits(Logits),
    /// Continue given tokens.
    Generate(Generate),
    /// Score candidates behind a prefix, all in one in-line pass.
    Verify(Verify),
    /// Token ids of a text, and the text they decode to.
    Tokenize(Tokenize),
    /// Render a conversation with a model's own chat template.
    Template(Template),
    /// What a model is, what becomes of its weights, and the memory it takes, from its header
    /// alone.
    Inspect(Inspect),
    /// Downloaded models: list, get, remove.
    Models {
        /// What to do; without it they are listed.
        #[command(subcommand)]
        command: Option<Models>,
    },
    /// Play a recorded run through the method under other settings.
    Replay(Replay),
    /// Ask questions whose answers can be checked: how right are the members, and how right
    /// together?
    ///
    /// Every member answers alone, greedily and by drawing; the ensemble answers under each rule;
    /// and out of the whole answers a vote, chrF and an oracle choose. Figures come with 95 %
    /// intervals (bootstrap; differences to the best member are paired), tokens run and time; with
    /// the questions that are lost and gained beside the best member, by group too; and with the
    /// share that every member gets wrong, above which no choice among whole answers can rise.
    #[command(after_help = eval::HELP)]
    Eval(Box<Eval>),
    /// How long members and rounds take on a device.
    Bench(Bench),
}

/// `conclave models`.
#[derive(Debug, Subcommand)]
pub enum Models {
    /// All models here, also those that are not complete.
    List,
    /// Download a model, or go on where a download broke off; prints its path.
    #[command(after_help = "Examples:\n  \
            conclave models pull hf:OWNER/REPO/model-Q4_K_M.gguf\n  \
            conclave models pull hf:OWNER/REPO@v1.0\n  \
            conclave models pull https://example.org/model.gguf\n\n\
            HF_TOKEN is sent to the hub for repositories that want one, and to nobody else; HF_ENDPOINT names\n\
            a mirror; HTTPS_PROXY and NO_PROXY are obeyed.")]
    Pull {
        /// hf:OWNER/REPO/FILE.gguf, hf:OWNER/REPO, or an address; @REVISION for another than main.
        model: Reference,
        /// Of a model that is here, ask whether it has changed, and get what has.
        #[arg(long)]
        update: bool,
    },
    /// Remove a model, complete or not.
    Remove {
        /// As `conclave models` shows it.
        model: Reference,
    },
}

/// `conclave chat`.
#[derive(Debug, Args)]
pub struct Chat {
    /// The question; without it, a conversation is read from the terminal, a question a line.
    pub question: Option<String>,
    /// Only this member, by name, without voting.
    #[arg(long, value_name = "NAME")]
    pub member: Option<String>,
    /// After each segment, show who wrote it, all candidates and the weights.
    #[arg(long)]
    pub show_votes: bool,
    /// Answer with a JSON document of the schema in this file: members draft nothing else. They
    /// don't read it, so say in the question what is wanted. An answer that a limit ends is the
    /// beginning of one. Members behind servers draft nothing then, and score what the others
    /// draft.
    #[arg(long, value_name = "FILE")]
    pub json_schema: Option<PathBuf>,
    /// Write the run as JSON to this file, for `conclave replay`; of a conversation the last
    /// answer's.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// The members.
    #[command(flatten)]
    pub members: Members,
    /// The method.
    #[command(flatten)]
    pub method: Method,
    /// How members draft.
    #[command(flatten)]
    pub drawing: Drawing,
}

/// `conclave serve`.
#[derive(Args)]
pub struct Serve {
    /// The address to listen at, or a name: `localhost` is this machine by IPv4 and IPv6. Any other
    /// than this machine's own needs a key.
    #[arg(long, default_value = "localhost", value_name = "ADDRESS")]
    pub host: String,
    /// The port; 0 for one that is free.
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// What clients have to send as `Authorization: Bearer KEY`; else `CONCLAVE_KEY`, which other
    /// users of this machine can't see.
    #[arg(long)]
    pub key: Option<String>,
    /// Let pages of this origin ask (https://example.org); several times for several. `*` is any
    /// text without a `/` (`http://localhost:*`, `vscode-webview://*`), `null` a page without an
    /// origin. No page may otherwise.
    #[arg(long = "origin", value_name = "ORIGIN")]
    pub origins: Vec<String>,
    /// How many requests may wait, half of them of one address; more are told to come back (429).
    #[arg(long, default_value_t = 128, value_name = "REQUESTS", value_parser = count)]
    pub waiting: usize,
    /// The members.
    #[command(flatten)]
    pub members: Members,
    /// The method.
    #[command(flatten)]
    pub method: Method,
    /// How members draft, where a request says nothing. The seed is the first request's that has
    /// none.
    #[command(flatten)]
    pub drawing: Drawing,
}

impl std::fmt::Debug for Serve {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serve")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Which models take part.
#[derive(Debug, Args)]
pub struct Members {
    /// Models of the members, one to eight, as files, folders, hf:OWNER/REPO/FILE.gguf or
    /// addresses; the bundled three if not given. https://HOST/v1#MODEL is one behind a server.
    #[arg(long = "members", value_name = "MODELS", value_delimiter = ',')]
    pub files: Vec<PathBuf>,
    /// What the members are called, once it is known where their files are.
    #[arg(skip)]
    pub names: Vec<String>,
    /// Those behind servers, each with its place among all, once they are told from files.
    #[arg(skip)]
    pub remote: Vec<(usize, String)>,
    /// Keys of servers, a line `HOST KEY` each.
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// A chat template (Jinja): of the member NAME in place of its own, several times for several;
    /// without a name that of the only member, or of members behind servers that render none.
    #[arg(long = "template", value_name = "[NAME=]FILE")]
    pub templates: Vec<String>,
    /// Seconds that a round waits for a member behind a server; a late one abstains, and leaves
    /// after three rounds in a row.
    #[arg(long, default_value_t = 20.0, value_name = "SECONDS", value_parser = |value: &str| within(value, 0.1, 3600.0))]
    pub patience: f32,
    /// How strong members are, as `conclave eval --write-trust` measured it: a JSON object of their
    /// names, each with `right` and `asked`. Without it a member's size and whether it chats stand
    /// for its strength.
    #[arg(long, value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// Tokens of context, at most what a model was made for.
    #[arg(long, default_value_t = 4096, value_name = "TOKENS")]
    pub context: usize,
    /// Round weights of plain numbers (F32, F16, BF16, and FP8, which is Q8_0 without) while they
    /// load.
    #[arg(long, value_name = "q8_0|q4_0", value_parser = quantised)]
    pub quantise: Option<Format>,
    /// Whether members that can think aloud do so before they answer: `off`, `on`, or `auto` (as
    /// each model's chat template has it). What is thought is no part of the answer.
    #[arg(long, default_value = "off", value_name = "off|on|auto", value_parser = thinking)]
    pub thinking: Thinking,
}

impl Members {
    /// Tells members behind servers from files.
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

    /// Whether none were named, so that the bundled ones answer.
    pub fn bundled(&self) -> bool {
        self.files.is_empty() && self.remote.is_empty()
    }

    /// How the members are loaded.
    pub fn options(&self) -> LoadOptions {
        LoadOptions {
            context: self.context,
            quantise: self.quantise,
        }
    }
}

/// `conclave bench`.
///
/// What its JSON says is stated in web/src/bench/report.ts; `cargo xtask bench` makes models,
/// derives ratios and compares with others.
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
    /// Members at a time, the first of those given; more than one make rounds.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "3",
        value_name = "NUMBERS"
    )]
    pub ensembles: Vec<usize>,
    /// Who drafts in the rounds, which are measured with each of these.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    pub drafting: Vec<Drafting>,
    /// L, the tokens of a draft.
    #[arg(long, default_value_t = 10, value_parser = count)]
    pub segment_tokens: usize,
    /// How often each is measured.
    #[arg(long, default_value_t = 5, value_parser = count)]
    pub repeats: usize,
    /// No repeat of a measurement begins after so many seconds; each is done at least once.
    #[arg(long, default_value_t = 300.0, value_name = "SECONDS", value_parser = |value: &str| within(value, 0.0, 1e6))]
    pub limit_seconds: f32,
    /// The members.
    #[command(flatten)]
    pub members: Members,
    /// How members draft.
    #[command(flatten)]
    pub drawing: Drawing,
}

/// Who drafts in a round that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Drafting {
    /// All members.
    All,
    /// The leader alone, whom nobody doubts here whatever it says.
    Leader,
}

/// How tokens are drawn.
#[derive(Debug, Clone, Args)]
pub struct Drawing {
    /// 0 is greedy.
    #[arg(long, default_value_t = 0.6, value_parser = |value: &str| within(value, 0.0, 100.0))]
    pub temperature: f32,
    /// Probability mass of the tokens that may be drawn, 0 to 1.
    #[arg(long, default_value_t = 0.9, value_parser = |value: &str| within(value, 0.0, 1.0))]
    pub top_p: f32,
    /// At most this many tokens may be drawn; 0 for all.
    #[arg(long, default_value_t = 0)]
    pub top_k: u32,
    /// Same seed, same text, on the same device.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Always the most probable token.
    #[arg(long)]
    pub greedy: bool,
}

impl Drawing {
    /// As the model core wants it.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: if self.greedy { 0.0 } else { self.temperature },
            top_p: self.top_p,
            top_k: self.top_k,
            seed: self.seed,
        }
    }
}

/// The method's switches.
#[derive(Debug, Clone, Args)]
pub struct Method {
    /// All switches at once: `harmonic` (the default: what did best where it was measured),
    /// `leader` (the same with leader drafts, quicker where members mostly agree) or `paper` (as
    /// published); the switches below are put over it.
    #[arg(long)]
    pub rule: Option<Rule>,
    /// L, the most tokens a member drafts in a round [default: 32].
    #[arg(long, value_name = "TOKENS")]
    pub segment_tokens: Option<usize>,
    /// `harmonic` (1 / (0.5 + ln(1 + Σ (1/p − 1))) of a candidate's tokens), `logit` (their mean
    /// raw logit) or `likelihood` (softmax of their mean log-probability) [default: harmonic].
    #[arg(long)]
    pub scoring: Option<Scoring>,
    /// Score a candidate that ends the answer on its end too: `on` or `off` [default: on].
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on", value_parser = on_off)]
    pub score_end: Option<bool>,
    /// How much a member's strength counts from the first round on: starting weights are in
    /// proportion to strength^POWER; 0 starts all equal. See --trust for what a member's strength
    /// is [default: 0.75].
    #[arg(long, value_name = "POWER", allow_negative_numbers = true)]
    pub trust_power: Option<f64>,
    /// What feedback rewards: the others' `shares`, or `counts` of their preferences [default: shares].
    #[arg(long)]
    pub reward: Option<Reward>,
    /// Strength of the feedback; 0 for none [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    pub alpha: Option<f64>,
    /// Learning rate: `code` (α/(k√N)), `printed` (α/(N√k)) or `fixed-share` [default:
    /// code].
    #[arg(long)]
    pub rate: Option<Rate>,
    /// Part of the weight that fixed-share mixes back evenly each round [default: 0.05].
    #[arg(long)]
    pub fixed_share: Option<f64>,
    /// Feedback `before` or `after` the selection of its round [default: before].
    #[arg(long)]
    pub update: Option<Update>,
    /// Members' votes for their own candidates: `on` or `off`. Two members keep theirs
    /// [default: on].
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on", value_parser = on_off)]
    pub self_votes: Option<bool>,
    /// Divide each member's shares by its largest, so that all say as much for what they like best:
    /// `on` or `off` [default: on].
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on", value_parser = on_off)]
    pub level: Option<bool>,
    /// How much more a member is heard that is sure of the answer it has drafted; 0 hears all
    /// alike [default: 0.5].
    #[arg(long, value_name = "POWER", allow_negative_numbers = true)]
    pub confidence: Option<f64>,
    /// Let candidates that say the same in another form share their votes: `on` or `off`
    /// [default: on].
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on", value_parser = on_off)]
    pub agree: Option<bool>,
    /// Factor on the total of a candidate that only repeats what was said, or that ends unsure of
    /// itself; 1 minds neither [default: 0.5].
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub discount: Option<f64>,
    /// How much a candidate that ends, while a member as strong goes on, may surprise its own
    /// drafter [default: 2.6].
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    pub sure: Option<f64>,
    /// Part of the vote above which a member whose candidate has won and goes on drafts the next
    /// segments alone; 1 for never [default: 0.53].
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub lead: Option<f64>,
    /// Let one member draft for all while nobody doubts it.
    #[arg(long)]
    pub leader: bool,
    /// How much a leader's segment may surprise a member before all draft: more is quicker, less is
    /// surer; implies --leader [default: 5].
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    pub doubt: Option<f64>,
    /// Let all draft in every round, whatever the rule says.
    #[arg(long, conflicts_with_all = ["leader", "doubt"])]
    pub no_leader: bool,
    /// Let members with poor rounds leave for the rest of the answer.
    #[arg(long)]
    pub exit: bool,
    /// Keep every member to the end, also where a recording lets them leave.
    #[arg(long, conflicts_with_all = ["exit", "exit_warmup", "exit_temperature", "exit_threshold"])]
    pub no_exit: bool,
    /// Rounds before anyone may leave; implies --exit [default: 3].
    #[arg(long, value_name = "ROUNDS")]
    pub exit_warmup: Option<usize>,
    /// Patience of the exit rule; implies --exit [default: 6.0].
    #[arg(long, value_name = "T0")]
    pub exit_temperature: Option<f64>,
    /// Keep-probability, times the number of members, below which one leaves; implies --exit
    /// [default: 0.5].
    #[arg(long, value_name = "D")]
    pub exit_threshold: Option<f64>,
    /// Accept any candidate that ends the answer at once, unverified; of a leader, too.
    #[arg(long)]
    pub fast: bool,
    /// The most rounds of an answer [default: 64; of `serve` none, a request's `max_tokens` or the
    /// context ends it].
    #[arg(long)]
    pub max_rounds: Option<usize>,
    /// The answer ends with the segment that brings it to this many characters [default: 4096; of
    /// `serve` none].
    #[arg(long)]
    pub max_characters: Option<usize>,
}

/// A way to think.
fn thinking(value: &str) -> Result<Thinking, String> {
    match value {
        "off" => Ok(Thinking::Off),
        "on" => Ok(Thinking::On),
        "auto" => Ok(Thinking::Auto),
        _ => Err("choose off, on or auto".to_owned()),
    }
}

/// Only numbers from `low` to `high`: NaN is none of them.
fn within(value: &str, low: f32, high: f32) -> Result<f32, String> {
    let number = value.parse().ok();
    number
        .filter(|number| (low..=high).contains(number))
        .ok_or_else(|| format!("choose a number from {low} to {high}"))
}

/// A whole number from 1 to 10,000.
fn count(value: &str) -> Result<usize, String> {
    let number = value.parse().ok();
    number
        .filter(|number| (1..=10_000).contains(number))
        .ok_or_else(|| "choose a whole number from 1 to 10,000".to_owned())
}

fn on_off(value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "yes" => Ok(true),
        "off" | "false" | "no" => Ok(false),
        _ => Err("say `on` or `off`".to_owned()),
    }
}

impl Method {
    /// `settings` with the limits of an answer that the command line names.
    pub fn limited(&self, settings: Settings) -> Settings {
        Settings {
            max_rounds: self.max_rounds.unwrap_or(settings.max_rounds),
            max_characters: self.max_characters.unwrap_or(settings.max_characters),
            ..settings
        }
    }

    /// `defaults` with what the command line says put over them.
    pub fn settings(&self, defaults: Settings) -> Settings {
        let defaults = self.rule.map_or(defaults, Settings::of);
        let exit = self.exit
            || self.exit_warmup.is_some()
            || self.exit_temperature.is_some()
            || self.exit_threshold.is_some();
        let exit = exit.then(|| {
            let default = defaults.exit.unwrap_or_default();
            Exit {
                warmup: self.exit_warmup.unwrap_or(default.warmup),
                temperature: self.exit_temperature.unwrap_or(default.temperature),
                threshold: self.exit_threshold.unwrap_or(default.threshold),
            }
        });
        let leader = (self.leader || self.doubt.is_some()).then(|| {
            let default = defaults.leader.unwrap_or_default();
            Leader {
                doubt: self.doubt.unwrap_or(default.doubt),
            }
        });
        Settings {
            segment_tokens: self.segment_tokens.unwrap_or(defaults.segment_tokens),
            scoring: self.scoring.unwrap_or(defaults.scoring),
            score_end: self.score_end.unwrap_or(defaults.score_end),
            trust: self.trust_power.unwrap_or(defaults.trust),
            reward: self.reward.unwrap_or(defaults.reward),
            alpha: self.alpha.unwrap_or(defaults.alpha),
            rate: self.rate.unwrap_or(defaults.rate),
            fixed_share: self.fixed_share.unwrap_or(defaults.fixed_share),
            update: self.update.unwrap_or(defaults.update),
            self_votes: self.self_votes.unwrap_or(defaults.self_votes),
            level: self.level.unwrap_or(defaults.level),
            confidence: self.confidence.unwrap_or(defaults.confidence),
            agree: self.agree.unwrap_or(defaults.agree),
            discount: self.discount.unwrap_or(defaults.discount),
            sure: self.sure.unwrap_or(defaults.sure),
            lead: self.lead.unwrap_or(defaults.lead),
            leader: leader.or(defaults.leader.filter(|_| !self.no_leader)),
            exit: exit.or(defaults.exit.filter(|_| !self.no_exit)),
            fast: self.fast || defaults.fast,
            max_rounds: self.max_rounds.unwrap_or(defaults.max_rounds),
            max_characters: self.max_characters.unwrap_or(defaults.max_characters),
        }
    }
}

/// A model that runs, and how its weights are kept.
#[derive(Debug, Clone, Args)]
pub struct Chosen {
    /// A file, a folder, hf:OWNER/REPO/FILE.gguf, or an address.
    #[arg(long = "model", value_name = "MODEL")]
    pub path: PathBuf,
    /// Round weights of plain numbers (F32, F16, BF16, and FP8, which is Q8_0 without) while they
    /// load.
    #[arg(long, value_name = "q8_0|q4_0", value_parser = quantised)]
    pub quantise: Option<Format>,
}

/// What weights can be rounded to while they load.
fn quantised(name: &str) -> Result<Format, String> {
    let known = [Format::Q8_0, Format::Q4_0];
    known
        .into_iter()
        .find(|format| format.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| "choose q8_0 or q4_0".to_owned())
}

/// `conclave inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// A file, a folder, hf:OWNER/REPO/FILE.gguf, or an address.
    pub model: PathBuf,
    /// Tokens of context the memory is told for, at most what the model was made for.
    #[arg(long, default_value_t = 4096, value_name = "TOKENS")]
    pub context: usize,
    /// Tell what the model is when its weights are rounded while they load.
    #[arg(long, value_name = "q8_0|q4_0", value_parser = quantised)]
    pub quantise: Option<Format>,
    /// List every tensor.
    #[arg(long)]
    pub tensors: bool,
}

/// `conclave logits`.
#[derive(Debug, Args)]
pub struct Logits {
    /// The model.
    #[command(flatten)]
    pub model: Chosen,
    /// Token ids, comma separated; several times for several prompts, each on its own.
    #[arg(long, required = true, value_name = "IDS")]
    pub tokens: Vec<TokenList>,
    /// After every token, not only the last.
    #[arg(long)]
    pub all: bool,
    /// Write the logits to this file, 32-bit floats in little-endian order, row after row,
    /// and print only how many there are.
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
}

/// `conclave generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// The model.
    #[command(flatten)]
    pub model: Chosen,
    /// Token ids, comma separated.
    #[arg(long, value_delimiter = ',', required = true, value_parser = token_id)]
    pub tokens: Vec<u32>,
    /// How many tokens to add; fewer where the model's context ends.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Stop at the model's end-of-answer tokens.
    #[arg(long)]
    pub stop: bool,
    /// How tokens are drawn.
    #[command(flatten)]
    pub drawing: Drawing,
}

/// `conclave verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The model.
    #[command(flatten)]
    pub model: Chosen,
    /// Token ids of the prefix, comma separated.
    #[arg(long, value_delimiter = ',', required = true, value_parser = token_id)]
    pub prefix_tokens: Vec<u32>,
    /// Token ids of one candidate, comma separated; once for each candidate.
    #[arg(long, required = true, value_name = "IDS")]
    pub candidate_tokens: Vec<TokenList>,
}

/// Comma-separated token ids.
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

/// `conclave tokenize`.
#[derive(Debug, Args)]
pub struct Tokenize {
    /// A file, a folder, hf:OWNER/REPO/FILE.gguf, or an address.
    #[arg(long)]
    pub model: PathBuf,
    /// The text, standing alone: no start token, the text of a control token is that token.
    #[arg(long)]
    pub text: String,
    /// Take the text as a candidate's that continues another: control tokens are plain
    /// text and no space is put before it.
    #[arg(long)]
    pub continuation: bool,
}

/// `conclave template`.
#[derive(Debug, Args)]
pub struct Template {
    /// A file, a folder, hf:OWNER/REPO/FILE.gguf, or an address.
    #[arg(long)]
    pub model: PathBuf,
    /// A JSON file: `[{"role": "user", "content": "…"}, …]`; `-` for standard input.
    #[arg(long)]
    pub messages: PathBuf,
    /// Add what opens the assistant's turn.
    #[arg(long)]
    pub add_generation_prompt: bool,
}

/// `conclave replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// A recorded run: the page's download, `chat --record`'s file, or
    /// `{"members": […], "rounds": [{"scores": [[…], …]}, …]}`; `-` for standard input.
    pub file: PathBuf,
    /// The method.
    #[command(flatten)]
    pub method: Method,
}
