//! Options of `conclave eval`.

use std::path::PathBuf;

use clap::{Args, value_parser};
use conclave_eval::outcome::Samples;

use super::{Drawing, Members, Method, count};

/// Examples, and the format of a task file.
pub const HELP: &str = "Examples:\n  \
    conclave eval --seed 7 --count 60\n  \
    conclave eval --tasks mine.jsonl --members a.gguf,b.gguf --greedy\n  \
    conclave eval --tasks facts.jsonl reading.jsonl --limit 50 --rules harmonic,paper\n  \
    conclave eval --tasks mine.jsonl --baselines --record answers.jsonl\n  \
    conclave eval --tasks mine.jsonl --baselines --record answers.jsonl --resume\n  \
    conclave eval --tasks mine.jsonl --greedy --draws 1,2,3\n  \
    conclave eval --report answers.jsonl others.jsonl --json\n\n\
    A task is a line of JSON. An answer is right if it holds the text as whole words, or one of a\n\
    list; or if a regex finds something in it; or if it names the right choice and no other:\n  \
    {\"question\": \"How many legs does a spider have?\", \"answer\": [\"8\", \"eight\"]}\n  \
    {\"question\": \"Say yes or no: Is fire hot?\", \
    \"answer\": {\"regex\": \"(?i)^\\\\W*yes\"}}\n  \
    {\"question\": \"Which swims: cat or eel?\", \
    \"choices\": [\"cat\", \"eel\"], \"answer\": \"eel\"}\n\
    or if its code passes a test; to an open question no answer is right or wrong:\n  \
    {\"question\": \"Write a Python function inc(x).\", \
    \"answer\": {\"python\": \"assert inc(2) == 3\"}}\n  \
    {\"question\": \"Tell me a story.\", \"answer\": {\"open\": true}}\n\
    \"messages\" instead of \"question\" is a conversation that ends with the user's turn:\n  \
    {\"messages\": [{\"role\": \"user\", \"content\": \"I am Ann.\"}, \
    {\"role\": \"assistant\",\n   \
    \"content\": \"Hello!\"}, {\"role\": \"user\", \"content\": \"Who am I?\"}], \
    \"answer\": \"Ann\"}\n\
    \"not\" lists what a right answer doesn't hold; \"id\" names the question in the record.\n\n\
    Code runs in a process of its own in an empty folder, for 10 s, without a network or child\n\
    processes, and on Linux with 1 GB of memory. That stops accidents, not attacks: it can read\n\
    your files.";

#[derive(Debug, Args)]
pub struct Eval {
    /// Files of questions, one JSON object per line: `{"question": …, "answer": …}`. Without
    /// it, questions are generated for the skills of the bundled members.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub tasks: Vec<PathBuf>,
    /// Only the first so many questions of each file.
    #[arg(long, value_name = "QUESTIONS", requires = "tasks", value_parser = count)]
    pub limit: Option<usize>,
    /// Leave out tasks that are checked by running code, which needs `python3`.
    #[arg(long, requires = "tasks")]
    pub skip_code: bool,
    /// Number of generated questions.
    #[arg(
        long,
        default_value_t = 600,
        value_name = "QUESTIONS",
        conflicts_with = "tasks",
        value_parser = value_parser!(u64).range(1..)
    )]
    pub count: u64,
    /// Rules of the ensemble, each examined on every question: `harmonic`, `leader`, `paper`, also
    /// with settings as named in JSON, `paper+scoring=likelihood+segmentTokens=20`. Without it, the
    /// rule of the method's options.
    #[arg(
        long,
        value_name = "RULES",
        value_delimiter = ',',
        conflicts_with = "rule"
    )]
    pub rules: Vec<String>,
    /// Maximum tokens of an answer, of a member alone and of the ensemble alike: 60 for --tasks and
    /// 256 for generated questions. Rounds and characters do not limit the ensemble's answer,
    /// unless --max-rounds or --max-characters is given.
    #[arg(long, value_parser = count)]
    pub tokens: Option<usize>,
    /// Samples of each member that vote: a number, `equal` (enough to run as many tokens as the
    /// ensemble under its first rule) or `equal-time`.
    #[arg(long, value_name = "K|equal|equal-time")]
    pub samples: Option<Samples>,
    /// Also sample every member and the ensemble with each of these seeds, `1,2,3`, at
    /// --temperature (also with --greedy): means over the seeds, with intervals clustered by
    /// question.
    #[arg(
        long,
        visible_alias = "seeds",
        value_name = "SEEDS",
        value_delimiter = ','
    )]
    pub draws: Vec<u64>,
    /// Score the answers to open questions by this member, in nats per token and per byte; without
    /// a name, by the member with the most parameters.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub reference: Option<String>,
    /// Also evaluate the member least surprised by the question, which reads each question twice,
    /// and `--samples equal`.
    #[arg(long)]
    pub baselines: bool,
    /// Append every answer to this file as it comes, one line of JSON per question, with all
    /// rounds, candidates and scores.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Resume where the record ends.
    #[arg(long, requires = "record")]
    pub resume: bool,
    /// Report on these records, also of different task files, and run nothing.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["tasks", "record", "rules", "files", "samples", "draws", "reference",
            "baselines"]
    )]
    pub report: Vec<PathBuf>,
    /// Write how often each member was right alone, greedily, to this file, for --trust of `chat`,
    /// `serve` and `eval`. Ask questions of the kinds that you will ask.
    #[arg(long, value_name = "FILE")]
    pub write_trust: Option<PathBuf>,
    /// Questions asked concurrently, each with its own members in memory; by default one per core
    /// on the CPU, one on a GPU.
    #[arg(long, value_parser = count)]
    pub workers: Option<usize>,
    #[command(flatten)]
    pub members: Members,
    #[command(flatten)]
    pub method: Method,
    /// Sampling of the drafts; the seed is also that of generated questions. With --greedy only the
    /// ensemble is greedy; samples are still drawn.
    #[command(flatten)]
    pub drawing: Drawing,
}
