//! A chat template given by the user, for servers that render none.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use crate::error::RemoteError;

/// Maximum interpreter steps per prompt.
const STEPS: u64 = 2_000_000;

/// Message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// Text.
    pub content: String,
}

/// Chat template in Jinja, as published with models.
#[derive(Debug, Clone)]
pub struct Template {
    environment: Environment<'static>,
    /// End of an assistant's turn; empty if unknown.
    closing: String,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`RemoteError::Template`] if it is not Jinja or can't render a question.
    pub fn new(source: &str) -> Result<Self, RemoteError> {
        let failed = |error: Error| RemoteError::Template(error.to_string());
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        // As transformers configures Jinja. Only delimiters can be invalid, and these are Jinja's
        // own.
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().unwrap_or_default());
        environment.set_fuel(Some(STEPS));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |why: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, why))
        });
        environment
            .add_template_owned("chat", source.to_owned())
            .map_err(failed)?;
        let mut template = Self {
            environment,
            closing: String::new(),
        };
        let said = |role: &str, content: &str| ChatMessage {
            role: role.to_owned(),
            content: content.to_owned(),
        };
        template.render(&[said("user", "Well?")])?;
        let turns = [
            said("user", "Well?"),
            said("assistant", "Yes."),
            said("user", "Then?"),
        ];
        // A template that rejects three turns does not show how the second ends.
        if let Ok(text) = template.write(&turns, false) {
            template.closing = closing(&text, "Yes.", "Then?").to_owned();
        }
        Ok(template)
    }

    /// Renders the prompt, up to where the answer begins.
    ///
    /// # Errors
    /// [`RemoteError::Template`].
    pub fn render(&self, messages: &[ChatMessage]) -> Result<String, RemoteError> {
        self.write(messages, true)
    }

    /// End of an assistant's turn, such as `<|im_end|>`; empty if unknown.
    pub fn closing(&self) -> &str {
        &self.closing
    }

    fn write(&self, messages: &[ChatMessage], open: bool) -> Result<String, RemoteError> {
        let message = |said: &ChatMessage| {
            let (role, content) = (said.role.as_str(), said.content.as_str());
            Value::from_pairs([
                ("role", Value::from(role)),
                ("content", Value::from(content)),
            ])
        };
        let values = Value::from_pairs([
            ("messages", messages.iter().map(message).collect()),
            ("add_generation_prompt", Value::from(open)),
            ("enable_thinking", Value::from(false)),
        ]);
        let template = self.environment.get_template("chat");
        let rendered = template.and_then(|template| template.render(values));
        rendered.map_err(|error| RemoteError::Template(error.to_string()))
    }
}

/// Finds the mark between `said` and `next`: `<…>` or a line.
pub(crate) fn closing<'a>(text: &'a str, said: &str, next: &str) -> &'a str {
    let between = text
        .split_once(said)
        .and_then(|(_, rest)| rest.split_once(next));
    let mark = between.map_or("", |(closing, _)| closing.trim_start());
    let end = match mark.starts_with('<') {
        true => mark.find('>').map(|at| at + 1),
        false => mark.find('\n'),
    };
    end.map_or(mark.trim_end(), |end| mark[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + \
        '\n' + message['content'].strip() + '<|im_end|>' + '\n' }}{% endfor %}\
        {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

    #[test]
    fn a_template_renders_and_tells_how_a_turn_closes() {
        let template = Template::new(CHATML).unwrap();
        let asked = [ChatMessage {
            role: "user".into(),
            content: " Why? ".into(),
        }];
        assert_eq!(
            template.render(&asked).unwrap(),
            "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
        );
        assert_eq!(template.closing(), "<|im_end|>");
        assert_eq!(
            closing("[INST] a [/INST] Yes.</s>[INST] Then?", "Yes.", "Then?"),
            "</s>"
        );
        assert_eq!(closing("Q: a\nA: Yes.\n\nQ: Then?", "Yes.", "Then?"), "Q:");
        assert_eq!(closing("nothing of it", "Yes.", "Then?"), "");
    }

    #[test]
    fn what_is_no_template_is_said() {
        for wrong in [
            "{% if %}",
            "{{ raise_exception('no') }}",
            "{% for i in range(9999999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        ] {
            let told = Template::new(wrong).unwrap_err();
            assert!(matches!(told, RemoteError::Template(_)), "{told}");
        }
    }
}
