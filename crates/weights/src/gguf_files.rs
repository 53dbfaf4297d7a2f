//! GGUF files of a source: their headers, read in pieces, and the parts of a split model.

use std::collections::HashSet;

use crate::checkpoint::list;
use crate::no_model::{
    has_tokens, refuse_format, refuse_other_kind, refuse_piece, refuse_stand_in, second,
    without_tokens,
};
use crate::{CheckpointError, Gguf, GgufError, Metadata, Source, SourceError, Tensor};

/// Number of bytes of the first read: more than a header without a vocabulary has, less than one
/// with it.
const FIRST_PIECE: u64 = 1 << 20;

/// Longest header that is read. Those with the largest vocabularies have about 20 MB.
const MAX_HEADER_BYTES: u64 = 100 << 20;

/// The components of a file name such as `model-00002-of-00003.gguf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitName<'a> {
    /// The text before the numbers.
    pub prefix: &'a str,
    /// The part's number, from 1.
    pub number: u32,
    /// The number of parts.
    pub count: u32,
}

impl SplitName<'_> {
    /// Whether both names belong to one model.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.prefix == other.prefix && self.count == other.count
    }

    /// The name of part number `number`.
    pub(crate) fn sibling(&self, number: u32) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.prefix, self.count)
    }
}

/// Splits a part's name into its components; `None` for other names.
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

/// Reads the model in `files` (indices of a source's files, at least one). Files beside it go to
/// `left_out`.
pub(crate) async fn open(
    source: &dyn Source,
    files: &[usize],
    left_out: &mut Vec<CheckpointError>,
) -> Result<(Metadata, Vec<Tensor>), CheckpointError> {
    let listed = source.files();
    let name = |&file: &usize| listed.get(file).map_or("", |file| file.name.as_str());
    let parts = files.iter().map(|file| split_name(name(file)));
    let parts: Vec<Option<SplitName<'_>>> = parts.collect();
    match (files, &parts[..]) {
        ([file], [None]) => {
            let gguf = header(source, *file).await?;
            // A vocabulary alone can be read for its tokens.
            let tokenizer = gguf.metadata().get("tokenizer.ggml.model").is_some();
            if !(tokenizer && gguf.tensors().is_empty()) {
                refuse_other_kind(name(file), &gguf)?;
            }
            let count = split_key(&gguf, name(file), "split.count")?.unwrap_or(1);
            if count > 1 {
                return Err(CheckpointError::MissingFiles {
                    files: format!("the other {} parts of {}", count - 1, name(file)),
                });
            }
            Ok(placed(gguf, *file))
        }
        (_, [Some(first), ..])
            if parts
                .iter()
                .flatten()
                .filter(|part| first.is_beside(part))
                .count()
                == files.len() =>
        {
            let numbers: Vec<u32> = parts.iter().flatten().map(|part| part.number).collect();
            refuse_gaps(first, &numbers)?;
            let mut in_order: Vec<(u32, usize)> =
                numbers.into_iter().zip(files.iter().copied()).collect();
            in_order.sort_unstable();
            join(source, &in_order).await
        }
        _ => {
            let models = models(source, files, left_out).await?;
            if models.len() == files.len() {
                return Err(CheckpointError::Several {
                    files: list(files.iter().map(name)),
                });
            }
            Box::pin(open(source, &models, left_out)).await
        }
    }
}

/// The language models among `files`, at least one; the others go to `left_out`.
async fn models(
    source: &dyn Source,
    files: &[usize],
    left_out: &mut Vec<CheckpointError>,
) -> Result<Vec<usize>, CheckpointError> {
    let listed = source.files();
    let name = |file: usize| listed.get(file).map_or("", |file| file.name.as_str());
    // Each with whether it has a tokenizer.
    let mut models = Vec::new();
    let mut broken = Vec::new();
    for &file in files {
        match header(source, file).await {
            Ok(gguf) => match refuse_other_kind(name(file), &gguf) {
                Ok(()) => models.push((file, has_tokens(&gguf))),
                Err(error) => left_out.push(error),
            },
            Err(CheckpointError::Source(error)) => return Err(error.into()),
            Err(error) => {
                broken.extend(split_name(name(file)));
                // It says more, where no file is a model, than one that belongs to a model.
                left_out.insert(0, error);
            }
        }
    }
    // Parts are sound together only, and the first alone has the tokenizer.
    let any = models.iter().any(|&(_, tokens)| tokens);
    models.retain(|&(file, tokens)| match split_name(name(file)) {
        Some(part) => !broken.iter().any(|other| part.is_beside(other)),
        None if any && !tokens => {
            left_out.push(without_tokens(name(file)));
            false
        }
        None => true,
    });
    if models.is_empty() {
        return Err(left_out.swap_remove(0));
    }
    Ok(models.into_iter().map(|(file, _)| file).collect())
}

