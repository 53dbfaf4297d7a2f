//! Request options: each is checked, and unsupported ones are rejected by name.

use axum::http::StatusCode;
use conclave_model::{SAMPLING_OPTIONS, Sampling};
use conclave_rounds::{Limits, read_json};
use serde_json::{Map, Value};

use crate::error::ApiError;

mod idle;
mod objects;
mod samplers;
mod thoughts;

pub(crate) use idle::is_empty;
use idle::{is_idle, is_of_answers};
pub(crate) use thoughts::Thoughts;

/// Maximum number of answers to one request.
pub(crate) const MOST_CHOICES: usize = 16;

/// Maximum number of stop texts, and bytes of one.
const MOST_STOPS: usize = 16;
const LONGEST_STOP: usize = 1024;

/// Maximum bytes of `user`, which stays in memory while the request waits.
const LONGEST_USER: usize = 256;

/// Body of a request, or one of its objects, from which options are taken one by one.
pub(crate) struct Options {
    fields: Map<String, Value>,
    /// Path of the object, with a dot at its end; empty for the body.
    within: String,
}

/// Options common to all endpoints.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    /// Requested model name, repeated in the reply.
    pub model: String,
    /// Index of the only member asked; `None` for all.
    pub member: Option<usize>,
    pub sampling: Sampling,
    pub thoughts: Thoughts,
    /// Number of answers to one question.
    pub choices: usize,
    pub stop: Vec<String>,
    pub stream: bool,
    pub include_usage: bool,
    /// The stream tells how far members have read the question.
    pub progress: bool,
    pub user: String,
}

