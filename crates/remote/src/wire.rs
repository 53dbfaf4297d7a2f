//! Responses of servers: only the fields used, with every number checked.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    pub id: String,
    #[serde(default)]
    pub owned_by: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Models {
    pub data: Vec<Model>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Completion {
    pub choices: Vec<Choice>,
    #[serde(default)]
    pub usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Usage {
    #[serde(default)]
    pub prompt_tokens: usize,
    #[serde(default)]
    pub completion_tokens: usize,
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
    #[serde(default)]
    pub content: Option<String>,
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

/// Log-probabilities of the tokens after the first `from` characters of an echoed text of `to`, by
/// text offsets. A token across the boundary counts as after it.
pub(crate) fn logprobs_of_echo(told: &Value, from: usize, to: usize) -> Option<Vec<f64>> {
    let list = |name: &str| told.get(name)?.as_array();
    let (logprobs, offsets) = (list("token_logprobs")?, list("text_offset")?);
    if logprobs.len() != offsets.len() {
        return None;
    }
    let offsets: Option<Vec<usize>> = offsets
        .iter()
        .map(|offset| usize::try_from(offset.as_u64()?).ok())
        .collect();
    let offsets = offsets.filter(|offsets| offsets.is_sorted())?;
    // Some servers count offsets from where the prompt begins in a longer text.
    let begin = *offsets.first()?;
    let mut found = Vec::new();
    for (at, &offset) in offsets.iter().enumerate() {
        let ends = offsets.get(at + 1).map_or(to, |next| next - begin);
        if ends > from && offset - begin < to {
            found.push(logprob(&logprobs[at])?);
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Extracts the server's error message, shortened.
pub(crate) fn complaint(body: &[u8]) -> String {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let message = value.as_ref().and_then(|value| {
        let error = value.get("error").unwrap_or(value);
        let message = error.get("message").or_else(|| error.get("detail"));
        message.unwrap_or(error).as_str()
    });
    let text = match message {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    let plain: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    if plain.is_empty() {
        "it says nothing".to_owned()
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn text_offsets_part_the_candidate_from_the_prefix() {
        // "Why? | It is" and one more sampled token.
        let told = json!({
            "tokens": ["Why", "? ", "It", " is", " so"],
            "token_logprobs": [null, -9.0, -1.0, -2.0, -3.0],
            "text_offset": [0, 3, 5, 7, 10],
        });
        assert_eq!(logprobs_of_echo(&told, 5, 10), Some(vec![-1.0, -2.0]));
        assert_eq!(
            logprobs_of_echo(&told, 4, 10),
            Some(vec![-9.0, -1.0, -2.0]),
            "one across the seam"
        );
        let unlikely = json!({"token_logprobs": [-1.0, null, -9999.0], "text_offset": [0, 3, 5]});
        assert_eq!(
            logprobs_of_echo(&unlikely, 3, 9),
            Some(vec![IMPOSSIBLE, IMPOSSIBLE])
        );
        assert_eq!(logprobs_of_echo(&told, 13, 10), None);
        for wrong in [
            json!({}),
            json!({"token_logprobs": [-1.0], "text_offset": []}),
            json!({"token_logprobs": [-1.0, -1.0], "text_offset": [4, 1]}),
            json!({"token_logprobs": [5.0], "text_offset": [0]}),
            json!({"token_logprobs": ["x"], "text_offset": [0]}),
        ] {
            assert_eq!(logprobs_of_echo(&wrong, 0, 3), None, "{wrong}");
        }
    }

    #[test]
    fn complaints_are_short_and_plain() {
        assert_eq!(
            complaint(br#"{"error": {"message": "no such model"}}"#),
            "no such model"
        );
        assert_eq!(
            complaint(br#"{"object": "error", "message": "bad"}"#),
            "bad"
        );
        assert_eq!(complaint(br#"{"detail": "Not Found"}"#), "Not Found");
        assert_eq!(complaint(b""), "it says nothing");
        assert_eq!(complaint(&vec![b'x'; 5000]).len(), 200);
        assert_eq!(complaint(b"<h1>\x07Bad\n</h1>"), "<h1>Bad</h1>");
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
