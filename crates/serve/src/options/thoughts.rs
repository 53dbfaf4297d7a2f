//! Thinking aloud, by the many names that requests have for it.

use conclave_member::Thinking;
use serde_json::Value;

use super::Options;
use crate::error::ApiError;

/// Object of values for the chat template.
const TEMPLATE: &str = "chat_template_kwargs";

const PRESERVE: &str = "preserve_thinking";

/// Wishes of a request about thoughts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Thoughts {
    /// `None` for the server's default.
    pub thinking: Option<Thinking>,
    /// Templates keep the thoughts in earlier answers; `None` for their default.
    pub preserved: Option<bool>,
}

impl Options {
    /// Takes what a request says about thoughts, under the names used by various servers; the
    /// last one wins.
    pub fn thoughts(&mut self) -> Result<Thoughts, ApiError> {
        let mut thinking = None;
        let mut says = |on: Option<bool>| match on {
            Some(true) => thinking = Some(Thinking::On),
            Some(false) => thinking = Some(Thinking::Off),
            None => {}
        };
        // Other efforts and budgets are only hints.
        let reasoning = |name: &str| self.fields.get("reasoning")?.get(name);
        let kwarg = |name: &str| self.fields.get(TEMPLATE)?.get(name);
        let own = |name: &str| self.fields.get(name);
        let efforts = [
            own("reasoning_effort"),
            reasoning("effort"),
            kwarg("reasoning_effort"),
        ];
        let budgets = [
            own("thinking_budget"),
            own("thinking_budget_tokens"),
            // llama.cpp's: 0 for no thoughts, -1 for any.
            own("reasoning_budget"),
            reasoning("max_tokens"),
        ];
        let mut says_no = efforts.into_iter().flatten().any(|effort| effort == "none");
        says_no |= budgets
            .into_iter()
            .flatten()
            .any(|budget| budget.as_f64() == Some(0.0));
        if says_no {
            says(Some(false));
        }
        says(reasoning("enabled").and_then(Value::as_bool));
        let effort = |levels: &Value| matches!(levels.as_str(), Some("low" | "medium" | "high"));
        // Ollama's levels.
        if self.fields.get("think").is_some_and(effort) {
            self.put("think", Value::Bool(true));
        }
        for name in ["enable_thinking", "think"] {
            says(self.switch(name)?);
        }
        match self.take("thinking") {
            None => {}
            Some(Value::Bool(on)) => says(Some(on)),
            Some(Value::Object(asked)) => match asked.get("type").and_then(Value::as_str) {
                Some("enabled") => says(Some(true)),
                Some("disabled") => says(Some(false)),
                _ => {}
            },
            Some(_) => {
                let message = "`thinking` has to be an object or true or false.";
                return Err(ApiError::option("thinking", message));
            }
        }
        let mut preserved = self.switch(PRESERVE)?;
        match self.take(TEMPLATE) {
            None => {}
            Some(Value::Object(kwargs)) => {
                let mut kwargs = Self::inside(TEMPLATE, kwargs);
                for name in ["enable_thinking", "thinking"] {
                    says(kwargs.switch(name)?);
                }
                preserved = kwargs.switch(PRESERVE)?.or(preserved);
                kwargs.nothing_else()?;
            }
            Some(_) => {
                let message = "`chat_template_kwargs` have to be an object.";
                return Err(ApiError::option(TEMPLATE, message));
            }
        }
        Ok(Thoughts {
            thinking,
            preserved,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn thoughts(body: &Value) -> Result<Thoughts, ApiError> {
        let mut options = Options::read(body.to_string().as_bytes())?;
        let thoughts = options.thoughts()?;
        options.nothing_else()?;
        Ok(thoughts)
    }

    #[test]
    fn members_think_where_a_request_says_so_in_any_of_its_names() {
        let (on, off) = (Some(Thinking::On), Some(Thinking::Off));
        for (body, wanted) in [
            (json!({}), None),
            (
                json!({ "chat_template_kwargs": {} , "reasoning_effort": "low" }),
                None,
            ),
            (
                json!({ "chat_template_kwargs": { "enable_thinking": true } }),
                on,
            ),
            (
                json!({ "chat_template_kwargs": { "thinking": false } }),
                off,
            ),
            (json!({ "enable_thinking": false }), off),
            (json!({ "think": true }), on),
            (json!({ "thinking": { "type": "disabled" } }), off),
            (json!({ "reasoning_effort": "none" }), off),
            (json!({ "reasoning": { "effort": "none" } }), off),
            (json!({ "reasoning": { "enabled": false } }), off),
            (json!({ "reasoning": { "max_tokens": 0 } }), off),
            (json!({ "reasoning": { "enabled": true } }), on),
            (json!({ "thinking_budget": 0 }), off),
            (json!({ "reasoning_budget": 0 }), off),
            (json!({ "reasoning_budget": -1 }), None),
            (
                json!({ "chat_template_kwargs": { "reasoning_effort": "none" } }),
                off,
            ),
            (json!({ "think": "low" }), on),
            (json!({ "think": "high" }), on),
        ] {
            assert_eq!(thoughts(&body).unwrap().thinking, wanted, "{body}");
        }
    }

    #[test]
    fn earlier_thoughts_are_kept_where_a_request_says_so() {
        for (body, wanted) in [
            (json!({}), None),
            (
                json!({ "chat_template_kwargs": { "enable_thinking": true } }),
                None,
            ),
            (
                json!({ "chat_template_kwargs": { "preserve_thinking": null } }),
                None,
            ),
            (
                json!({ "chat_template_kwargs": { "preserve_thinking": false } }),
                Some(false),
            ),
            (
                json!({ "chat_template_kwargs": { "preserve_thinking": true } }),
                Some(true),
            ),
            (json!({ "preserve_thinking": true }), Some(true)),
        ] {
            assert_eq!(thoughts(&body).unwrap().preserved, wanted, "{body}");
        }
        let wrong = json!({ "chat_template_kwargs": { "preserve_thinking": "no" } });
        let error = thoughts(&wrong).unwrap_err();
        let wanted = "chat_template_kwargs.preserve_thinking";
        assert_eq!(error.param.as_deref(), Some(wanted));
    }
}
