//! Answers constrained to the schema of `--json-schema`.

use std::path::Path;

use conclave_rounds::{Lexicon, check_schema};

use crate::failure::Failure;
use crate::members;

/// A schema, with the members' vocabularies.
#[derive(Debug)]
pub struct Form {
    schema: String,
    lexicons: Vec<Lexicon>,
}

impl Form {
    /// Reads the schema in a file, for `members` members.
    ///
    /// # Errors
    /// [`Failure::File`], and [`Failure::Schema`] if answers can't be constrained to it.
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

    /// Constraint of all these members.
    pub fn for_all(&self) -> conclave_rounds::Form<'_> {
        conclave_rounds::Form {
            shape: conclave_rounds::Shape::Document(&self.schema),
            lexicons: &self.lexicons,
        }
    }
}
