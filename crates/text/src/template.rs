//! Chat templates: the Jinja source in `tokenizer.chat_template`, rendered like transformers'
//! `apply_chat_template`.
//!
//! A template comes with the model file and is not trusted: steps, recursion, output and memory are
//! limited ([`crate::metered`]), and it sees only the messages. A *message* is not trusted either:
//! the text of a control token in it is marked before rendering, so that the tokenizer can
//! distinguish it from the template's own.

use conclave_weights::{Description, HuggingFace, Metadata};
use minijinja::machinery::{eval, make_string_output};
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};

use crate::fallback;
use crate::hugging_face::named_tokens;
use crate::marks::Marks;
use crate::prompt::alternating;
use crate::template_files;
use crate::template_functions;
use crate::template_source::{Source, failure};
use crate::tools::{are_used, cut_written_out, written_out};
use crate::{Message, Prompt, TextError, Tokenizer, Tool, ToolCall};

/// Maximum steps of the interpreter. The longest template in use (Llama 3.1's) takes some hundred
/// per message.
const STEPS: u64 = 2_000_000;

/// Maximum nesting of macros; a level takes about a kilobyte of the interpreter's stack.
const RECURSION: usize = 64;

/// Maximum bytes of a prompt beyond ten times the messages.
const OUTPUT: usize = 1 << 20;

/// Question whose text shows that a template asks it; filters change no digits.
const PROBE: &str = "2079461853";

