//! Answers in a form: what holds the members to JSON documents of a schema.

use std::cell::OnceCell;

use conclave_grammar::{Document, Vocabulary};
use conclave_member::{Constraint, Member, MemberError};

/// What a member's tokens show as, ready for grammars. It is made for the member's first answer in
/// a form, from all its tokens, and serves as long as the member does.
#[derive(Debug, Default)]
pub struct Lexicon(OnceCell<Vocabulary>);

/// What an answer is held to: a JSON document of a schema.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// The schema, JSON text that [`check_schema`](crate::check_schema) has let pass.
    pub schema: &'a str,
    /// One of each member that is asked, in their order.
    pub lexicons: &'a [Lexicon],
}

/// The same for one of the members.
#[derive(Debug, Clone, Copy)]
pub struct FormOf<'a> {
    schema: &'a str,
    lexicon: Option<&'a Lexicon>,
}

impl<'a> Form<'a> {
    /// For the member of this index.
    pub(crate) fn of(&self, member: usize) -> FormOf<'a> {
        FormOf {
            schema: self.schema,
            lexicon: self.lexicons.get(member),
        }
    }
}

impl FormOf<'_> {
    /// What holds a member's drafts to it, for the one answer that begins next.
    ///
    /// # Errors
    /// [`MemberError::Constraint`] where it can't be held to it.
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
