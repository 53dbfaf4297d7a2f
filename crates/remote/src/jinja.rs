//! Chat templates in Jinja, as published with models.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};

use crate::error::RemoteError;
use crate::template::{ChatMessage, closing};

/// Maximum interpreter steps per prompt.
const STEPS: u64 = 2_000_000;

/// Parsed template.
#[derive(Debug, Clone)]
pub(crate) struct Jinja {
    environment: Environment<'static>,
    /// End of an assistant's turn; empty if unknown.
    closing: String,
}

impl Jinja {
    /// Parses a template; an error if it is not Jinja or can't render a question.
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