/// A model's chat template, ready to render.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Tokens that templates refer to by name: `bos_token`, `eos_token` …
    tokens: Vec<(String, String)>,
    thinking: Option<bool>,
    /// Value of `preserve_thinking`.
    preserved: Option<bool>,
    tools: Vec<Tool>,
    own: bool,
    /// Its output is the whole prompt.
    whole: bool,
    /// Finder of control tokens, shared with the tokenizer.
    controls: std::sync::Arc<crate::controls::Finder>,
    source: Source,
    /// The model's other template for conversations with tools, if it writes calls.
    for_tools: Option<Source>,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("source", &self.source.text)
            .finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// The template in `tokenizer.chat_template`; a fallback if the file has none, or a blank one.
    ///
    /// # Errors
    /// [`TextError::TemplateSyntax`] with the line, if it is no valid Jinja, or can't render a
    /// question because it uses an unknown filter, test or function.
    pub fn from_gguf(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Self, TextError> {
        let own = template_files::in_metadata(metadata)?;
        let template = Self::new(own, gguf_tokens(tokenizer), false, tokenizer)?;
        Ok(template.with_tools(|| template_files::for_tools_in_metadata(metadata)))
    }

    /// The template of a Hugging Face folder: `chat_template.jinja`, else the one in
    /// `tokenizer_config.json`, else one elsewhere in the folder; of several the one named
    /// "default", else the first that is not for tools. Blank ones do not count. A fallback if
    /// there is none.
    ///
    /// # Errors
    /// As [`ChatTemplate::from_gguf`].
    pub fn from_hugging_face(
        files: &HuggingFace,
        tokenizer: &Tokenizer,
    ) -> Result<Self, TextError> {
        let own = template_files::in_folder(files);
        let template = Self::new(own, folder_tokens(files), own.is_some(), tokenizer)?;
        Ok(template.with_tools(|| template_files::for_tools_in_folder(files)))
    }

    /// Creates a template from a source that replaces the model's own; a fallback if it is blank.
    ///
    /// # Errors
    /// As [`ChatTemplate::from_gguf`].
    pub fn from_source(
        source: &str,
        description: &Description,
        tokenizer: &Tokenizer,
    ) -> Result<Self, TextError> {
        let own = template_files::filled(source);
        match description {
            Description::Gguf(_) => Self::new(own, gguf_tokens(tokenizer), false, tokenizer),
            Description::HuggingFace(files) => {
                Self::new(own, folder_tokens(files), own.is_some(), tokenizer)
            }
        }
    }

    /// The template of a model in any file format.
    ///
    /// # Errors
    /// As [`ChatTemplate::from_gguf`].
    pub fn from_checkpoint(
        description: &Description,
        tokenizer: &Tokenizer,
    ) -> Result<Self, TextError> {
        match description {
            Description::Gguf(metadata) => Self::from_gguf(metadata, tokenizer),
            Description::HuggingFace(files) => Self::from_hugging_face(files, tokenizer),
        }
    }

    fn new(
        own: Option<&str>,
        tokens: Vec<(String, String)>,
        whole: bool,
        tokenizer: &Tokenizer,
    ) -> Result<Self, TextError> {
        let source = Source::new(
            own.unwrap_or_else(|| match tokenizer.special("<|im_start|>") {
                Some(_) => fallback::CHATML,
                None => fallback::QUESTIONS,
            }),
        )?;
        let mut environment = Environment::new();
        // Jinja's options in transformers.
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_fuel(Some(STEPS));
        environment.set_recursion_limit(RECURSION);
        template_functions::add(&mut environment);
        let mut template = Self {
            environment,
            tokens,
            thinking: None,
            preserved: None,
            tools: Vec::new(),
            own: own.is_some(),
            whole,
            controls: tokenizer.control_finder(),
            source,
            for_tools: None,
        };
        template.source.parts = template.takes_parts(&template.source)?;
        Ok(template)
    }

    /// Takes over the model's template for conversations with tools, if there is one that can be
    /// rendered and writes calls.
    fn with_tools<'a>(mut self, found: impl FnOnce() -> Option<&'a str>) -> Self {
        // The page's engine, which is to be small, calls no functions.
        if cfg!(target_family = "wasm") {
            return self;
        }
        let source = found().filter(|text| *text != self.source.text);
        let source = source.and_then(|text| Source::new(text).ok());
        self.for_tools = source.and_then(|mut source| {
            source.parts = self.takes_parts(&source).ok()?;
            Some(source).filter(|source| self.writes_calls(source))
        });
        self
    }

    /// Whether it drops contents that are no lists of parts, as templates of models that also see
    /// images do: `[{"type": "text", "text": "Why?"}]`.
    ///
    /// # Errors
    /// [`TextError::TemplateSyntax`] if it can't render a question.
    fn takes_parts(&self, source: &Source) -> Result<bool, TextError> {
        let asked = [Message::new("user", PROBE)];
        let is_asked = |prompt: &Prompt| prompt.text().contains(PROBE);
        let plain = self.render_parts((source, false), &[], &asked, true);
        // One that refuses the question has read it.
        let decided = match &plain {
            Ok(prompt) => is_asked(prompt),
            Err(error) => matches!(
                error,
                TextError::TemplateEndless | TextError::TemplateRefused { .. }
            ),
        };
        if decided {
            return Ok(false);
        }
        match (self.render_parts((source, true), &[], &asked, true), plain) {
            (Ok(prompt), _) if is_asked(&prompt) => Ok(true),
            (_, Err(error @ TextError::TemplateSyntax { .. })) => Err(error),
            _ => Ok(false),
        }
    }

    /// Whether the model file has a template of its own.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Whether it is the fallback that asks questions after examples.
    pub(crate) fn asks_questions(&self) -> bool {
        !self.own && self.source.text == fallback::QUESTIONS
    }

    /// The template's source.
    pub fn source(&self) -> &str {
        &self.source.text
    }

    /// Fixes the local time of `strftime_now`, in seconds since 1970.
    pub fn set_time(&mut self, seconds: u64) {
        template_functions::add_clock(&mut self.environment, move || seconds);
    }

    /// Sets whether a model that can think aloud before it answers does so (`enable_thinking`, in
    /// Qwen 3, SmolLM 3 and others); with `None`, its template decides.
    pub fn set_thinking(&mut self, thinking: Option<bool>) {
        self.thinking = thinking;
    }

    /// Sets whether the thoughts in earlier answers are kept (`preserve_thinking`, in later Qwen
    /// and others); with `None`, its template decides.
    pub fn preserve_thinking(&mut self, preserved: Option<bool>) {
        self.preserved = preserved;
    }

    /// Sets the functions that answers to the next conversations may call.
    pub fn set_tools(&mut self, tools: &[Tool]) {
        tools.clone_into(&mut self.tools);
    }

    /// Renders a conversation; `add_generation_prompt` ends it with the opening of the assistant's
    /// answer.
    ///
    /// # Errors
    /// [`TextError::TemplateRefused`] if the template calls `raise_exception`,
    /// [`TextError::TemplateEndless`] if it exceeds its limits, [`TextError::TemplateSyntax`] if it
    /// uses an unknown filter, test or function, [`TextError::TemplateFailed`] otherwise.
    pub fn render(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Prompt, TextError> {
        self.render_with(&self.source, &[], messages, add_generation_prompt)
    }

    fn render_with(
        &self,
        source: &Source,
        tools: &[Tool],
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Prompt, TextError> {
        let source = (source, source.parts);
        self.render_parts(source, tools, messages, add_generation_prompt)
    }

    /// Renders with contents that are lists of parts, or texts.
    fn render_parts(
        &self,
        (source, parts): (&Source, bool),
        tools: &[Tool],
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Prompt, TextError> {
        let marks = Marks::new(tools, messages, &source.text);
        let mut replaced = Vec::new();
        let mut limit = OUTPUT;
        let mut mark = |text: &str| {
            let marked = marks.replace(text, &self.controls, &mut replaced);
            limit = limit.saturating_add(10 * marked.len());
            marked
        };
        let marked: Vec<_> = messages
            .iter()
            .map(|message| message.value(parts, &mut mark))
            .collect();
        let tools = match tools {
            [] => Value::from(()),
            _ => {
                let tools = tools.iter().map(|tool| tool.value(&mut mark));
                Value::from(tools.collect::<Vec<_>>())
            }
        };
        let mut context = vec![
            ("messages", Value::from(marked)),
            ("add_generation_prompt", Value::from(add_generation_prompt)),
            ("tools", tools),
            ("documents", Value::from(())),
        ];
        let tokens = self.tokens.iter();
        context.extend(tokens.map(|(name, text)| (name.as_str(), Value::from(text.as_str()))));
        if let Some(thinking) = self.thinking {
            context.push(("enable_thinking", Value::from(thinking)));
        }
        // Nothing sets it in the page, whose engine is to be small.
        if let Some(preserved) = self.preserved
            && cfg!(not(target_family = "wasm"))
        {
            context.push(("preserve_thinking", Value::from(preserved)));
        }
        let context = Value::from_pairs(context);
        let (instructions, blocks) = source.compiled()?;
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        eval(
            &self.environment,
            &instructions,
            context,
            &blocks,
            &mut output,
            AutoEscape::None,
        )
        .map_err(|error| failure(&error))?;
        if text.len() > limit {
            return Err(TextError::TemplateEndless);
        }
        Ok(marks.resolve(&text, &replaced, self.whole))
    }

    /// Renders a conversation as [`render`](Self::render) does, with the tools that are set, by the
    /// model's template for tools if it has one. A template that does not write calls as [`ToolCall::written`] does gets tools, calls and their
    /// results as text. If it refuses the conversation, or drops a system message or a question,
    /// joins consecutive messages of one role, then turns system messages into user messages.
    ///
    /// # Errors
    /// The template's error for the unchanged conversation; [`TextError::TemplateDrops`] if it
    /// drops a message in each of these ways; [`TextError::NoTools`] for tools and a model without
    /// a template.
    pub fn render_adapted(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Prompt, TextError> {
        if !are_used(&self.tools, messages) {
            return self.render_alternating(messages, add_generation_prompt);
        }
        if self.asks_questions() {
            return Err(TextError::NoTools);
        }
        let source = self.for_tools.as_ref().unwrap_or(&self.source);
        if self.writes_calls(source) {
            let messages = cut_written_out(messages);
            let prompt = self.render_with(source, &self.tools, &messages, add_generation_prompt);
            let wanted = Wanted::of_conversation(&messages);
            let prompt = prompt.and_then(|prompt| wanted.check(&prompt).map(|()| prompt));
            let names = |prompt: &Prompt| {
                let mut tools = self.tools.iter();
                tools.all(|tool| prompt.text().contains(tool.name.as_str()))
            };
            if prompt.as_ref().is_ok_and(names) {
                return prompt;
            }
        }
        let written = written_out(&self.tools, messages);
        self.render_alternating(&written, add_generation_prompt)
    }

    /// Whether it tells of tools, and writes calls in the form of [`ToolCall::written`].
    fn writes_calls(&self, source: &Source) -> bool {
        *source.writes_calls.get_or_init(|| {
            let call = ToolCall {
                id: "call12345".to_owned(),
                name: "probe".to_owned(),
                arguments: serde_json::json!({ "x": 1 }),
            };
            let tool = Tool {
                name: call.name.clone(),
                description: "Sends a probe".to_owned(),
                parameters: serde_json::json!({ "type": "object" }),
            };
            let told = tool.description.clone();
            let asked = Message::new("user", "Probe!");
            let mut answer = Message::new("assistant", "");
            answer.tool_calls.push(call.clone());
            let prompt = self.render_with(source, &[tool], &[asked, answer], false);
            prompt.is_ok_and(|prompt| {
                prompt.text().contains(&call.written()) && prompt.text().contains(&told)
            })
        })
    }

    fn render_alternating(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Prompt, TextError> {
        let wanted = Wanted::of_conversation(messages);
        let render = |turns: &[Message]| {
            let prompt = self.render(turns, add_generation_prompt)?;
            wanted.check(&prompt).map(|()| prompt)
        };
        let outcome = render(messages);
        if matches!(&outcome, Err(error) if *error != TextError::TemplateEndless) {
            for fold in [false, true] {
                let adapted = render(&alternating(messages, fold));
                if adapted.is_ok() {
                    return adapted;
                }
            }
        }
        outcome
    }
}

/// Texts of a conversation that a prompt has to have, each [`bare`]: its questions and its system
/// messages. Answers are not compared: templates cut earlier thoughts.
struct Wanted {
    questions: Vec<String>,
    system: Vec<String>,
}

impl Wanted {
    fn of_conversation(messages: &[Message]) -> Self {
        let of = |roles: &[&str]| {
            let said = messages.iter();
            let said = said.filter(|message| roles.contains(&message.role.as_str()));
            said.map(|message| bare(&message.content)).collect()
        };
        Self {
            questions: of(&["user"]),
            system: of(&["system", "developer"]),
        }
    }

    /// Rejects a prompt whose template has dropped one of them. Takes linear time: each search
    /// begins after the last text found, and the first failed search ends it. Templates may write
    /// system messages elsewhere, so that they are searched apart.
    fn check(&self, prompt: &Prompt) -> Result<(), TextError> {
        let text = bare(prompt.text());
        for (wanted, part) in [
            (&self.questions, "the question"),
            (&self.system, "the system message"),
        ] {
            let mut rest = text.as_str();
            for content in wanted {
                let Some(at) = rest.find(content.as_str()) else {
                    return Err(TextError::TemplateDrops { part });
                };
                rest = &rest[at + content.len()..];
            }
        }
        Ok(())
    }
}

/// A text without white space and ASCII's marks, as it is in JSON, too. Templates trim, escape, and
/// cut what only switches thinking.
fn bare(text: &str) -> String {
    let text = text.trim().replace("/no_think", "").replace("/think", "");
    let mut bytes = text.into_bytes();
    let mut escaped = false;
    bytes.retain(|&byte| {
        let kept = !byte.is_ascii() || byte.is_ascii_alphanumeric() && !escaped;
        escaped = byte == b'\\' && !escaped;
        kept
    });
    // Whole characters are left, so that it is as valid as before.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns the named tokens of a GGUF file's template.
fn gguf_tokens(tokenizer: &Tokenizer) -> Vec<(String, String)> {
    let named = [
        ("bos_token", tokenizer.bos()),
        ("eos_token", tokenizer.eos()),
    ];
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
    let named = named.map(|(name, id)| (name.to_owned(), text(id).to_owned()));
    named.into()
}

/// Returns the named tokens of a folder's template.
fn folder_tokens(files: &HuggingFace) -> Vec<(String, String)> {
    let named = files.tokenizer_config.as_ref().map(named_tokens);
    let named = named.unwrap_or_default().into_iter();
    named.map(|(name, text)| (name.to_owned(), text)).collect()
}
