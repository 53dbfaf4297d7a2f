//! The key–value part of a GGUF header, every value type of the specification, with accessors
//! that check the type and name the key when it does not fit.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::GgufError;
use crate::cursor::Cursor;

/// Arrays within arrays are allowed by the specification but used by no known writer.
const DEEPEST_ARRAY: usize = 4;

/// Bytes of the shortest possible entry: an empty key, a type and a one-byte value.
const SHORTEST_ENTRY: u64 = 8 + 4 + 1;

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "the variants are the specification's type names"
)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

/// A metadata array; all elements have one type.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "the variants are the specification's type names"
)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Strings(Strings),
    Arrays(Vec<Array>),
}

/// An array of strings in one allocation: vocabularies have up to 262,144 of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl Strings {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.text.get(start..end)
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let string = &self.text[start..end];
            start = end;
            string
        })
    }

    /// Appends a string.
    pub fn push(&mut self, string: &str) {
        self.text.push_str(string);
        self.ends.push(self.text.len());
    }
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut all = Self::default();
        strings
            .into_iter()
            .for_each(|string| all.push(string.as_ref()));
        all
    }
}

/// The metadata of a file: keys in alphabetical order, each with its value.
///
/// Numbers are found by value, not by width: writers differ in the integer type they choose, so
/// `u32` accepts every integer type as long as the value fits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metadata {
    entries: BTreeMap<String, Value>,
}

macro_rules! scalar_accessors {
    ($($required:ident, $optional:ident, $type:ty, $wanted:literal, $read:expr;)*) => {$(
        #[doc = concat!("The value of `key` as ", $wanted, "; a missing key is an error.")]
        pub fn $required(&self, key: &str) -> Result<$type, GgufError> {
            self.$optional(key)?.ok_or_else(|| GgufError::MissingKey { key: key.to_owned() })
        }

        #[doc = concat!("The value of `key` as ", $wanted, ", or `None` where the key is missing.")]
        pub fn $optional(&self, key: &str) -> Result<Option<$type>, GgufError> {
            let read: fn(&Value) -> Option<$type> = $read;
            self.read(key, $wanted, read)
        }
    )*};
}

impl Metadata {
    scalar_accessors! {
        u32, opt_u32, u32, "an unsigned 32-bit integer", |value| value.integer()?.try_into().ok();
        u64, opt_u64, u64, "an unsigned 64-bit integer", |value| value.integer()?.try_into().ok();
        i64, opt_i64, i64, "a signed 64-bit integer", |value| value.integer()?.try_into().ok();
        bool, opt_bool, bool, "a boolean", |value| match value { Value::Bool(bool) => Some(*bool), _ => None };
        f32, opt_f32, f32, "a number", Value::number;
    }

    /// The string at `key`; a missing key is an error.
    pub fn str(&self, key: &str) -> Result<&str, GgufError> {
        self.opt_str(key)?.ok_or_else(|| GgufError::MissingKey {
            key: key.to_owned(),
        })
    }