/// The kind or fault of GGUF file `file` beside a folder's own weights.
pub(crate) async fn beside_a_folder(source: &dyn Source, file: usize) -> CheckpointError {
    let name = source.files().get(file).map_or("", |file| &file.name);
    let read = header(source, file).await;
    let read = read.and_then(|gguf| refuse_other_kind(name, &gguf));
    read.err().unwrap_or_else(|| second(name))
}

/// Checks that every part is present exactly once.
fn refuse_gaps(first: &SplitName<'_>, numbers: &[u32]) -> Result<(), CheckpointError> {
    let mut seen = HashSet::new();
    for &number in numbers {
        if !seen.insert(number) || number == 0 || number > first.count {
            return Err(CheckpointError::WrongPart {
                file: first.sibling(number),
                problem: "is there twice, or beyond the number of parts".to_owned(),
            });
        }
    }
    if seen.len() == first.count as usize {
        return Ok(());
    }
    let missing = (1..=first.count).filter(|number| !seen.contains(number));
    Err(CheckpointError::MissingFiles {
        files: list(missing.map(|number| first.sibling(number))),
    })
}

/// Joins the parts of a split model, given by number (from 1) and file, in order.
async fn join(
    source: &dyn Source,
    parts: &[(u32, usize)],
) -> Result<(Metadata, Vec<Tensor>), CheckpointError> {
    let mut metadata = Metadata::default();
    let mut tensors = Vec::new();
    let mut promised = None;
    for &(number, file) in parts {
        let gguf = header(source, file).await?;
        let name = source.files().get(file).map_or("", |file| &file.name);
        // Models in one part often lack these keys.
        let count = split_key(&gguf, name, "split.count")?;
        let index = split_key(&gguf, name, "split.no")?;
        let sole = parts.len() == 1 && count.is_none_or(|count| count < 2);
        if !sole && (count, index) != (Some(parts.len() as u64), Some(u64::from(number) - 1)) {
            let say = |key: Option<u64>| key.map_or("nothing".to_owned(), |key| key.to_string());
            return Err(CheckpointError::WrongPart {
                file: name.to_owned(),
                problem: format!(
                    "says `split.no` {} and `split.count` {} where {} and {} belong",
                    say(index),
                    say(count),
                    number - 1,
                    parts.len()
                ),
            });
        }
        if promised.is_none() {
            promised = split_key(&gguf, name, "split.tensors.count")?;
        }
        let (described, found) = placed(gguf, file);
        if number == 1 {
            metadata = described;
        }
        tensors.extend(found);
    }
    if let Some(promised) = promised
        && promised != tensors.len() as u64
    {
        return Err(CheckpointError::TensorCount {
            promised,
            found: tensors.len() as u64,
        });
    }
    Ok((metadata, tensors))
}

fn split_key(gguf: &Gguf, file: &str, key: &str) -> Result<Option<u64>, CheckpointError> {
    let value = gguf.metadata().opt_u64(key);
    value.map_err(|error| CheckpointError::Gguf {
        file: file.to_owned(),
        error,
    })
}

fn placed(gguf: Gguf, file: usize) -> (Metadata, Vec<Tensor>) {
    let (metadata, mut tensors) = gguf.into_parts();
    for tensor in &mut tensors {
        tensor.file = file;
    }
    (metadata, tensors)
}

/// Reads the header of file `file`, and little more, and checks that the file holds all its
/// tensors' data.
async fn header(source: &dyn Source, file: usize) -> Result<Gguf, CheckpointError> {
    let (name, length) = match source.files().get(file) {
        Some(found) => (found.name.clone(), found.bytes),
        None => return Err(SourceError::NoFile { file }.into()),
    };
    let named = |error| CheckpointError::Gguf {
        file: name.clone(),
        error,
    };
    let mut bytes = Vec::new();
    let mut wanted = FIRST_PIECE;
    loop {
        let had = bytes.len();
        // At most the longest header, which every machine can address.
        let end = usize::try_from(wanted.min(length).min(MAX_HEADER_BYTES)).unwrap_or(had);
        bytes.resize(end.max(had), 0);
        source.read(file, had as u64, &mut bytes[had..]).await?;
        if had == 0 && !bytes.starts_with(b"GGUF") {
            refuse_stand_in(&name, &bytes, true)?;
            refuse_format(&name, &bytes)?;
            refuse_piece(&name)?;
        }
        match Gguf::parse(&bytes) {
            Err(GgufError::NeedMore { at_least, reading }) => {
                let needed = at_least.max(bytes.len() as u64 + 1);
                if needed > length {
                    refuse_piece(&name)?;
                    return Err(named(GgufError::Truncated {
                        what: reading,
                        needed,
                        length,
                    }));
                }
                if needed > MAX_HEADER_BYTES {
                    return Err(CheckpointError::LongHeader {
                        file: name,
                        bytes: needed,
                        limit: MAX_HEADER_BYTES,
                    });
                }
                wanted = needed.max(wanted.saturating_mul(2));
            }
            parsed => {
                let gguf = parsed.map_err(named)?;
                if let Err(error) = gguf.check_length(length) {
                    refuse_piece(&name)?;
                    return Err(named(error));
                }
                return Ok(gguf);
            }
        }
    }
}