impl Options {
    /// Parses a body, a JSON object.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn read(body: &[u8]) -> Result<Self, ApiError> {
        match read_json(body) {
            Ok(Value::Object(fields)) => Ok(Self {
                fields,
                within: String::new(),
            }),
            Ok(_) => Err(ApiError::invalid("The body has to be a JSON object.")),
            Err(_) if std::str::from_utf8(body).is_err() => Err(ApiError::invalid(
                "The body is no JSON: it is not in UTF-8. Send it in that encoding.",
            )),
            Err(error) => Err(ApiError::invalid(format!("The body is no JSON: {error}"))),
        }
    }

    /// Parses a request: the common options and, by `own`, those of its endpoint. `models` and
    /// `sampling` as in [`common`](Self::common).
    ///
    /// # Errors
    /// 400 with the option's name, 404 for an unknown model.
    pub fn request<T>(
        body: &[u8],
        models: &[String],
        sampling: Sampling,
        own: impl FnOnce(&mut Self) -> Result<T, ApiError>,
    ) -> Result<(Common, T), ApiError> {
        let mut options = Self::read(body)?;
        let common = options.common(models, sampling)?;
        let own = own(&mut options)?;
        options.nothing_else()?;
        Ok((common, own))
    }

    /// Returns the options inside the object at `path`.
    fn inside(path: &str, fields: Map<String, Value>) -> Self {
        let within = format!("{path}.");
        Self { fields, within }
    }

    /// Returns an option's name with those of the objects around it.
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.within)
    }

    /// Removes an option; `null` counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    /// Puts an option back.
    pub fn put(&mut self, name: &str, value: Value) {
        self.fields.insert(name.to_owned(), value);
    }

    /// Takes a string.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => {
                let name = self.path(name);
                let message = format!("`{name}` has to be a text.");
                Err(ApiError::option(&name, message))
            }
        }
    }

    /// Takes a boolean, false by default.
    pub fn flag(&mut self, name: &str) -> Result<bool, ApiError> {
        Ok(self.switch(name)?.unwrap_or(false))
    }

    /// Takes an optional boolean.
    pub fn switch(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => {
                let name = self.path(name);
                let message = format!("`{name}` has to be true or false.");
                Err(ApiError::option(&name, message))
            }
        }
    }

    /// Takes a number from `low` to `high`.
    pub fn number(&mut self, name: &str, low: f64, high: f64) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value
            .as_f64()
            .filter(|number| (low..=high).contains(number));
        let name = self.path(name);
        let message = || format!("`{name}` has to be a number from {low} to {high}.");
        let number = number.ok_or_else(|| ApiError::option(&name, message()))?;
        Ok(Some(number))
    }

    /// Takes an integer from `low` to `high`; `100.0` and `1e2` are 100.
    pub fn whole(&mut self, name: &str, low: i128, high: i128) -> Result<Option<i128>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let exact = value.as_i64().map(i128::from);
        let exact = exact.or_else(|| value.as_u64().map(i128::from));
        #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
        let written = || {
            let number = value.as_f64().filter(|number| number.fract() == 0.0);
            number.map(|number| number as i128)
        };
        let number = exact.or_else(written);
        let number = number.filter(|number| (low..=high).contains(number));
        let name = self.path(name);
        let message = || match high {
            i128::MAX => format!("`{name}` has to be a whole number of at least {low}."),
            _ => format!("`{name}` has to be a whole number from {low} to {high}."),
        };
        let number = number.ok_or_else(|| ApiError::option(&name, message()))?;
        Ok(Some(number))
    }

    /// Takes a token limit of at least `least`; -1 and (Ollama) -2 mean no limit.
    pub fn tokens(&mut self, name: &str, least: i128) -> Result<Option<Tokens>, ApiError> {
        let Some(value) = self.fields.get(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        if matches!(value.as_f64(), Some(-1.0 | -2.0)) {
            self.take(name);
            return Ok(Some(Tokens::All));
        }
        let tokens = self.whole(name, least, i128::MAX)?;
        let most = |tokens| usize::try_from(tokens).unwrap_or(usize::MAX);
        Ok(tokens.map(|tokens| Tokens::Most(most(tokens))))
    }

    /// Takes the common options. `models` are all model names, the ensemble's first; `sampling` are
    /// the defaults.
    fn common(&mut self, models: &[String], sampling: Sampling) -> Result<Common, ApiError> {
        let (model, member) = self.model(models)?;
        let choices = self.whole("n", 1, MOST_CHOICES as i128)?;
        let sampling = self.sampling(sampling)?;
        let seed = self.whole("seed", i64::MIN.into(), u64::MAX.into())?;
        // llama.cpp's number for any seed.
        let seed = seed.filter(|&seed| seed != -1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a seed is any 64 bits"
        )]
        let sampling = Sampling {
            seed: seed.map_or(sampling.seed, |seed| seed as u64),
            ..sampling
        };
        let thoughts = self.thoughts()?;
        let best_of = self.fields.get("best_of").and_then(Value::as_f64);
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        if best_of.is_some() && best_of == choices.map(|number| number as f64) {
            // All that are drawn are returned.
            self.take("best_of");
        }
        let choices = choices.and_then(|number| usize::try_from(number).ok());
        let stream = self.flag("stream")?;
        let user = self.user()?;
        Ok(Common {
            model,
            member,
            sampling,
            thoughts,
            choices: choices.unwrap_or(1),
            stop: self.stop()?,
            stream,
            include_usage: self.stream_options(stream)?,
            progress: self.take("return_progress") == Some(Value::Bool(true)),
            user,
        })
    }

    /// Takes the sampling options, but for the seed; absent ones stay as they are.
    fn sampling(&mut self, mut sampling: Sampling) -> Result<Sampling, ApiError> {
        for option in &SAMPLING_OPTIONS {
            let value = if option.is_whole() {
                // Some clients write -1 for all.
                let count = self.whole(option.name, -1, i128::MAX)?;
                count.map(|count| u32::try_from(count.max(0)).unwrap_or(u32::MAX).into())
            } else {
                self.number(option.name, 0.0, option.usual)?
            };
            if let Some(value) = value {
                (option.set)(&mut sampling, value);
            }
        }
        let samplers = self.fields.get("samplers");
        if samplers.is_some_and(samplers::leave_out_min_p) {
            sampling.min_p = 0.0;
        }
        Ok(sampling)
    }

    /// Takes the `user`, empty by default.
    pub fn user(&mut self) -> Result<String, ApiError> {
        let user = self.text("user")?.unwrap_or_default();
        if user.len() > LONGEST_USER {
            let message = format!("`user` has {LONGEST_USER} bytes at most.");
            return Err(ApiError::option("user", message));
        }
        Ok(user)
    }

    /// Rejects an option that is of another endpoint and has another name at this one; `names` are
    /// both.
    ///
    /// # Errors
    /// 400 with the right name.
    pub fn misnamed(&self, names: &[(&str, &str)]) -> Result<(), ApiError> {
        let is_there = |name: &str| self.fields.get(name).is_some_and(|value| !is_empty(value));
        match names.iter().find(|(wrong, _)| is_there(wrong)) {
            None => Ok(()),
            Some((wrong, right)) => {
                let message =
                    format!("`{wrong}` is of another endpoint. Write `{right}` at this one.");
                Err(ApiError::option(wrong, message))
            }
        }
    }

    /// Returns the limits of one answer.
    pub fn limits(common: &Common, tokens: Option<usize>) -> Limits {
        Limits {
            tokens,
            stop: common.stop.clone(),
            call: None,
        }
    }

    /// Takes the model, a name of `models`; the first by default.
    ///
    /// # Errors
    /// 404 for an unknown model.
    pub fn model(&mut self, models: &[String]) -> Result<(String, Option<usize>), ApiError> {
        let Some(name) = self.text("model")?.filter(|name| !name.is_empty()) else {
            return Ok((models.first().cloned().unwrap_or_default(), None));
        };
        match models.iter().position(|each| *each == name) {
            Some(place) => Ok((name, place.checked_sub(1))),
            None => {
                let known = models.join(", ");
                let message = format!("There is no model `{name}`; there are {known}.");
                Err(ApiError {
                    param: Some("model".to_owned()),
                    ..ApiError::refused(StatusCode::NOT_FOUND, "model_not_found", message)
                        .quoting(&name)
                })
            }
        }
    }

    fn stop(&mut self) -> Result<Vec<String>, ApiError> {
        let texts = match self.take("stop") {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) => Some(vec![text]),
            Some(Value::Array(texts)) => texts
                .into_iter()
                .map(|text| text.as_str().map(str::to_owned))
                .collect(),
            Some(_) => None,
        };
        // Empty texts are ignored.
        let texts = texts.map(|mut texts: Vec<String>| {
            texts.retain(|text| !text.is_empty());
            texts
        });
        let fits = |texts: &Vec<String>| {
            let fits = |text: &String| text.len() <= LONGEST_STOP;
            texts.len() <= MOST_STOPS && texts.iter().all(fits)
        };
        let message = || {
            format!(
                "`stop` has to be a text, or a list of at most {MOST_STOPS}; none has more than \
                 {LONGEST_STOP} bytes."
            )
        };
        let texts = texts.filter(fits);
        texts.ok_or_else(|| ApiError::option("stop", message()))
    }

    /// Drops the options of answers, for a request that has none.
    pub fn drop_options_of_answers(&mut self) {
        self.fields.retain(|name, _| !is_of_answers(name));
    }

    /// Rejects the first remaining option that would change the answer.
    ///
    /// # Errors
    /// 400, with the option's name.
    pub fn nothing_else(self) -> Result<(), ApiError> {
        let mut fields = self.fields.iter();
        match fields.find(|(name, value)| !is_idle(name, value, &self.fields)) {
            None => Ok(()),
            Some((name, _)) => {
                let name = self.path(name);
                let message = format!("The members can't honour `{name}`. Leave it out.");
                Err(ApiError::option(&name, message))
            }
        }
    }
}

