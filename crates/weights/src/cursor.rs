//! A bounds-checked little-endian reader over the bytes of a header that may be partial.

use crate::GgufError;

/// Reads forward through `bytes`. The end of the bytes is always [`GgufError::NeedMore`], with the
/// part being read (set by [`Cursor::enter`]) and the number of bytes needed.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    reading: String,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            reading: "the header".to_owned(),
        }
    }

    /// Bytes read so far. A slice never exceeds `isize::MAX`, so this fits `u64` everywhere.
    pub(crate) fn position(&self) -> u64 {
        self.at as u64
    }

    /// Names the following part, for errors.
    pub(crate) fn enter(&mut self, reading: String) {
        self.reading = reading;
    }

    /// Checks that `count` items of at least `size` bytes each fit the remaining bytes, and returns
    /// the count as an index. Call it before allocating for them, so that no count in a file takes
    /// more memory than its bytes justify.
    pub(crate) fn expect_items(&self, count: u64, size: u64) -> Result<usize, GgufError> {
        let wanted = count.saturating_mul(size);
        let left = (self.bytes.len() - self.at) as u64;
        match usize::try_from(count) {
            Ok(count) if wanted <= left => Ok(count),
            _ => Err(GgufError::NeedMore {
                at_least: self.position().saturating_add(wanted),
                reading: self.reading.clone(),
            }),
        }
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Result<&'a [u8], GgufError> {
        let length = self.expect_items(length, 1)?;
        let taken = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    /// A string: its length as `u64`, then its bytes, which must be UTF-8.
    pub(crate) fn string(&mut self) -> Result<&'a str, GgufError> {
        let length = self.u64()?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| GgufError::Utf8 {
            what: self.reading.clone(),
        })
    }
}

macro_rules! numbers {
    ($($name:ident),*) => {
        impl Cursor<'_> {$(
            pub(crate) fn $name(&mut self) -> Result<$name, GgufError> {
                self.array().map($name::from_le_bytes)
            }
        )*}
    };
}

numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);
