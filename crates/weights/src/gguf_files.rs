//! GGUF files of a source: their headers, read piece by piece, and the parts of a split model.

use crate::{CheckpointError, Gguf, GgufError, Source};

/// Read at first: a header without a vocabulary is shorter, one with a vocabulary longer.
const FIRST_PIECE: u64 = 1 << 20;

/// No header is longer. Those with the largest vocabularies have about 20 MB.
const LONGEST_HEADER: u64 = 100 << 20;

/// A file's name, taken apart: `model-00002-of-00003.gguf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitName<'a> {
    /// What stands before the numbers.
    pub prefix: &'a str,
    /// The part's number, from 1.
    pub number: u32,
    /// The number of parts.
    pub count: u32,
}

impl SplitName<'_> {
    /// Whether both are parts of one model.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.prefix == other.prefix && self.count == other.count
    }

    /// The name of part number `number`.
    pub(crate) fn sibling(&self, number: u32) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.prefix, self.count)
    }
}

/// Takes a part's name apart; `None` for other names.
pub(crate) fn split_name(name: &str) -> Option<SplitName<'_>> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let five_digits = |digits: &str| -> Option<u32> {
        (digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit()))
            .then(|| digits.parse().ok())?
    };
    Some(SplitName {
        prefix,
        number: five_digits(number)?,
        count: five_digits(count)?,
    })
}

/// Reads the header of file number `file`, no more than it needs, and checks that the data of all
/// its tensors is there.
pub(crate) async fn header(source: &dyn Source, file: usize) -> Result<Gguf, CheckpointError> {
    let (name, length) = match source.files().get(file) {
        Some(found) => (found.name.clone(), found.bytes),
        None => return Err(crate::SourceError::NoFile { file }.into()),
    };
    let named = |error| CheckpointError::Gguf {
        file: name.clone(),
        error,
    };
    let mut bytes = Vec::new();
    let mut wanted = FIRST_PIECE;
    loop {
        let had = bytes.len();
        // Never more than the longest header, which every machine can address.
        let end = usize::try_from(wanted.min(length).min(LONGEST_HEADER)).unwrap_or(had);
        bytes.resize(end.max(had), 0);
        source.read(file, had as u64, &mut bytes[had..]).await?;
        match Gguf::parse(&bytes) {
            Err(GgufError::NeedMore { at_least, reading }) => {
                let needed = at_least.max(bytes.len() as u64 + 1);
                if needed > length {
                    return Err(named(GgufError::Truncated {
                        what: reading,
                        needed,
                        length,
                    }));
                }
                if needed > LONGEST_HEADER {
                    return Err(CheckpointError::LongHeader {
                        file: name,
                        bytes: needed,
                        limit: LONGEST_HEADER,
                    });
                }
                wanted = needed.max(wanted.saturating_mul(2));
            }
            parsed => {
                let gguf = parsed.map_err(named)?;
                gguf.check_length(length).map_err(named)?;
                return Ok(gguf);
            }
        }
    }
}
