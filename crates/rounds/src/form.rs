//! Answers in a form: constrains the members to JSON documents of a schema, or to calls of
//! functions.

use std::cell::OnceCell;

use conclave_grammar::{Calls, Document, Vocabulary};
use conclave_member::{Constraint, Member, MemberError};

/// Spellings of a member's tokens, prepared for grammars. Built from all its tokens for the
/// member's first answer in a form, and reused as long as the member lives.
#[derive(Debug, Default)]
pub struct Lexicon(OnceCell<Vocabulary>);

/// Texts that an answer may be.
#[derive(Debug, Clone, Copy)]
pub enum Shape<'a> {
    /// A JSON document of a schema (JSON text), which [`check_schema`](crate::check_schema) has
    /// accepted.
    Document(&'a str),
    /// Calls of functions, which [`Calls::check`] has accepted.
    Calls(&'a Calls),
}

/// Form of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// Texts that it may be.
    pub shape: Shape<'a>,
    /// One per member, in their order.
    pub lexicons: &'a [Lexicon],
}

/// Form for one of the members.
#[derive(Debug, Clone, Copy)]
pub struct FormOf<'a> {
    shape: Shape<'a>,
    lexicon: Option<&'a Lexicon>,
}

impl<'a> Form<'a> {
    /// For the member of this index.
    pub(crate) fn for_member(&self, member: usize) -> FormOf<'a> {
        FormOf {
            shape: self.shape,
            lexicon: self.lexicons.get(member),
        }
    }
}

impl FormOf<'_> {
    /// Constraint on the member's drafts in the next answer.
    ///
    /// # Errors
    /// [`MemberError::Constraint`] if the form can't constrain it.
    pub(crate) fn constraint(&self, member: &Member) -> Result<Box<dyn Constraint>, MemberError> {
        let fresh = Lexicon::default();
        let Lexicon(known) = self.lexicon.unwrap_or(&fresh);
        let failed =
            |error: conclave_grammar::GrammarError| MemberError::Constraint(error.to_string());
        let vocabulary = match known.get() {
            Some(vocabulary) => vocabulary,
            None => {
                let read = Vocabulary::read(&member.vocabulary()).map_err(failed)?;
                known.get_or_init(|| read)
            }
        };
        let (document, calls) = match self.shape {
            Shape::Document(schema) => (vocabulary.document(schema), None),
            Shape::Calls(calls) => (vocabulary.calls(calls), Some(calls.clone())),
        };
        Ok(Box::new(Held {
            document: document.map_err(failed)?,
            calls,
            accepted: String::new(),
        }))
    }
}

struct Held {
    document: Document,
    calls: Option<Calls>,
    accepted: String,
}

impl Constraint for Held {
    fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, String> {
        self.document.mask(drawn).map_err(|error| error.to_string())
    }

    fn is_free(&self) -> bool {
        let calls = self.calls.as_ref();
        calls.is_some_and(|calls| calls.is_text(&self.accepted))
    }

    fn accept(&mut self, text: &str) -> Result<(), String> {
        self.accepted.push_str(text);
        let accepted = self.document.accept(text);
        accepted.map_err(|error| error.to_string())
    }
}
