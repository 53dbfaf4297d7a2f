//! Requests to `/v1/embeddings`: one member's embeddings of texts.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use conclave_member::Passage;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::ApiError;
use crate::options::Options;
use crate::work::{Event, Usage};

/// Maximum number of texts in a request, as in OpenAI's API.
pub(crate) const MOST_TEXTS: usize = 2048;

/// A parsed request.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Requested model name, repeated in the reply.
    pub model: String,
    /// Index of the member asked.
    pub member: usize,
    pub passages: Vec<Passage>,
    pub shape: Shape,
    pub user: String,
}

/// Form of the embeddings in the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of their first dimensions that are returned; `None` for all.
    dimensions: Option<usize>,
    /// They are the bytes of their numbers in base 64, as OpenAI's clients ask for them.
    base64: bool,
}

/// Reads a request.
///
/// # Errors
/// 400 with the option's name, 404 for an unknown model.
pub(crate) fn read(body: &[u8], models: &[String]) -> Result<Asked, ApiError> {
    let mut options = Options::read(body)?;
    let (model, member) = options.model(models)?;
    let member = match (member, &models[1..]) {
        (Some(member), _) => member,
        (None, [_]) => 0,
        (None, members) => {
            let members = members.join(", ");
            let message = format!(
                "Embeddings are of one model, and the ensemble's members share none. Ask one of \
                 them, by `model`: {members}."
            );
            return Err(ApiError::option("model", message));
        }
    };
    let base64 = match options.text("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => {
            let message = "`encoding_format` has to be float or base64.";
            return Err(ApiError::option("encoding_format", message));
        }
    };
    let dimensions = options.whole("dimensions", 1, i128::MAX)?;
    let dimensions = dimensions.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    let passages = passages(options.take("input"))?;
    let user = options.user()?;
    if options.flag("stream")? {
        let message = "Embeddings come whole. Leave `stream` out.";
        return Err(ApiError::option("stream", message));
    }
    always_normalised(&mut options);
    options.nothing_else()?;
    Ok(Asked {
        model,
        member,
        passages,
        shape: Shape { dimensions, base64 },
        user,
    })
}

/// Takes the options of other servers that ask for vectors of length 1, as all are; what they ask
/// for otherwise stays, and is refused.
fn always_normalised(options: &mut Options) {
    let asks_for_1 = |name: &str, value: &Value| match name {
        "normalize" => *value == true,
        // The Euclidean norm.
        _ => value.as_f64() == Some(2.0),
    };
    for name in ["normalize", "embd_normalize"] {
        let other = options.take(name).filter(|value| !asks_for_1(name, value));
        if let Some(value) = other {
            options.put(name, value);
        }
    }
}

/// Reads a text, its tokens, or a list of either.
fn passages(input: Option<Value>) -> Result<Vec<Passage>, ApiError> {
    let passages = match input {
        Some(Value::Array(items)) if items.iter().any(|item| !item.is_number()) => {
            items.into_iter().map(passage).collect()
        }
        Some(one) => passage(one).map(|one| vec![one]),
        None => None,
    };
    let passages = passages.filter(|all: &Vec<Passage>| all.len() <= MOST_TEXTS);
    passages.ok_or_else(|| {
        let message = format!(
            "`input` has to be a text, a list of a text's tokens, or a list of 1 to {MOST_TEXTS} \
             of these; none is empty."
        );
        ApiError::option("input", message)
    })
}

/// Reads a text or its tokens; `None` for anything else, and for an empty one.
fn passage(item: Value) -> Option<Passage> {
    match item {
        Value::String(text) => (!text.is_empty()).then_some(Passage::Text(text)),
        Value::Array(ids) => {
            let id = |id: Value| u32::try_from(id.as_u64()?).ok();
            let ids: Vec<u32> = ids.into_iter().map(id).collect::<Option<_>>()?;
            (!ids.is_empty()).then_some(Passage::Tokens(ids))
        }
        _ => None,
    }
}

/// A reply, in OpenAI's format.
#[derive(Debug, Serialize)]
pub(crate) struct Reply {
    object: &'static str,
    data: Vec<Item>,
    model: String,
    usage: Used,
}

#[derive(Debug, Serialize)]
struct Item {
    object: &'static str,
    index: usize,
    embedding: Numbers,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Numbers {
    List(Vec<f32>),
    Base64(String),
}

#[derive(Debug, Serialize)]
struct Used {
    prompt_tokens: usize,
    total_tokens: usize,
}

impl Shape {
    fn apply(self, mut vector: Vec<f32>) -> Result<Numbers, ApiError> {
        if let Some(dimensions) = self.dimensions {
            let all = vector.len();
            if dimensions > all {
                let message = format!("`dimensions` is {all} at most for this model.");
                return Err(ApiError::option("dimensions", message));
            }
            shorten(&mut vector, dimensions);
        }
        Ok(match self.base64 {
            true => {
                let bytes: Vec<u8> = vector.iter().flat_map(|one| one.to_le_bytes()).collect();
                Numbers::Base64(BASE64_STANDARD.encode(bytes))
            }
            false => Numbers::List(vector),
        })
    }
}

/// Keeps the first dimensions, with a length of 1 again.
fn shorten(vector: &mut Vec<f32>, dimensions: usize) {
    vector.truncate(dimensions);
    let length = vector.iter().map(|one| one * one).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|one| *one /= length);
    }
}

