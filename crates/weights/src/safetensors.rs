//! The safetensors container: the length of a JSON header, the header with every tensor's dtype,
//! shape and byte range, and the data, without holes or overlaps. Written from the format's
//! description in `huggingface/safetensors`.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::no_model::{FORMAT_BYTES, refuse_format, refuse_stand_in};
use crate::safetensors_error::SafetensorsError;
use crate::{CheckpointError, Format, Source, SourceError, Tensor};

/// The format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Bytes before the header: its length.
const LENGTH_BYTES: u64 = 8;

/// A tensor that cannot be read as numbers: integers, 8-bit floats without their scales, packed
/// quants, or no elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The tensor's name.
    pub name: String,
    /// Its element type as the file names it, such as `F8_E5M2`.
    pub dtype: String,
    /// The fault in the scales of 8-bit floats that would otherwise be readable.
    pub problem: Option<String>,
    /// Its file: an index into [`Source::files`].
    pub file: usize,
    /// Number of bytes.
    pub bytes: u64,
}

/// The tensors of one file.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub tensors: Vec<Tensor>,
    pub unreadable: Vec<Unreadable>,
}

/// Reads the header of file `file`, and checks that every byte of the file belongs to exactly one
/// tensor.
pub(crate) async fn directory(
    source: &dyn Source,
    file: usize,
) -> Result<Directory, CheckpointError> {
    let files = source.files();
    let found = files.get(file).ok_or(SourceError::NoFile { file })?;
    let named = |error| CheckpointError::Safetensors {
        file: found.name.clone(),
        error,
    };
    let truncated = |needed| {
        named(SafetensorsError::Truncated {
            needed,
            length: found.bytes,
        })
    };
    let most = found.bytes.min(FORMAT_BYTES as u64);
    let mut start = vec![0; usize::try_from(most).unwrap_or_default()];
    source.read(file, 0, &mut start).await?;
    refuse_stand_in(&found.name, &start, true)?;
    // A length of a header may be another format's mark; the header itself is no other's.
    if start.get(LENGTH_BYTES as usize) != Some(&b'{') {
        refuse_format(&found.name, &start)?;
    }
    if found.bytes < LENGTH_BYTES {
        return Err(truncated(LENGTH_BYTES));
    }
    let mut length = [0; LENGTH_BYTES as usize];
    length.copy_from_slice(&start[..LENGTH_BYTES as usize]);
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        return Err(named(SafetensorsError::LongHeader {
            bytes: length,
            limit: MAX_HEADER_BYTES,
        }));
    }
    let data_start = LENGTH_BYTES + length;
    if data_start > found.bytes {
        return Err(truncated(data_start));
    }
    // At most MAX_HEADER_BYTES, which every machine can address, and within the file.
    let mut header = vec![0; usize::try_from(length).unwrap_or_default()];
    source.read(file, LENGTH_BYTES, &mut header).await?;
    let Header(entries) = serde_json::from_slice(&header).map_err(|error| {
        named(SafetensorsError::Header {
            reason: error.to_string(),
        })
    })?;
    let data = Data {
        file,
        start: data_start,
        bytes: found.bytes - data_start,
    };
    data.directory(entries).map_err(named)
}

/// The header's tensors, in its order.
struct Header(Vec<(String, Entry)>);

/// One tensor in the header; an unknown field is ignored, a duplicate one refused.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with an entry for each tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    match map.next_value() {
                        Ok(entry) => entries.push((name, entry)),
                        Err(error) => {
                            let named = format!("tensor `{name}`: {error}");
                            return Err(A::Error::custom(named));
                        }
                    }
                }
                Ok(Header(entries))
            }
        }

        reader.deserialize_map(Entries)
    }
}

/// Data section of one file.
struct Data {
    file: usize,
    /// Its offset in the file.
    start: u64,
    bytes: u64,
}

impl Data {
    fn directory(&self, entries: Vec<(String, Entry)>) -> Result<Directory, SafetensorsError> {
        let mut names = HashSet::with_capacity(entries.len());
        for (name, _) in &entries {
            if !names.insert(name.as_str()) {
                return Err(SafetensorsError::DuplicateTensor {
                    tensor: name.clone(),
                });
            }
        }
        self.refuse_gaps(&entries)?;
        let mut directory = Directory::default();
        for (name, entry) in entries {
            let (start, end) = entry.data_offsets;
            let format = match entry.dtype.as_str() {
                "F32" => Some(Format::F32),
                "F16" => Some(Format::F16),
                "BF16" => Some(Format::BF16),
                "F8_E4M3" | "F8_E4M3FN" => Some(Format::F8E4M3),
                _ => None,
            };
            let bytes = end - start;
            let Some(format) = format.filter(|_| !entry.shape.contains(&0)) else {
                directory.unreadable.push(Unreadable {
                    name,
                    dtype: entry.dtype,
                    problem: None,
                    file: self.file,
                    bytes,
                });
                continue;
            };
            let mut shape = entry.shape;
            match crate::tensor::size(&shape, format) {
                Ok(size) if size == bytes => shape.reverse(),
                Ok(_) => {
                    return Err(SafetensorsError::Place {
                        tensor: name,
                        shape,
                        dtype: entry.dtype,
                        start,
                        end,
                    });
                }
                Err(_) => {
                    return Err(SafetensorsError::Shape {
                        tensor: name,
                        shape,
                    });
                }
            }
            directory.tensors.push(Tensor {
                name,
                shape,
                format,
                scales: None,
                file: self.file,
                offset: self.start + start,
                bytes,
            });
        }
        Ok(directory)
    }

    /// Checks that the ranges are sound, lie in the data, and cover every byte exactly once.
    fn refuse_gaps(&self, entries: &[(String, Entry)]) -> Result<(), SafetensorsError> {
        let mut in_order: Vec<&(String, Entry)> = entries.iter().collect();
        in_order.sort_by_key(|(_, entry)| entry.data_offsets);
        let mut at = 0;
        let mut before = "";
        for (name, entry) in in_order {
            let (start, end) = entry.data_offsets;
            if start > end {
                return Err(SafetensorsError::Place {
                    tensor: name.clone(),
                    shape: entry.shape.clone(),
                    dtype: entry.dtype.clone(),
                    start,
                    end,
                });
            }
            if start < at {
                return Err(SafetensorsError::Overlap {
                    tensor: name.clone(),
                    other: before.to_owned(),
                });
            }
            if start > at {
                return Err(SafetensorsError::Hole {
                    start: at,
                    end: start,
                });
            }
            at = end;
            before = name;
        }
        if at > self.bytes {
            return Err(SafetensorsError::Truncated {
                needed: self.start.saturating_add(at),
                length: self.start + self.bytes,
            });
        }
        if at < self.bytes {
            return Err(SafetensorsError::Hole {
                start: at,
                end: self.bytes,
            });
        }
        Ok(())
    }
}
