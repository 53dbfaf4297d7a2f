//! Faults of a GGUF file or of a block of weights.

use crate::Format;

/// A fault in a GGUF file. Every variant names its key or tensor.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GgufError {
    /// The bytes given end inside the header. Not a fault while a file streams in: read up to
    /// `at_least` bytes from the start of the file and parse again. A file shorter than `at_least`
    /// is truncated or damaged.
    #[error(
        "the header goes on beyond the bytes given, in {reading}: at least {at_least} bytes are \
         needed; if the file is shorter than that it is truncated, download it again"
    )]
    NeedMore {
        /// Bytes from the start of the file that the next attempt needs. Up to `u64::MAX` when a
        /// length in the file is absurd.
        at_least: u64,
        /// The part of the header that was being read.
        reading: String,
    },
    /// A file that ends before the data that its header lists.
    #[error(
        "the file is truncated: {what} needs {needed} bytes, the file has {length}; download it \
        again"
    )]
    Truncated {
        /// The tensor or key cut off.
        what: String,
        /// Bytes the file must have for it.
        needed: u64,
        /// Bytes the file has.
        length: u64,
    },
    /// A file whose first four bytes are not `GGUF`.
    #[error(
        "not a GGUF file: it starts with bytes {found:02x?}, not with \"GGUF\"; choose a .gguf file"
    )]
    Magic {
        /// The first four bytes of the file.
        found: [u8; 4],
    },
    /// A version of the format other than 2 and 3.
    #[error(
        "GGUF version {version} cannot be read, only 2 and 3 (little-endian); convert the model \
        anew"
    )]
    Version {
        /// The version the file claims.
        version: u32,
    },
    /// A file of a big-endian machine.
    #[error(
        "the file is big-endian, which cannot be read; choose one that is little-endian, as most \
        are, or convert the model anew"
    )]
    BigEndian,
    /// A string that is not UTF-8.
    #[error("{what} is not valid UTF-8; the file is damaged, download it again")]
    Utf8 {
        /// The key, tensor or value the string belongs to.
        what: String,
    },
    /// Two metadata entries with one key.
    #[error("metadata key `{key}` occurs twice; the file is damaged or was built wrongly")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// Two tensors of one name.
    #[error("tensor `{tensor}` occurs twice; the file is damaged or was built wrongly")]
    DuplicateTensor {
        /// The tensor's name.
        tensor: String,
    },
    /// A metadata value type outside the specification.
    #[error(
        "metadata key `{key}` has the unknown value type {type_id}; the file is damaged or newer \
        than this reader"
    )]
    UnknownValueType {
        /// The key.
        key: String,
        /// The type number in the file.
        type_id: u32,
    },
    /// Arrays nested deeper than in any known file.
    #[error("metadata key `{key}` nests arrays more than {limit} deep; the file is damaged")]
    TooDeep {
        /// The key.
        key: String,
        /// Number of levels allowed.
        limit: usize,
    },
    /// A boolean that is neither 0 nor 1.
    #[error(
        "metadata key `{key}` holds the byte {byte} where a boolean (0 or 1) belongs; the file is \
        damaged"
    )]
    Boolean {
        /// The key.
        key: String,
        /// The byte found.
        byte: u8,
    },
    /// A key that the caller requires is missing.
    #[error(
        "metadata key `{key}` is missing; the model file was not made for this kind of model, \
        convert it anew"
    )]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A value of another type, or a number out of range.
    #[error("metadata key `{key}` is {found}, wanted {wanted}; convert the model anew")]
    WrongType {
        /// The key.
        key: String,
        /// The type requested.
        wanted: &'static str,
        /// The type found.
        found: String,
    },
    /// A `general.alignment` that is no power of two.
    #[error(
        "metadata key `general.alignment` is {alignment}, which is no power of two; the file is \
        damaged"
    )]
    Alignment {
        /// The value in the file.
        alignment: u32,
    },
    /// An unknown or unsupported element format.
    #[error(
        "tensor `{tensor}` has ggml type {type_id} ({type_name}), which cannot be read; \
         choose a file quantised as one of {known}"
    )]
    UnknownFormat {
        /// The tensor's name.
        tensor: String,
        /// ggml's number of the type.
        type_id: u32,
        /// ggml's name of the type, `unknown` for numbers that ggml lacks.
        type_name: &'static str,
        /// The formats that can be read.
        known: String,
    },
    /// Impossible dimensions. A tensor has none to four, each at least one. Its number of bytes
    /// fits 64 bits, and the first dimension is a multiple of the format's block.
    #[error("tensor `{tensor}` has the impossible shape {shape:?} ({reason}); the file is damaged")]
    Shape {
        /// The tensor's name.
        tensor: String,
        /// The dimensions in file order.
        shape: Vec<u64>,
        /// The broken rule.
        reason: &'static str,
    },
    /// A tensor's data does not begin at a multiple of the file's alignment.
    #[error(
        "tensor `{tensor}` begins at offset {offset}, no multiple of the alignment {alignment}; \
        the file is damaged"
    )]
    Misaligned {
        /// The tensor's name.
        tensor: String,
        /// Its offset within the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors `{tensor}` and `{other}` overlap; the file is damaged")]
    Overlap {
        /// The tensor that begins later.
        tensor: String,
        /// The tensor it runs into.
        other: String,
    },
    /// A tensor's offset does not fit 64 bits.
    #[error("tensor `{tensor}` lies at offset {offset}, beyond any file; the file is damaged")]
    Offset {
        /// The tensor's name.
        tensor: String,
        /// Its offset within the data section.
        offset: u64,
    },
}

/// A fault in a conversion between blocks and numbers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BlockError {
    /// A number of bytes that does not match the number of elements.
    #[error(
        "{format} data of {bytes} bytes does not hold exactly {elements} elements; pass whole \
        blocks"
    )]
    Length {
        /// The format.
        format: Format,
        /// Bytes given.
        bytes: usize,
        /// Number of elements given.
        elements: usize,
    },
    /// A format that is read but never written.
    #[error("numbers cannot be written as {format}; choose one of F32, F16, BF16, Q8_0 and Q4_0")]
    NoWriter {
        /// The format.
        format: Format,
    },
    /// A number that the format cannot hold: NaN, infinite, or too large for its f16 parts.
    #[error(
        "element {index} ({value}) cannot be written as {format}; the weights are broken or need \
        F32"
    )]
    Value {
        /// The format.
        format: Format,
        /// Index of the element.
        index: usize,
        /// The element.
        value: f32,
    },
}
