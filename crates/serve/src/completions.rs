//! Requests to `/v1/completions`: continue bare texts, or return log-probabilities of their tokens.

use serde_json::Value;

use crate::error::ApiError;
use crate::options::{MOST_CHOICES, Options, Tokens};
use crate::work::Task;

/// Default token limit of a continuation, as in OpenAI's API.
const USUAL_TOKENS: usize = 16;

/// Options of other endpoints, with their names here.
const MISNAMED: [(&str, &str); 4] = [
    ("input", "prompt"),
    ("messages", "prompt"),
    ("max_completion_tokens", "max_tokens"),
    ("max_output_tokens", "max_tokens"),
];

/// Takes the texts, the task and the token limit of each continuation.
///
/// # Errors
/// 400 with the option's name.
pub(crate) fn read(options: &mut Options) -> Result<(Task, Option<usize>), ApiError> {
    options.misnamed(&MISNAMED)?;
    let echo = options.flag("echo")?;
    let judge = match options.take("logprobs") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Number(number)) if matches!(number.as_f64(), Some(0.0 | 1.0)) => true,
        Some(_) => {
            let message = "`logprobs` has to be 0 or 1: what is known is how probable the tokens \
                of the text are, not which others would be.";
            return Err(ApiError::option("logprobs", message));
        }
    };
    let ours = options.tokens("n_predict", 0)?;
    let tokens = options.tokens("max_tokens", 0)?.or(ours);
    let tokens = tokens.map_or(Some(USUAL_TOKENS), Tokens::limit);
    if tokens == Some(0) && !echo {
        let message =
            "`max_tokens` is 0, and nothing would come back. Ask for `echo`, or for a token.";
        return Err(ApiError::option("max_tokens", message));
    }
    let texts = texts(options.take("prompt"))?;
    Ok((Task::Texts { texts, echo, judge }, tokens))
}

fn texts(prompt: Option<Value>) -> Result<Vec<String>, ApiError> {
    let refused = |message: String| ApiError::option("prompt", message);
    let empty = |name: &str| {
        refused(format!(
            "`{name}` is empty, and there is nothing to continue: members share no token that \
             begins a text. Send a character at least."
        ))
    };
    let is_list = matches!(prompt, Some(Value::Array(_)));
    let texts = match prompt {
        Some(Value::String(text)) => Some(vec![text]),
        Some(Value::Array(texts)) if texts.is_empty() => return Err(empty("prompt")),
        Some(Value::Array(texts)) => texts
            .into_iter()
            .map(|text| text.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    };
    let fits = |texts: &Vec<String>| (1..=MOST_CHOICES).contains(&texts.len());
    let texts = texts.filter(fits).ok_or_else(|| {
        refused(format!(
            "`prompt` has to be a text, or a list of 1 to {MOST_CHOICES}. Members share no tokens, \
             so that ids mean nothing."
        ))
    })?;
    match texts.iter().position(String::is_empty) {
        None => Ok(texts),
        Some(place) if is_list => Err(empty(&format!("prompt[{place}]"))),
        Some(_) => Err(empty("prompt")),
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Sampling;
    use serde_json::json;

    use super::*;

    fn read_one(body: Value) -> Result<(Vec<String>, bool, bool, Option<usize>), ApiError> {
        let models = ["conclave".to_owned()];
        let body = body.to_string();
        match Options::request(body.as_bytes(), &models, Sampling::default(), read)?.1 {
            (Task::Texts { texts, echo, judge }, tokens) => Ok((texts, echo, judge, tokens)),
            _ => unreachable!("they are texts"),
        }
    }

    #[test]
    fn texts_are_continued_or_judged() {
        let text = vec!["The".to_owned()];
        let read = read_one(json!({ "prompt": "The" })).unwrap();
        assert_eq!(read, (text.clone(), false, false, Some(16)));
        let body = json!({
            "prompt": ["The"], "echo": true, "max_tokens": 0, "logprobs": 1, "best_of": 1,
        });
        assert_eq!(read_one(body).unwrap(), (text.clone(), true, true, Some(0)));
        let read = read_one(json!({ "prompt": "The", "logprobs": 0 })).unwrap();
        assert_eq!(read, (text.clone(), false, true, Some(16)));
        let body = json!({ "prompt": "The", "max_tokens": -1, "best_of": 1.0, "logprobs": 1.0 });
        assert_eq!(read_one(body).unwrap(), (text.clone(), false, true, None));
        let read = read_one(json!({ "prompt": "The", "n_predict": 7.0 })).unwrap();
        assert_eq!(read, (text, false, false, Some(7)));
    }

    #[test]
    fn what_nobody_can_do_is_refused_by_name() {
        for (body, name) in [
            (json!({}), "prompt"),
            (json!({ "prompt": "" }), "prompt"),
            (json!({ "prompt": [1, 2] }), "prompt"),
            (json!({ "prompt": vec!["x"; 17] }), "prompt"),
            (json!({ "prompt": "x", "logprobs": 5 }), "logprobs"),
            (json!({ "prompt": "x", "logprobs": true }), "logprobs"),
            (json!({ "prompt": "x", "max_tokens": 0 }), "max_tokens"),
            (json!({ "prompt": "x", "max_tokens": -7 }), "max_tokens"),
            (json!({ "prompt": "x", "best_of": 3 }), "best_of"),
            (json!({ "prompt": "x", "suffix": "y" }), "suffix"),
            (json!({ "messages": "x" }), "messages"),
            (
                json!({ "prompt": "x", "max_output_tokens": 5 }),
                "max_output_tokens",
            ),
        ] {
            let error = read_one(body.clone()).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(name), "{body}");
        }
    }

    #[test]
    fn an_empty_text_is_refused_by_its_place() {
        for (prompt, place) in [
            (json!(""), "`prompt` is empty"),
            (json!([]), "`prompt` is empty"),
            (json!([""]), "`prompt[0]` is empty"),
            (json!(["x", ""]), "`prompt[1]` is empty"),
        ] {
            let error = read_one(json!({ "prompt": prompt })).expect_err(place);
            assert_eq!(error.param.as_deref(), Some("prompt"));
            assert!(error.message.starts_with(place), "{}", error.message);
        }
        // White space is a text.
        assert!(read_one(json!({ "prompt": [" ", "\n"] })).is_ok());
    }
}