    /// The string at `key`, or `None` where the key is missing.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.read(key, "a string", |value| match value {
            Value::String(string) => Some(string.as_str()),
            _ => None,
        })
    }

    /// The array of strings at `key`; a missing key is an error.
    pub fn strings(&self, key: &str) -> Result<&Strings, GgufError> {
        self.opt_strings(key)?.ok_or_else(|| GgufError::MissingKey {
            key: key.to_owned(),
        })
    }

    /// The array of strings at `key`, or `None` where the key is missing.
    pub fn opt_strings(&self, key: &str) -> Result<Option<&Strings>, GgufError> {
        self.read(key, "an array of strings", |value| match value {
            Value::Array(Array::Strings(strings)) => Some(strings),
            _ => None,
        })
    }

    /// The array of 32-bit floats at `key`, or `None` where the key is missing.
    pub fn opt_f32s(&self, key: &str) -> Result<Option<&[f32]>, GgufError> {
        self.read(key, "an array of 32-bit floats", |value| match value {
            Value::Array(Array::F32(numbers)) => Some(numbers.as_slice()),
            _ => None,
        })
    }

    /// The array of integers at `key` as `i32`, or `None` where the key is missing.
    pub fn opt_i32s(&self, key: &str) -> Result<Option<Cow<'_, [i32]>>, GgufError> {
        self.read(key, "an array of 32-bit integers", |value| match value {
            Value::Array(Array::I32(numbers)) => Some(Cow::Borrowed(numbers.as_slice())),
            Value::Array(array) => array.integers().map(Cow::Owned),
            _ => None,
        })
    }

    /// The array of integers at `key` as `u32`, or `None` where the key is missing.
    pub fn opt_u32s(&self, key: &str) -> Result<Option<Cow<'_, [u32]>>, GgufError> {
        self.read(
            key,
            "an array of unsigned 32-bit integers",
            |value| match value {
                Value::Array(Array::U32(numbers)) => Some(Cow::Borrowed(numbers.as_slice())),
                Value::Array(array) => array.integers().map(Cow::Owned),
                _ => None,
            },
        )
    }

    /// The array of booleans at `key`, or `None` where the key is missing.
    pub fn opt_bools(&self, key: &str) -> Result<Option<&[bool]>, GgufError> {
        self.read(key, "an array of booleans", |value| match value {
            Value::Array(Array::Bool(flags)) => Some(flags.as_slice()),
            _ => None,
        })
    }

    /// The value of `key`, whatever its type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// Sets `key`, for metadata that does not come from a GGUF file (and for tests).
    pub fn set(&mut self, key: &str, value: Value) {
        self.entries.insert(key.to_owned(), value);
    }

    /// All keys with their values, alphabetically.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
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
        cursor.expect_items(count, SHORTEST_ENTRY)?;
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

impl Value {
    fn parse(cursor: &mut Cursor<'_>, key: &str, type_id: u32) -> Result<Self, GgufError> {
        Ok(match type_id {
            0 => Self::U8(cursor.u8()?),
            1 => Self::I8(cursor.i8()?),
            2 => Self::U16(cursor.u16()?),
            3 => Self::I16(cursor.i16()?),
            4 => Self::U32(cursor.u32()?),
            5 => Self::I32(cursor.i32()?),
            6 => Self::F32(cursor.f32()?),
            7 => Self::Bool(boolean(cursor.u8()?, key)?),
            8 => Self::String(cursor.string()?.to_owned()),
            9 => Self::Array(Array::parse(cursor, key, 1)?),
            10 => Self::U64(cursor.u64()?),
            11 => Self::I64(cursor.i64()?),
            12 => Self::F64(cursor.f64()?),
            type_id => {
                return Err(GgufError::UnknownValueType {
                    key: key.to_owned(),
                    type_id,
                });
            }
        })
    }

    /// The value as an integer, whatever its width.
    fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(number) => number.into(),
            Self::I8(number) => number.into(),
            Self::U16(number) => number.into(),
            Self::I16(number) => number.into(),
            Self::U32(number) => number.into(),
            Self::I32(number) => number.into(),
            Self::U64(number) => number.into(),
            Self::I64(number) => number.into(),
            _ => return None,
        })
    }

    /// The value as a 32-bit float; integers count where a writer left out the decimal point.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "rounding to f32 is what is asked for"
    )]
    fn number(&self) -> Option<f32> {
        match *self {
            Self::F32(number) => Some(number),
            Self::F64(number) => Some(number as f32),
            _ => self.integer().map(|number| number as f32),
        }
    }

    /// Type and, where short, value, for messages.
    fn describe(&self) -> String {
        match self {
            Self::String(string) => {
                let start: String = string.chars().take(40).collect();
                format!("the string {start:?}")
            }
            Self::Array(array) => format!("an array of {} {}", array.len(), array.kind()),
            Self::Bool(flag) => format!("the boolean {flag}"),
            Self::F32(number) => format!("the number {number}"),
            Self::F64(number) => format!("the number {number}"),
            integer => format!("the integer {}", integer.integer().unwrap_or_default()),
        }
    }
}