/// Token limit of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// No limit but the context.
    All,
    Most(usize),
}

impl Tokens {
    /// Returns the limit, if any.
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Most(most) => Some(most),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(body: Value) -> Options {
        Options::read(body.to_string().as_bytes()).unwrap()
    }

    fn common(body: Value) -> Result<Common, ApiError> {
        let models = ["conclave", "Ada"].map(str::to_owned);
        options(body).common(&models, Sampling::default())
    }

    #[test]
    fn what_is_left_out_is_as_the_server_has_it() {
        let sampling = Sampling::default();
        for body in [
            json!({}),
            json!({ "temperature": null, "seed": null, "stop": null, "n": 1 }),
            json!({ "seed": -1, "model": "" }),
        ] {
            let common = common(body).unwrap();
            assert_eq!(common.sampling, sampling);
            assert_eq!((common.model.as_str(), common.member), ("conclave", None));
            assert_eq!(common.choices, 1);
            assert!(common.stop.is_empty() && !common.stream && !common.include_usage);
        }
    }

    #[test]
    fn what_is_asked_for_is_taken() {
        let common = common(json!({
            "model": "Ada", "temperature": 0, "top_p": 0.5, "seed": -2, "stop": ["a", "b"],
            "stream": true, "stream_options": { "include_usage": true }, "user": "me",
            "n": 3,
        }))
        .unwrap();
        assert_eq!((common.member, common.choices), (Some(0), 3));
        let sampling = common.sampling;
        assert_eq!(
            (sampling.temperature, sampling.top_p, sampling.seed),
            (0.0, 0.5, u64::MAX - 1)
        );
        assert_eq!(common.stop, ["a", "b"]);
        assert!(common.stream && common.include_usage);
        assert_eq!(common.user, "me");
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_name() {
        for (body, name) in [
            (json!({ "n": 0 }), "n"),
            (json!({ "n": 17 }), "n"),
            (json!({ "temperature": 2.5 }), "temperature"),
            (json!({ "temperature": "warm" }), "temperature"),
            (json!({ "top_p": -0.1 }), "top_p"),
            (json!({ "seed": 0.5 }), "seed"),
            (json!({ "stop": [1] }), "stop"),
            (json!({ "stop": vec!["x"; 17] }), "stop"),
            (json!({ "stream": 1 }), "stream"),
            (json!({ "top_k": 0.5 }), "top_k"),
            (json!({ "top_k": -2 }), "top_k"),
            (json!({ "thinking": "much" }), "thinking"),
            (
                json!({ "chat_template_kwargs": { "style": 1 } }),
                "chat_template_kwargs.style",
            ),
            (
                json!({ "chat_template_kwargs": { "enable_thinking": "no" } }),
                "chat_template_kwargs.enable_thinking",
            ),
            (json!({ "stream_options": 1 }), "stream_options"),
            (
                json!({ "stream": true, "stream_options": { "more": 1 } }),
                "stream_options.more",
            ),
            (
                json!({ "stream": true, "stream_options": { "include_usage": 1 } }),
                "stream_options.include_usage",
            ),
            (json!({ "model": "other" }), "model"),
            (json!({ "user": "x".repeat(257) }), "user"),
        ] {
            let error = common(body.clone()).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(name), "{body}");
            assert!(error.message.contains(name), "{}", error.message);
        }
    }

