//! Answers in a form: the schema that `--json-schema` names.

use std::path::Path;

use conclave_rounds::{Lexicon, check_schema};

use crate::failure::Failure;
use crate::members;

/// A schema, and what members' tokens show as.
#[derive(Debug)]
pub struct Form {
    schema: String,
    lexicons: Vec<Lexicon>,
}

impl Form {
    /// That of a schema in a file, for so many members.
    ///
    /// # Errors
    /// [`Failure::File`], and [`Failure::Schema`] where answers can't be held to it.
    pub fn read(path: &Path, members: usize) -> Result<Self, Failure> {
        let schema = String::from_utf8_lossy(&members::read(path)?).into_owned();
        check_schema(&schema).map_err(|source| Failure::Schema {
            path: path.to_owned(),
            source,
        })?;
        let mut lexicons = Vec::new();
        lexicons.resize_with(members, Lexicon::default);
        Ok(Self { schema, lexicons })
    }

    /// What holds all of these members to it.
    pub fn of_all(&self) -> conclave_rounds::Form<'_> {
        conclave_rounds::Form {
            schema: &self.schema,
            lexicons: &self.lexicons,
        }
    }
}