impl Array {
    fn parse(cursor: &mut Cursor<'_>, key: &str, depth: usize) -> Result<Self, GgufError> {
        if depth > DEEPEST_ARRAY {
            return Err(GgufError::TooDeep {
                key: key.to_owned(),
                limit: DEEPEST_ARRAY,
            });
        }
        let type_id = cursor.u32()?;
        let count = cursor.u64()?;
        Ok(match type_id {
            0 => Self::U8(cursor.take(count)?.to_vec()),
            1 => Self::I8(items(cursor, count, 1, Cursor::i8)?),
            2 => Self::U16(items(cursor, count, 2, Cursor::u16)?),
            3 => Self::I16(items(cursor, count, 2, Cursor::i16)?),
            4 => Self::U32(items(cursor, count, 4, Cursor::u32)?),
            5 => Self::I32(items(cursor, count, 4, Cursor::i32)?),
            6 => Self::F32(items(cursor, count, 4, Cursor::f32)?),
            7 => Self::Bool(items(cursor, count, 1, |cursor| {
                boolean(cursor.u8()?, key)
            })?),
            8 => {
                let count = cursor.expect_items(count, 8)?;
                let mut strings = Strings {
                    text: String::new(),
                    ends: Vec::with_capacity(count),
                };
                for _ in 0..count {
                    strings.push(cursor.string()?);
                }
                Self::Strings(strings)
            }
            9 => Self::Arrays(items(cursor, count, 12, |cursor| {
                Self::parse(cursor, key, depth + 1)
            })?),
            10 => Self::U64(items(cursor, count, 8, Cursor::u64)?),
            11 => Self::I64(items(cursor, count, 8, Cursor::i64)?),
            12 => Self::F64(items(cursor, count, 8, Cursor::f64)?),
            type_id => {
                return Err(GgufError::UnknownValueType {
                    key: key.to_owned(),
                    type_id,
                });
            }
        })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(items) => items.len(),
            Self::I8(items) => items.len(),
            Self::U16(items) => items.len(),
            Self::I16(items) => items.len(),
            Self::U32(items) => items.len(),
            Self::I32(items) => items.len(),
            Self::U64(items) => items.len(),
            Self::I64(items) => items.len(),
            Self::F32(items) => items.len(),
            Self::F64(items) => items.len(),
            Self::Bool(items) => items.len(),
            Self::Strings(items) => items.len(),
            Self::Arrays(items) => items.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type's name, in the plural.
    fn kind(&self) -> &'static str {
        match self {
            Self::U8(_) | Self::I8(_) | Self::U16(_) | Self::I16(_) => "integers",
            Self::U32(_) | Self::I32(_) | Self::U64(_) | Self::I64(_) => "integers",
            Self::F32(_) | Self::F64(_) => "numbers",
            Self::Bool(_) => "booleans",
            Self::Strings(_) => "strings",
            Self::Arrays(_) => "arrays",
        }
    }

    /// The elements as one integer type, if they are integers and all fit.
    fn integers<T: TryFrom<i128>>(&self) -> Option<Vec<T>> {
        fn all<S: Copy + Into<i128>, T: TryFrom<i128>>(items: &[S]) -> Option<Vec<T>> {
            items
                .iter()
                .map(|&item| T::try_from(item.into()).ok())
                .collect()
        }
        match self {
            Self::U8(items) => all(items),
            Self::I8(items) => all(items),
            Self::U16(items) => all(items),
            Self::I16(items) => all(items),
            Self::U32(items) => all(items),
            Self::I32(items) => all(items),
            Self::U64(items) => all(items),
            Self::I64(items) => all(items),
            _ => None,
        }
    }
}

/// Reads `count` items of at least `size` bytes; memory is reserved only once they are known to
/// be there.
fn items<'a, T>(
    cursor: &mut Cursor<'a>,
    count: u64,
    size: u64,
    mut read: impl FnMut(&mut Cursor<'a>) -> Result<T, GgufError>,
) -> Result<Vec<T>, GgufError> {
    let count = cursor.expect_items(count, size)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(read(cursor)?);
    }
    Ok(items)
}

fn boolean(byte: u8, key: &str) -> Result<bool, GgufError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        byte => Err(GgufError::Boolean {
            key: key.to_owned(),
            byte,
        }),
    }
}
