//! Answers in a form: constrains the members to JSON documents of a schema.

use std::cell::OnceCell;

use conclave_grammar::{Document, Vocabulary};
use conclave_member::{Constraint, Member, MemberError};

/// Spellings of a member's tokens, prepared for grammars. Built from all its tokens for the
/// member's first answer in a form, and reused as long as the member lives.
#[derive(Debug, Default)]
pub struct Lexicon(OnceCell<Vocabulary>);

/// Form of an answer: a JSON document of a schema.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// JSON text of the schema, which [`check_schema`](crate::check_schema) has accepted.
    pub schema: &'a str,
    /// One per member, in their order.
    pub lexicons: &'a [Lexicon],
}

/// Form for one of the members.
#[derive(Debug, Clone, Copy)]
pub struct FormOf<'a> {
    schema: &'a str,
    lexicon: Option<&'a Lexicon>,
}

impl<'a> Form<'a> {
    /// For the member of this index.
    pub(crate) fn for_member(&self, member: usize) -> FormOf<'a> {
        FormOf {
            schema: self.schema,
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
        let document = vocabulary.document(self.schema).map_err(failed)?;
        Ok(Box::new(Held(document)))
    }
}

struct Held(Document);

impl Constraint for Held {
    fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, String> {
        self.0.mask(drawn).map_err(|error| error.to_string())
    }

    fn accept(&mut self, text: &str) -> Result<(), String> {
        self.0.accept(text).map_err(|error| error.to_string())
    }
}