/// Waits for all embeddings of a request.
///
/// # Errors
/// Those of the member.
pub(crate) async fn whole(
    model: String,
    shape: Shape,
    mut events: UnboundedReceiver<Event>,
) -> Result<Reply, ApiError> {
    let mut data = Vec::new();
    while let Some(event) = events.recv().await {
        match event {
            Event::Embedded(vector) => data.push(Item {
                object: "embedding",
                index: data.len(),
                embedding: shape.apply(vector)?,
            }),
            Event::End(Usage { prompt, .. }) => {
                return Ok(Reply {
                    object: "list",
                    data,
                    model,
                    usage: Used {
                        prompt_tokens: prompt,
                        total_tokens: prompt,
                    },
                });
            }
            Event::Failed(error) => return Err(error),
            _ => {}
        }
    }
    Err(ApiError::closing())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_one(body: &Value) -> Result<Asked, ApiError> {
        let models = ["conclave", "Ada", "Juno"].map(str::to_owned);
        read(body.to_string().as_bytes(), &models)
    }

    #[test]
    fn texts_and_tokens_are_read_alone_and_in_lists() {
        let text = |text: &str| Passage::Text(text.to_owned());
        let ids = |ids: &[u32]| Passage::Tokens(ids.to_vec());
        for (input, wanted) in [
            (json!("x"), vec![text("x")]),
            (json!(["x", "y"]), vec![text("x"), text("y")]),
            (json!([1, 2]), vec![ids(&[1, 2])]),
            (json!([[1, 2], [3]]), vec![ids(&[1, 2]), ids(&[3])]),
        ] {
            let asked = read_one(&json!({ "model": "Juno", "input": input })).unwrap();
            assert_eq!(asked.passages, wanted);
            assert_eq!((asked.member, asked.model.as_str()), (1, "Juno"));
            assert!(!asked.shape.base64);
        }
    }

    #[test]
    fn vectors_have_a_length_of_1_whoever_asks_for_it() {
        for (name, value, wanted) in [
            ("normalize", json!(true), None),
            ("normalize", json!(null), None),
            ("normalize", json!(false), Some("normalize")),
            ("embd_normalize", json!(2), None),
            ("embd_normalize", json!(2.0), None),
            ("embd_normalize", json!(-1), Some("embd_normalize")),
            ("embd_normalize", json!(0), Some("embd_normalize")),
        ] {
            let mut body = json!({ "model": "Ada", "input": "x" });
            body[name] = value;
            let refused = read_one(&body).err().and_then(|error| error.param);
            assert_eq!(refused.as_deref(), wanted, "{body}");
        }
    }

    #[test]
    fn what_nobody_can_embed_is_refused_by_name() {
        for (body, name) in [
            (json!({ "model": "Ada" }), "input"),
            (json!({ "model": "Ada", "input": "" }), "input"),
            (json!({ "model": "Ada", "input": [] }), "input"),
            (json!({ "model": "Ada", "input": ["x", ""] }), "input"),
            (json!({ "model": "Ada", "input": [[1], []] }), "input"),
            (json!({ "model": "Ada", "input": [1, "x"] }), "input"),
            (json!({ "model": "Ada", "input": [-1] }), "input"),
            (json!({ "model": "Ada", "input": [1.5] }), "input"),
            (json!({ "model": "Ada", "input": vec!["x"; 2049] }), "input"),
            (
                json!({ "model": "Ada", "input": "x", "dimensions": 0 }),
                "dimensions",
            ),
            (
                json!({ "model": "Ada", "input": "x", "encoding_format": "int8" }),
                "encoding_format",
            ),
            (
                json!({ "model": "Ada", "input": "x", "temperature": 1 }),
                "temperature",
            ),
            (json!({ "model": "conclave", "input": "x" }), "model"),
            (json!({ "input": "x" }), "model"),
        ] {
            let error = read_one(&body).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(name), "{body}");
        }
    }

    #[test]
    fn an_ensemble_of_one_is_that_one() {
        let models = ["conclave", "Ada"].map(str::to_owned);
        let body = json!({ "model": "conclave", "input": "x" }).to_string();
        assert_eq!(read(body.as_bytes(), &models).unwrap().member, 0);
    }

    #[test]
    fn fewer_dimensions_have_a_length_of_1_again() {
        let shape = |dimensions, base64| Shape {
            dimensions: Some(dimensions),
            base64,
        };
        let vector = vec![0.6, 0.0, 0.8];
        let one = shape(1, false).apply(vector.clone());
        assert_eq!(one, Ok(Numbers::List(vec![1.0])));
        let refused = shape(4, false).apply(vector.clone()).unwrap_err();
        assert_eq!(refused.param.as_deref(), Some("dimensions"));
        let bytes = [1_f32.to_le_bytes(), 0_f32.to_le_bytes()].concat();
        let wanted = Numbers::Base64(BASE64_STANDARD.encode(bytes));
        assert_eq!(shape(2, true).apply(vector), Ok(wanted));
    }
}
