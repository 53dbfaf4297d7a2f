//! A chat template's text as it is compiled: transformers' own blocks, line breaks, and its errors.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use minijinja::machinery::{CodeGenerator, Instructions, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

use crate::TextError;
use crate::metered::metered;
use crate::template_functions::Refusal;
use crate::template_python::understood;

const NAME: &str = "chat_template";

/// One template's text.
pub(crate) struct Source {
    pub(crate) text: String,
    /// Text as given to the interpreter.
    plain: String,
    /// Its messages' contents are lists of parts.
    pub(crate) parts: bool,
    /// Whether it writes calls in the form of [`written`](crate::ToolCall::written); known once
    /// asked.
    pub(crate) writes_calls: OnceLock<bool>,
}

impl Source {
    /// Reads a template.
    ///
    /// # Errors
    /// [`TextError::TemplateSyntax`] with the line, if it is no valid Jinja.
    pub(crate) fn new(text: &str) -> Result<Self, TextError> {
        let plain = understood(without_generation_tags(&newlines(text)));
        compile(&plain).map_err(|error| TextError::TemplateSyntax {
            line: error.line().unwrap_or(0),
            reason: match is_of_go(text) {
                true => "it is a Go template, as Ollama has them, and no Jinja".to_owned(),
                false => reason(&error),
            },
        })?;
        Ok(Self {
            text: text.to_owned(),
            plain,
            parts: false,
            writes_calls: OnceLock::new(),
        })
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Source::new`].
    pub(crate) fn compiled(&self) -> Result<Compiled<'_>, TextError> {
        compile(&self.plain).map_err(|error| failure(&error))
    }
}

pub(crate) type Compiled<'a> = (Instructions<'a>, BTreeMap<&'a str, Instructions<'a>>);

/// Compiles a template with a meter on everything that can grow.
fn compile(source: &str) -> Result<Compiled<'_>, Error> {
    let tree = metered(&parse(source, NAME, syntax())?);
    let mut code = CodeGenerator::new(NAME, source);
    code.compile_stmt(&tree);
    Ok(code.finish())
}

/// Removal of line breaks and spaces around blocks, as in transformers.
fn syntax() -> SyntaxConfig {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    // Only delimiters can be refused, and these are Jinja's own.
    syntax.build().unwrap_or_default()
}

/// Ends all lines alike, as Jinja does.
fn newlines(source: &str) -> String {
    source.replace("\r\n", "\n").replace('\r', "\n")
}

/// Replaces transformers' `{% generation %}` blocks, which mark an assistant's text for training,
/// by blocks that are always taken.
fn without_generation_tags(source: &str) -> String {
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, behind)) = rest.split_once("{%") {
        let Some((tag, after)) = behind.split_once("%}") else {
            break;
        };
        let word = tag
            .trim_matches(|letter: char| letter == '-' || letter == '+' || letter.is_whitespace());
        plain.push_str(before);
        plain.push_str("{%");
        match word {
            "generation" => plain.push_str(&tag.replace(word, "if true")),
            "endgeneration" => plain.push_str(&tag.replace(word, "endif")),
            _ => plain.push_str(tag),
        }
        plain.push_str("%}");
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// Returns whether an invalid template is a Go template, whose fields begin with a dot.
fn is_of_go(source: &str) -> bool {
    let tags = source.split("{{").skip(1);
    tags.into_iter().any(|tag| {
        let tag = tag.trim_start_matches('-').trim_start();
        let word = tag
            .strip_prefix("if ")
            .or_else(|| tag.strip_prefix("range "));
        word.unwrap_or(tag).trim_start().starts_with(['.', '$'])
    })
}

fn reason(error: &Error) -> String {
    error.detail().map_or_else(
        || error.kind().to_string(),
        |detail| format!("{}: {detail}", error.kind()),
    )
}

/// Maps the interpreter's error to ours by its root cause.
pub(crate) fn failure(error: &Error) -> TextError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Refusal(message)) = current.downcast_ref() {
            return TextError::TemplateRefused {
                message: message.clone(),
            };
        }
        let kind = current.downcast_ref::<Error>().map(Error::kind);
        if kind == Some(ErrorKind::OutOfFuel) {
            return TextError::TemplateEndless;
        }
        cause = current.source();
    }
    let (line, reason) = (error.line().unwrap_or(0), reason(error));
    match error.kind() {
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
            TextError::TemplateSyntax { line, reason }
        }
        _ => TextError::TemplateFailed { line, reason },
    }
}
