//! The key–value part of a GGUF header, with accessors that check a value's type and name the key
//! where it does not fit.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::cursor::Cursor;
use crate::{Array, GgufError, Strings, Value};

/// Bytes of the shortest possible entry: an empty key, a type and a one-byte value.
const MIN_ENTRY_BYTES: u64 = 8 + 4 + 1;

/// A file's metadata: keys in alphabetical order, each with its value.
///
/// Integers are matched by value, not by width: writers differ in the integer type they choose, so
/// `u32` accepts every integer type as long as the value fits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metadata {
    entries: BTreeMap<String, Value>,
}

macro_rules! scalar_accessors {
    ($($optional:ident, $type:ty, $wanted:literal, $read:expr;)*) => {$(
        #[doc = concat!("The value of `key` as ", $wanted, ", or `None` where the key is missing.")]
        pub fn $optional(&self, key: &str) -> Result<Option<$type>, GgufError> {
            let read: fn(&Value) -> Option<$type> = $read;
            self.read(key, $wanted, read)
        }
    )*};
}

impl Metadata {
    scalar_accessors! {
        opt_u32, u32, "an unsigned 32-bit integer", |value| value.integer()?.try_into().ok();
        opt_u64, u64, "an unsigned 64-bit integer", |value| value.integer()?.try_into().ok();
        opt_bool, bool, "a boolean", |value| match value {
            Value::Bool(bool) => Some(*bool),
            _ => None,
        };
        opt_f32, f32, "a number", Value::number;
    }

    /// The string at `key`; a missing key is an error.
    pub fn str(&self, key: &str) -> Result<&str, GgufError> {
        self.opt_str(key)?.ok_or_else(|| missing(key))
    }

    /// The string at `key`; `None` if absent.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.read(key, "a string", |value| match value {
            Value::String(string) => Some(string.as_str()),
            _ => None,
        })
    }

    /// The array of strings at `key`; a missing key is an error.
    pub fn strings(&self, key: &str) -> Result<&Strings, GgufError> {
        let strings = self.read(key, "an array of strings", |value| match value {
            Value::Array(Array::Strings(strings)) => Some(strings),
            _ => None,
        })?;
        strings.ok_or_else(|| missing(key))
    }

    /// The array of 32-bit floats at `key`; a missing key is an error.
    pub fn f32s(&self, key: &str) -> Result<&[f32], GgufError> {
        let numbers = self.read(key, "an array of 32-bit floats", |value| match value {
            Value::Array(Array::F32(numbers)) => Some(numbers.as_slice()),
            _ => None,
        })?;
        numbers.ok_or_else(|| missing(key))
    }

    /// The integers at `key` as `i32`; `None` if absent.
    pub fn opt_i32s(&self, key: &str) -> Result<Option<Cow<'_, [i32]>>, GgufError> {
        self.read(key, "an array of 32-bit integers", |value| match value {
            Value::Array(Array::I32(numbers)) => Some(Cow::Borrowed(numbers.as_slice())),
            Value::Array(array) => array.integers().map(Cow::Owned),
            _ => None,
        })
    }

    /// The value of `key`, whatever its type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// Sets `key`, for metadata from other sources than GGUF files (and for tests).
    pub fn set(&mut self, key: &str, value: Value) {
        self.entries.insert(key.to_owned(), value);
    }

    /// All keys with their values, alphabetically.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
    }

    fn read<'a, T>(
        &'a self,
        key: &str,
        wanted: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.entries.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(found) => Ok(Some(found)),
            None => Err(GgufError::WrongType {
                key: key.to_owned(),
                wanted,
                found: value.describe(),
            }),
        }
    }

    /// Reads `count` entries.
    pub(crate) fn parse(cursor: &mut Cursor<'_>, count: u64) -> Result<Self, GgufError> {
        cursor.enter("the metadata".to_owned());
        cursor.expect_items(count, MIN_ENTRY_BYTES)?;
        let mut entries = BTreeMap::new();
        for index in 0..count {
            cursor.enter(format!("the key of metadata entry {index}"));
            let key = cursor.string()?;
            cursor.enter(format!("metadata key `{key}`"));
            let type_id = cursor.u32()?;
            let value = Value::parse(cursor, key, type_id)?;
            if entries.insert(key.to_owned(), value).is_some() {
                return Err(GgufError::DuplicateKey {
                    key: key.to_owned(),
                });
            }
        }
        Ok(Self { entries })
    }
}

fn missing(key: &str) -> GgufError {
    GgufError::MissingKey {
        key: key.to_owned(),
    }
}
