//! A chat template given by the user, for servers that render none.

use serde::{Deserialize, Serialize};

use crate::error::RemoteError;
#[cfg(feature = "jinja")]
use crate::jinja::Jinja;

/// Places of a turn's role and text in its format.
const ROLE: &str = "{role}";
const CONTENT: &str = "{content}";

/// Message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ChatMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// Text.
    pub content: String,
}

/// Chat template: in Jinja, or the format of one turn.
#[derive(Debug, Clone)]
pub struct Template(Written);

#[derive(Debug, Clone)]
enum Written {
    #[cfg(feature = "jinja")]
    Jinja(Box<Jinja>),
    /// Format before and after a turn's text.
    Turns { before: String, after: String },
}

impl Template {
    /// Parses a template in Jinja, as published with models.
    ///
    /// # Errors
    /// [`RemoteError::Template`] if it is not Jinja or can't render a question.
    #[cfg(feature = "jinja")]
    pub fn new(source: &str) -> Result<Self, RemoteError> {
        let jinja = Jinja::new(source)?;
        Ok(Self(Written::Jinja(Box::new(jinja))))
    }

    /// Reads the format of a turn, such as `<|im_start|>{role}\n{content}<|im_end|>\n`.
    ///
    /// # Errors
    /// [`RemoteError::Template`] if it has no `{content}`.
    pub fn turns(format: &str) -> Result<Self, RemoteError> {
        let Some((before, after)) = format.split_once(CONTENT) else {
            return Err(RemoteError::Template(format!("a turn has no {CONTENT}")));
        };
        let (before, after) = (before.to_owned(), after.to_owned());
        Ok(Self(Written::Turns { before, after }))
    }

    /// Renders the prompt, up to where the answer begins.
    ///
    /// # Errors
    /// [`RemoteError::Template`].
    pub fn render(&self, messages: &[ChatMessage]) -> Result<String, RemoteError> {
        match &self.0 {
            #[cfg(feature = "jinja")]
            Written::Jinja(jinja) => jinja.render(messages),
            Written::Turns { before, after } => {
                let turn = |said: &ChatMessage| {
                    let opening = before.replace(ROLE, &said.role);
                    format!("{opening}{}{after}", said.content)
                };
                let turns: String = messages.iter().map(turn).collect();
                Ok(turns + &before.replace(ROLE, "assistant"))
            }
        }
    }

    /// End of an assistant's turn, such as `<|im_end|>`; empty if unknown.
    pub fn closing(&self) -> &str {
        match &self.0 {
            #[cfg(feature = "jinja")]
            Written::Jinja(jinja) => jinja.closing(),
            Written::Turns { after, .. } => after.trim(),
        }
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

    fn asked(content: &str) -> [ChatMessage; 1] {
        let (role, content) = ("user".to_owned(), content.to_owned());
        [ChatMessage { role, content }]
    }

    #[test]
    fn a_turns_format_renders_a_conversation() {
        let template = Template::turns("<{role}>{content} </s>").unwrap();
        let prompt = template.render(&asked("What is {content}?")).unwrap();
        assert_eq!(prompt, "<user>What is {content}? </s><assistant>");
        assert_eq!(template.closing(), "</s>");
        let error = Template::turns("no place for it").unwrap_err();
        assert!(matches!(error, RemoteError::Template(_)), "{error}");
    }

    #[test]
    fn the_mark_between_two_turns_closes_the_first() {
        assert_eq!(
            closing("[INST] a [/INST] Yes.</s>[INST] Then?", "Yes.", "Then?"),
            "</s>"
        );
        assert_eq!(closing("Q: a\nA: Yes.\n\nQ: Then?", "Yes.", "Then?"), "Q:");
        assert_eq!(closing("nothing of it", "Yes.", "Then?"), "");
    }
}

#[cfg(all(test, feature = "jinja"))]
mod of_jinja {
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
