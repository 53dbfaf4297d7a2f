//! Metadata values: every type of the specification, read with limits on memory and stack.

use crate::GgufError;
use crate::cursor::Cursor;

/// Deepest nesting of arrays; the specification allows nesting, no known writer uses it.
const MAX_ARRAY_DEPTH: usize = 4;

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
    Arrays(Vec<Self>),
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

    /// The string at `index`.
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

impl Value {
    pub(crate) fn parse(
        cursor: &mut Cursor<'_>,
        key: &str,
        type_id: u32,
    ) -> Result<Self, GgufError> {
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

    /// The value as an integer of any width.
    pub(crate) fn integer(&self) -> Option<i128> {
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

    /// The value as a 32-bit float; accepts integers, since some writers omit the decimal point.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "rounding to f32 is what is asked for"
    )]
    pub(crate) fn number(&self) -> Option<f32> {
        match *self {
            Self::F32(number) => Some(number),
            Self::F64(number) => Some(number as f32),
            _ => self.integer().map(|number| number as f32),
        }
    }

    /// Type and, where short, value, for messages.
    pub(crate) fn describe(&self) -> String {
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
        if depth > MAX_ARRAY_DEPTH {
            return Err(GgufError::TooDeep {
                key: key.to_owned(),
                limit: MAX_ARRAY_DEPTH,
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
    fn len(&self) -> usize {
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

    /// The elements as `i32`, if they are integers and all fit.
    pub(crate) fn integers(&self) -> Option<Vec<i32>> {
        fn all<S: Copy + TryInto<i32>>(items: &[S]) -> Option<Vec<i32>> {
            items.iter().map(|&item| item.try_into().ok()).collect()
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

/// Reads `count` items of at least `size` bytes, after checking that the bytes are present.
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
