//! Answers in a form: what holds members to JSON documents of a schema.

use std::path::Path;

use conclave_grammar::{Document, GrammarError, Vocabulary, check};
use conclave_member::{Constraint, Member};

use crate::failure::Failure;
use crate::members;

/// A schema, and what members' tokens show as.
#[derive(Debug)]
pub struct Form {
    schema: String,
    vocabularies: Vec<Vocabulary>,
}

impl Form {
    /// That of a schema in a file, for these members.
    ///
    /// # Errors
    /// [`Failure::File`], and [`Failure::Schema`] where answers can't be held to it.
    pub fn read(path: &Path, members: &[Member]) -> Result<Self, Failure> {
        let failed = |source| Failure::Schema {
            path: path.to_owned(),
            source,
        };
        let schema = String::from_utf8_lossy(&members::read(path)?).into_owned();
        Self::new(schema, members).map_err(failed)
    }

    /// That of a schema, JSON text, for these members.
    ///
    /// # Errors
    /// Where answers can't be held to it.
    pub fn new(schema: String, members: &[Member]) -> Result<Self, GrammarError> {
        check(&schema)?;
        let vocabularies = members
            .iter()
            .map(|member| Vocabulary::read(&member.vocabulary()));
        Ok(Self {
            vocabularies: vocabularies.collect::<Result<_, _>>()?,
            schema,
        })
    }

    /// Holds the one answer that these members, the same as before, begin next.
    ///
    /// # Errors
    /// [`Failure::Of`] the member that can't be held to it.
    pub fn hold(&self, members: &mut [Member]) -> Result<(), Failure> {
        for (member, vocabulary) in members.iter_mut().zip(&self.vocabularies) {
            let document = vocabulary.document(&self.schema);
            let document = document.map_err(|error| Failure::Of {
                member: member.name().to_owned(),
                source: Box::new(conclave_member::MemberError::Constraint(error.to_string())),
            })?;
            member.constrain(Some(Box::new(Held(document))));
        }
        Ok(())
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
