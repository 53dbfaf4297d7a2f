//! Faults of a safetensors file.

/// A fault in a safetensors file, with its tensor where there is one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SafetensorsError {
    /// The file ends inside its header or its data.
    #[error("the file is truncated: {needed} bytes are needed, it has {length}; download it again")]
    Truncated {
        /// Bytes the file must have.
        needed: u64,
        /// Bytes the file has.
        length: u64,
    },
    /// A header longer than the format allows.
    #[error(
        "its header would take {bytes} bytes, more than the {limit} that safetensors allow; the \
        file is damaged or none of these"
    )]
    LongHeader {
        /// Length in the file.
        bytes: u64,
        /// Longest allowed.
        limit: u64,
    },
    /// A header that does not parse, or holds the wrong kind of value.
    #[error("its header is unsound: {reason}; the file is damaged, download it again")]
    Header {
        /// The fault and its position.
        reason: String,
    },
    /// Two tensors of the same name.
    #[error("tensor `{tensor}` occurs twice; the file is damaged or was built wrongly")]
    DuplicateTensor {
        /// The tensor's name.
        tensor: String,
    },
    /// Dimensions whose product overflows.
    #[error("tensor `{tensor}` has the impossible shape {shape:?}; the file is damaged")]
    Shape {
        /// The tensor's name.
        tensor: String,
        /// The dimensions in file order.
        shape: Vec<u64>,
    },
    /// An impossible byte range, or one whose length does not fit shape and dtype.
    #[error(
        "tensor `{tensor}` lies in bytes {start} to {end}, which is no place for {shape:?} \
        numbers of {dtype}; the file is damaged"
    )]
    Place {
        /// The tensor's name.
        tensor: String,
        /// The dimensions in file order.
        shape: Vec<u64>,
        /// The dtype as the file names it.
        dtype: String,
        /// First byte, from the start of the data.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors `{tensor}` and `{other}` overlap; the file is damaged")]
    Overlap {
        /// The tensor that begins later.
        tensor: String,
        /// The tensor that it runs into.
        other: String,
    },
    /// Bytes that belong to no tensor.
    #[error("bytes {start} to {end} of the data belong to no tensor; the file is damaged")]
    Hole {
        /// First byte, from the start of the data.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
}
