//! Responses of servers: only the fields used, with every number checked.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    pub id: String,
    #[serde(default)]
    pub owned_by: Option<String>,
    /// vLLM's context.
    #[serde(default)]
    max_model_len: Value,
    /// llama.cpp's facts.
    #[serde(default)]
    meta: Value,
}

/// Facts of a model, as its server reports them; 0 where it reports none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// Context in tokens.
    pub context: u64,
    /// Number of parameters.
    pub parameters: u64,
    /// Tokens of the vocabulary.
    pub vocabulary: u64,
}

impl Model {
    /// Facts in whichever form the server reports them.
    pub fn facts(&self) -> Facts {
        let meta = |name: &str| self.meta.get(name).and_then(Value::as_u64);
        let context = self.max_model_len.as_u64().or(meta("n_ctx"));
        Facts {
            context: context.unwrap_or(0),
            parameters: meta("n_params").unwrap_or(0),
            vocabulary: meta("n_vocab").unwrap_or(0),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Models {
    pub data: Vec<Model>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Completion {
    pub choices: Vec<Choice>,
    #[serde(default)]
    usage: Value,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Choice {
    #[serde(default)]
    pub index: usize,
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub message: Option<Message>,
    #[serde(default)]
    pub finish_reason: Option<String>,
    /// Its shape depends on the server.
    #[serde(default)]
    pub logprobs: Value,
    /// vLLM's.
    #[serde(default)]
    pub prompt_logprobs: Value,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    #[serde(default, deserialize_with = "joined")]
    pub content: Option<String>,
}

/// Part of a message: text, or something else.
#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

/// Text, or parts of it, which some servers send.
fn joined<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        Text(String),
        Parts(Vec<Part>),
    }
    let content: Option<Content> = Option::deserialize(from)?;
    Ok(content.map(|content| match content {
        Content::Text(text) => text,
        Content::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
    }))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tokens {
    pub tokens: Vec<u32>,
}

/// llama.cpp's tokens with their pieces: text, or bytes where they are not UTF-8.
#[derive(Debug, Deserialize)]
pub(crate) struct Pieces {
    pub tokens: Vec<Piece>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Piece {
    pub id: u32,
    #[serde(default)]
    pub piece: Value,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Rendered {
    pub prompt: String,
}

impl Completion {
    /// Count of its usage; `None` if the server reports none that is a number.
    pub fn counted(&self, name: &str) -> Option<usize> {
        Some(self.usage.get(name)?.as_f64()? as usize)
    }

    /// Choices in the order of their prompts; `None` unless there is exactly one for each.
    pub fn in_order(mut self, prompts: usize) -> Option<Vec<Choice>> {
        self.choices.sort_by_key(|choice| choice.index);
        let each = self
            .choices
            .iter()
            .enumerate()
            .all(|(at, choice)| choice.index == at);
        (each && self.choices.len() == prompts).then_some(self.choices)
    }
}

/// Log-probability of an impossible token, in nats: JSON has no −∞, and servers send null or a
/// number of their own.
const IMPOSSIBLE: f64 = -700.0;

/// Reads a log-probability; rejects values above 0, except for rounding.
fn logprob(value: &Value) -> Option<f64> {
    if value.is_null() {
        return Some(IMPOSSIBLE);
    }
    value
        .as_f64()
        .filter(|number| *number < 1e-3)
        .map(|number| number.clamp(IMPOSSIBLE, 0.0))
}

/// Log-probabilities of the prompt `ids` after the first `from`, in vLLM's shape: a list of `{"ID":
/// {"logprob": …}, …}`.
pub(crate) fn logprobs_of_prompt(told: &Value, ids: &[u32], from: usize) -> Option<Vec<f64>> {
    let told = told.as_array().filter(|told| told.len() == ids.len())?;
    let of = |at: usize| logprob(told[at].get(ids[at].to_string())?.get("logprob")?);
    (from..ids.len()).map(of).collect()
}

/// Log-probabilities of forced tokens, in llama.cpp's shape:
/// `{"content": [{"id": …, "logprob": …}, …]}`.
pub(crate) fn logprobs_of_forced(told: &Value, ids: &[u32]) -> Option<Vec<f64>> {
    let told = told.get("content")?.as_array()?.get(..ids.len())?;
    let of = |(token, &id): (&Value, &u32)| {
        (token.get("id")?.as_u64() == Some(u64::from(id))).then_some(())?;
        logprob(token.get("logprob")?)
    };
    told.iter().zip(ids).map(of).collect()
}

/// Log-probability of a token among the alternatives to the sampled one.
pub(crate) fn logprob_beside(told: &Value, id: u32) -> Option<f64> {
    let beside = told
        .get("content")?
        .get(0)?
        .get("top_logprobs")?
        .as_array()?;
    let is = |token: &&Value| token.get("id").and_then(Value::as_u64) == Some(u64::from(id));
    logprob(beside.iter().find(is)?.get("logprob")?)
}

/// Log-probability of the token that a text ends with, whichever it is.
pub(crate) fn logprob_of_end(told: &Value) -> Option<f64> {
    logprob(told.get("content")?.get(0)?.get("logprob")?)
}

/// Maximum characters between a token and the one before it: servers may strip its white space, or
/// it follows parts of characters.
const GAP: usize = 16;

/// Maximum tokens of an echo beyond one for each byte of its prompt: those before the prompt, and
/// those drawn after it.
const MORE_TOKENS: usize = 64;

/// Log-probabilities of the tokens after the first `from` bytes of an echoed `prompt`, up to byte
/// `to`; a token across the seam counts as after it. Then that of the first token after `to` within
/// the prompt, if any.
///
/// Tokens are found by their texts: the offsets that servers report count a first token that is in
/// no prompt, and each part of a character as a whole one.
pub(crate) fn logprobs_of_echo(
    told: &Value,
    prompt: &str,
    from: usize,
    to: usize,
) -> Option<(Vec<f64>, Option<f64>)> {
    let list = |name: &str| told.get(name)?.as_array();
    let (logprobs, tokens) = (list("token_logprobs")?, list("tokens")?);
    if logprobs.len() != tokens.len() || tokens.len() > prompt.len() + MORE_TOKENS {
        return None;
    }
    let texts: Option<Vec<&str>> = tokens.iter().map(Value::as_str).collect();
    let places = places(&texts?, prompt);
    if places.last()?.1 < to {
        return None;
    }
    let (mut own, mut end) = (Vec::new(), None);
    for (&(begins, over), told) in places.iter().zip(logprobs) {
        if over > from && begins < to {
            own.push(logprob(told)?);
        } else if begins >= to && begins < prompt.len() && end.is_none() {
            end = Some(logprob(told)?);
        }
    }
    Some((own, end))
}

/// First byte of each token in the prompt, and the byte after its last. A token that is not found
/// lies between its neighbours.
fn places(tokens: &[&str], prompt: &str) -> Vec<(usize, usize)> {
    let mut at = 0;
    let mut found = Vec::with_capacity(tokens.len());
    for token in tokens {
        let rest = &prompt[at..];
        // No further: a server may name as many tokens as the prompt has bytes.
        let mut near = rest.char_indices().take(GAP + 1).map(|(ahead, _)| ahead);
        let ahead = near.find(|&ahead| rest[ahead..].starts_with(token));
        match ahead.filter(|_| !token.is_empty()) {
            Some(ahead) => {
                found.push((at + ahead, Some(at + ahead + token.len())));
                at += ahead + token.len();
            }
            None => found.push((at, None)),
        }
    }
    // From the last on: the next token that was found begins where one that was not is over.
    let mut next = at;
    for (begins, over) in found.iter_mut().rev() {
        match over {
            Some(_) => next = *begins,
            None => *over = Some(next),
        }
    }
    let both = |(begins, over): (usize, Option<usize>)| (begins, over.unwrap_or(begins));
    found.into_iter().map(both).collect()
}

/// Longest complaint that is repeated, in characters.
const MAX_COMPLAINT: usize = 200;

/// Longest body that is searched for one, in bytes: some servers repeat the request in it.
const MAX_REFUSAL: usize = 1 << 20;

/// Extracts the server's error message as one short line, without the key that some repeat.
pub(crate) fn complaint(body: &[u8], key: Option<&str>) -> String {
    if body.len() > MAX_REFUSAL {
        return "it says too much to repeat".to_owned();
    }
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let message = value.as_ref().and_then(|value| {
        let error = value.get("error").unwrap_or(value);
        let message = error.get("message").or_else(|| error.get("detail"));
        message.unwrap_or(error).as_str()
    });
    let mut text = match message {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    if let Some(key) = key {
        text = text.replace(key, "…");
    }
    let plain = text.replace(is_unseen, " ");
    let words: Vec<&str> = plain.split_whitespace().collect();
    let line: String = words.join(" ").chars().take(MAX_COMPLAINT).collect();
    if line.is_empty() {
        "it says nothing".to_owned()
    } else {
        line
    }
}

/// Whether a character could drive a terminal, or hide or reorder what stands beside it.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Whether a server's complaint is about the length of the conversation.
pub(crate) fn is_too_long(complaint: &str) -> bool {
    let plain = complaint.to_lowercase();
    let longest = plain.split_once("maximum").is_some_and(|(_, rest)| {
        let near: String = rest.chars().take(26).collect();
        near.contains("length")
    });
    longest || plain.contains("context") || plain.contains("too long")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    #[test]
    fn log_probabilities_are_found_behind_the_prefix() {
        let told = json!([
            null,
            {"7": {"logprob": -1.5}},
            {"8": {"logprob": -0.25}, "9": {"logprob": -2.0}},
        ]);
        assert_eq!(
            logprobs_of_prompt(&told, &[3, 7, 9], 1),
            Some(vec![-1.5, -2.0])
        );
        assert_eq!(
            logprobs_of_prompt(&told, &[3, 7, 9], 0),
            None,
            "the first has none"
        );
        assert_eq!(
            logprobs_of_prompt(&told, &[3, 7], 1),
            None,
            "another length"
        );
        assert_eq!(
            logprobs_of_prompt(&told, &[3, 7, 4], 1),
            None,
            "another token"
        );
        let forced = json!({"content": [{"id": 5, "logprob": -26.5}, {"id": 2, "logprob": -1.0}]});
        assert_eq!(
            logprobs_of_forced(&forced, &[5, 2]),
            Some(vec![-26.5, -1.0])
        );
        assert_eq!(logprobs_of_forced(&forced, &[5]), Some(vec![-26.5]));
        assert_eq!(logprobs_of_forced(&forced, &[5, 6]), None);
        assert_eq!(logprobs_of_forced(&forced, &[5, 2, 2]), None);
    }

    #[test]
    fn one_that_was_not_drawn_is_found_beside_the_one_that_was() {
        let told = json!({"content": [{"id": 5, "logprob": -9.0, "top_logprobs": [
            {"id": 5, "logprob": -9.0}, {"id": 7, "logprob": -1.5}]}]});
        assert_eq!(logprob_beside(&told, 7), Some(-1.5));
        assert_eq!(logprob_beside(&told, 8), None);
        assert_eq!(logprob_beside(&Value::Null, 7), None);
    }

    const PROMPT: &str = "<s>Hi 👋<a>";

    /// Log-probabilities of a candidate, and of the token that ends it, after [`PROMPT`].
    fn echoed(
        tokens: &[&str],
        logprobs: &Value,
        text: &str,
        end: &str,
    ) -> Option<(Vec<f64>, Option<f64>)> {
        let told = json!({"tokens": tokens, "token_logprobs": logprobs});
        let from = PROMPT.len();
        let whole = format!("{PROMPT}{text}{end}");
        logprobs_of_echo(&told, &whole, from, from + text.len())
    }

    #[test]
    fn tokens_behind_the_prefix_are_the_candidates_and_those_drawn_after_it_not() {
        let tokens = ["<s>", "Hi", " 👋", "<a>", " one", " two", " three"];
        let told = json!([null, -1, -1, -1, -0.25, -0.5, -9]);
        let wanted = Some((vec![-0.25, -0.5], None));
        assert_eq!(echoed(&tokens, &told, " one two", ""), wanted);
        let unlikely = json!([null, -1, -1, -1, null, -9999.0, -9]);
        let wanted = Some((vec![IMPOSSIBLE, IMPOSSIBLE], None));
        assert_eq!(echoed(&tokens, &unlikely, " one two", ""), wanted);
        let across = ["<s>", "Hi", " 👋<a> on", "e", "x"];
        let told = json!([null, -1, -0.75, -0.25, -9]);
        let wanted = Some((vec![-0.75, -0.25], None));
        assert_eq!(
            echoed(&across, &told, " one", ""),
            wanted,
            "across the seam"
        );
    }

    #[test]
    fn what_closes_a_turn_counts_with_its_first_token() {
        let tokens = ["<s>", "Hi", " 👋", "<a>", " one", "</", "s>", "x"];
        let told = json!([null, -1, -1, -1, -0.25, -0.5, -9, -9]);
        let wanted = Some((vec![-0.25], Some(-0.5)));
        assert_eq!(echoed(&tokens, &told, " one", "</s>"), wanted);
        let tokens = ["<s>", "Hi", " 👋", "<a>", "</", "s>", "x"];
        let told = json!([null, -1, -1, -1, -0.5, -9, -9]);
        assert_eq!(
            echoed(&tokens, &told, "", "</s>"),
            Some((vec![], Some(-0.5)))
        );
    }

    #[test]
    fn an_added_first_token_and_parts_of_characters_move_nothing() {
        let wanted = Some((vec![-0.25], None));
        let added = ["<bos>", "<s>", "Hi", " 👋", "<a>", " one", "x"];
        let told = json!([null, -1, -1, -1, -1, -0.25, -9]);
        assert_eq!(echoed(&added, &told, " one", ""), wanted);
        // Parts of a character have no text of their own; some servers strip white space.
        let halves = [
            "<s>",
            "Hi",
            " \u{fffd}",
            "\u{fffd}",
            "\u{fffd}",
            "<a>",
            "one",
            "x",
        ];
        let told = json!([null, -1, -1, -1, -1, -1, -0.25, -9]);
        assert_eq!(echoed(&halves, &told, " one", ""), wanted);
        let emoji = [
            "<s>",
            "Hi",
            " \u{fffd}",
            "\u{fffd}",
            "<a>",
            " \u{fffd}",
            "\u{fffd}",
            "!",
            "x",
        ];
        let told = json!([null, -1, -1, -1, -1, -0.25, -0.5, -0.75, -9]);
        let wanted = Some((vec![-0.25, -0.5, -0.75], None));
        assert_eq!(echoed(&emoji, &told, " 👋!", ""), wanted);
    }

    #[test]
    fn an_echo_of_many_tokens_takes_no_longer_than_they_take_to_read() {
        let prompt = "yz".repeat(150_000);
        let echo = |count: usize| {
            let told = json!({"tokens": vec!["zz"; count], "token_logprobs": vec![-1; count]});
            logprobs_of_echo(&told, &prompt, 0, prompt.len())
        };
        let start = Instant::now();
        assert_eq!(echo(prompt.len()), None, "none of them is there");
        assert!(start.elapsed() < Duration::from_secs(20));
        // Each of a character's bytes may be one, and some are in no prompt.
        let echo = |count: usize| {
            let tokens = [vec!["a"; 3], vec!["x"; count - 3]].concat();
            let told = json!({"tokens": tokens, "token_logprobs": vec![-1; count]});
            logprobs_of_echo(&told, "aaa", 1, 3)
        };
        assert!(echo(3 + MORE_TOKENS).is_some());
        assert_eq!(echo(4 + MORE_TOKENS), None);
    }

    #[test]
    fn a_token_is_looked_for_so_near_that_it_can_follow_the_one_before() {
        let found = |gap: usize| places(&["<s>", "é!"], &format!("<s>{}é!", "é".repeat(gap)))[1];
        assert_eq!(found(GAP), (3 + 2 * GAP, 6 + 2 * GAP));
        assert_eq!(found(GAP + 1), (3, 3));
    }

    #[test]
    fn an_answer_without_an_echo_is_none() {
        let told = json!({"tokens": ["<s>", "Hi", " 👋", "<a>", " one"], "token_logprobs": [-1]});
        for wrong in [
            json!({}),
            Value::Null,
            told,
            json!({"tokens": ["x"], "token_logprobs": [-1]}),
            json!({"tokens": [], "token_logprobs": []}),
            json!({"tokens": ["<s>Hi 👋<a> one"], "token_logprobs": [5.0]}),
            json!({"tokens": ["<s>Hi 👋<a> one"], "token_logprobs": ["-1"]}),
            json!({"tokens": [7], "token_logprobs": [-1]}),
        ] {
            let whole = format!("{PROMPT} one");
            let found = logprobs_of_echo(&wrong, &whole, PROMPT.len(), whole.len());
            assert_eq!(found, None, "{wrong}");
        }
    }

    #[test]
    fn a_model_is_known_by_what_its_server_reports() {
        let facts = |value| serde_json::from_value::<Model>(value).unwrap().facts();
        let llama = json!({"id": "m", "meta": {"n_ctx": 512, "n_params": 9, "n_vocab": 7}});
        let wanted = Facts {
            context: 512,
            parameters: 9,
            vocabulary: 7,
        };
        assert_eq!(facts(llama), wanted);
        assert_eq!(facts(json!({"id": "m", "max_model_len": 8})).context, 8);
        let odd = json!({"id": "m", "max_model_len": "8", "meta": []});
        assert_eq!(facts(odd), Facts::default());
    }

    #[test]
    fn a_refusal_for_length_is_told_from_others() {
        for long in [
            "This model's maximum context length is 512 tokens.",
            "the maximum prompt length is 100",
            "the request exceeds the available context size",
            "Input is TOO LONG",
        ] {
            assert!(is_too_long(long), "{long}");
        }
        for other in [
            "no such model",
            "maximum load is reached: the length of the queue is 9",
        ] {
            assert!(!is_too_long(other), "{other}");
        }
    }

    #[test]
    fn complaints_are_short_and_plain_and_without_the_key() {
        let said = |body: &[u8]| complaint(body, Some("sk-secret"));
        assert_eq!(
            said(br#"{"error": {"message": "no such model"}}"#),
            "no such model"
        );
        assert_eq!(said(br#"{"object": "error", "message": "bad"}"#), "bad");
        assert_eq!(said(br#"{"detail": "Not Found"}"#), "Not Found");
        assert_eq!(said(b""), "it says nothing");
        assert_eq!(said(&vec![b'x'; 5000]).len(), MAX_COMPLAINT);
        let long = vec![b'x'; MAX_REFUSAL + 1];
        assert_eq!(said(&long), "it says too much to repeat");
        assert_eq!(
            said("<h1>\u{7}Bad\n\u{202e}</h1>".as_bytes()),
            "<h1> Bad </h1>"
        );
        assert_eq!(said(b"what is sk-secret?"), "what is …?");
        let cut = [&[b'x'; MAX_COMPLAINT - 3][..], b"sk-secret"].concat();
        assert!(
            !said(&cut).contains("sk"),
            "it is found before the line is cut"
        );
    }

    #[test]
    fn a_message_is_text_or_parts_of_it() {
        let content = |content: Value| {
            let message: Message = serde_json::from_value(json!({ "content": content })).unwrap();
            message.content
        };
        let parts = json!([{"type": "text", "text": "A"}, {"type": "image"}, {"text": "."}]);
        assert_eq!(content(parts).as_deref(), Some("A."));
        assert_eq!(content(json!("A.")).as_deref(), Some("A."));
        assert_eq!(content(Value::Null), None);
    }

    #[test]
    fn choices_are_put_in_the_order_of_their_prompts() {
        let completion = |value| serde_json::from_value::<Completion>(value).unwrap();
        let two =
            completion(json!({"choices": [{"index": 1, "text": "b"}, {"index": 0, "text": "a"}]}));
        let texts: Vec<_> = two
            .in_order(2)
            .unwrap()
            .into_iter()
            .map(|c| c.text)
            .collect();
        assert_eq!(texts, ["a", "b"]);
        let twice = completion(json!({"choices": [{"index": 0}, {"index": 0}]}));
        assert!(twice.in_order(2).is_none());
        assert!(completion(json!({"choices": []})).in_order(1).is_none());
    }
}