    #[test]
    fn numbers_are_read_however_clients_write_them() {
        let seed = |seed: Value| common(json!({ "seed": seed })).unwrap().sampling.seed;
        assert_eq!(seed(json!(5.0)), 5);
        assert_eq!(seed(json!(u64::MAX)), u64::MAX);
        assert_eq!(seed(json!(i64::MIN)), 1 << 63);
        let top_k = |top_k: Value| common(json!({ "top_k": top_k })).unwrap().sampling.top_k;
        assert_eq!(top_k(json!(40)), 40);
        assert_eq!(top_k(json!(1e12)), u32::MAX);
        assert_eq!((top_k(json!(0)), top_k(json!(-1))), (0, 0));
        let min_p = common(json!({ "min_p": 0.05 })).unwrap().sampling.min_p;
        assert_eq!(min_p, 0.05);
        let without = json!({ "min_p": 0.05, "samplers": ["top_k", "top_p", "temperature"] });
        assert_eq!(common(without).unwrap().sampling.min_p, 0.0);
        let with = json!({ "min_p": 0.05, "samplers": "dkpmt" });
        assert_eq!(common(with).unwrap().sampling.min_p, 0.05);
        assert_eq!(common(json!({ "n": 2.0 })).unwrap().choices, 2);
        let stop = common(json!({ "stop": ["", "a"], "stream_options": {} }))
            .unwrap()
            .stop;
        assert_eq!(stop, ["a"]);
        assert!(common(json!({ "stop": "" })).unwrap().stop.is_empty());
    }
}
