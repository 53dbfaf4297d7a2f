//! Files that are no model: stand-ins of one, pieces of one, and companions of one.

use std::ops::Range;

use crate::checkpoint::named;
use crate::gguf_files::split_name;
use crate::{CheckpointError, Gguf, Source};

/// UTF-8's byte order mark.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Number of first bytes that decide whether a file is text. Weights begin with numbers whose high
/// bytes are zero.
const TEXT_BYTES: usize = 256;

/// Part of a git-annex pointer, in a file's content or in a link's target.
pub(crate) const ANNEX: &str = "annex/objects/";

const ADAPTER: &str = "adapter_config.json";

const SEPARATORS: [char; 3] = ['.', '-', '_'];

/// Parts of architecture names that stand for encoders, and for models of speech, images or video.
const OTHERS: [&str; 15] = [
    "bert",
    "encoder",
    "embedding",
    "clip",
    "whisper",
    "wavtokenizer",
    "flux",
    "sd1",
    "sd3",
    "sdxl",
    "wan",
    "hyvid",
    "ltxv",
    "lumina",
    "qwen_image",
];

/// Files of other formats: offset and value of the bytes that identify one, its kind, and the
/// advice.
const FORMATS: [(usize, &[u8], &str, &str); 13] = [
    (0, ZIP, "a zip archive", UNPACK),
    (0, b"\x1f\x8b", "compressed by gzip", UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd", UNPACK),
    (0, b"\xfd7zXZ\0", "compressed by xz", UNPACK),
    (0, b"BZh", "compressed by bzip2", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (0, b"Rar!\x1a\x07", "a RAR archive", UNPACK),
    (257, b"ustar", "a tar archive", UNPACK),
    // Numbers, so that the letters are reversed.
    (0, b"lmgg", "an old GGML file", CONVERT),
    (0, b"fmgg", "an old GGML file", CONVERT),
    (0, b"tjgg", "an old GGML file", CONVERT),
    (4, b"TFL3", "a TensorFlow Lite file", OTHER),
    (0, b"GGUF", "a GGUF file", "let its name end in .gguf"),
];
const ZIP: &[u8] = b"PK\x03\x04";
const UNPACK: &str = "unpack it first";
const CONVERT: &str = "convert it with an older llama.cpp, or choose a .gguf file";
const OTHER: &str = "choose a .gguf file, or a folder with .safetensors files";

/// Number of first bytes that identify every format.
pub(crate) const FORMAT_BYTES: usize = 512;

const UNFINISHED: &str = "let it finish, or download it again";

fn no_model(file: &str, what: &str, advice: &str) -> CheckpointError {
    CheckpointError::NoModel {
        file: file.to_owned(),
        what: what.to_owned(),
        advice: advice.to_owned(),
    }
}

/// Refuses a stand-in for a file that was not fetched: a Git LFS pointer, a web page, or the zeros
/// of an unfinished download. `start` are the first bytes. If `weights` are expected, every text is
/// refused.
pub(crate) fn refuse_stand_in(
    file: &str,
    start: &[u8],
    weights: bool,
) -> Result<(), CheckpointError> {
    let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
    let start = start.trim_ascii_start();
    let begins = |text: &str| {
        let start = start.get(..text.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(text.as_bytes()))
    };
    let older = [
        "version http://git-media.io/",
        "version https://hawser.github.com/spec/",
    ];
    let older = cfg!(not(target_family = "wasm")) && older.into_iter().any(begins);
    if older || begins("version https://git-lfs.github.com/spec/") {
        return Err(no_model(
            file,
            "is a git-LFS pointer and not the file itself",
            "run `git lfs pull` in its folder, or download it from its page",
        ));
    }
    if begins("<!doctype html") || begins("<html") {
        return Err(no_model(
            file,
            "is a web page and not the file itself",
            "download the file, not the page about it",
        ));
    }
    // Neither a GGUF file nor a safetensors file begins so: space that a download took in advance.
    if cfg!(not(target_family = "wasm")) && weights && start.starts_with(&[0; 64]) {
        let what = "begins with zeroes, as an unfinished download";
        return Err(no_model(file, what, UNFINISHED));
    }
    let is_text = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    let text = !start.is_empty() && start.iter().take(TEXT_BYTES).all(is_text);
    // The page takes files that a browser can read, and its engine is to be small.
    if cfg!(not(target_family = "wasm")) && text && matches!(start[0], b'/' | b'.') {
        let start = &start[..start.len().min(TEXT_BYTES)];
        let mut windows = start.windows(ANNEX.len());
        if windows.any(|found| found == ANNEX.as_bytes()) {
            return Err(no_model(
                file,
                "is a git-annex pointer and not the file itself",
                "run `git annex get` in its folder",
            ));
        }
    }
    if text && weights || begins("{\"error\"") {
        let quoted = String::from_utf8_lossy(&start[..start.len().min(60)]);
        let quoted = quoted.trim_end_matches('\u{fffd}');
        return Err(no_model(
            file,
            &format!("is text and not the file itself, and begins {quoted:?}"),
            "if a server replied so, the download failed: download it again, signed in if its \
            page asks for that",
        ));
    }
    Ok(())
}

/// Refuses files of other formats, which hold no weights or cannot be read; `start` are the first
/// bytes.
pub(crate) fn refuse_format(file: &str, start: &[u8]) -> Result<(), CheckpointError> {
    // The page takes files by their names, and its engine is to be small.
    if cfg!(target_family = "wasm") {
        return Ok(());
    }
    let start = &start[..start.len().min(FORMAT_BYTES)];
    let has = |bytes: &[u8]| start.windows(bytes.len()).any(|found| found == bytes);
    // PyTorch's files are zip archives.
    if start.starts_with(ZIP) && has(b"/data.pkl") {
        return Err(CheckpointError::Pickle {
            file: file.to_owned(),
        });
    }
    for (at, bytes, what, advice) in FORMATS {
        if start.get(at..).is_some_and(|rest| rest.starts_with(bytes)) {
            return Err(no_model(file, &format!("is {what}"), advice));
        }
    }
    // Length of the header, and then the header.
    if let [.., 0, 0, 0, 0, b'{'] = start[..start.len().min(9)] {
        return Err(no_model(
            file,
            "is a safetensors file",
            "let its name end in .safetensors, and name its folder",
        ));
    }
    // The format's version, and then the producer's name or the graph.
    if let [8, 1..32, 0x12 | 0x3a, ..] = start {
        return Err(no_model(file, "is an ONNX file", OTHER));
    }
    Ok(())
}

/// Refuses a file whose name says that it is not whole: an unfinished download (`x.gguf.part`), or
/// a piece that was cut by bytes (`x.gguf.part1of2`, `x.gguf-split-a`, `x.gguf.ac`,
/// `x.part1.gguf`). Whole files may have such names, so their content is read first.
pub(crate) fn refuse_piece(file: &str) -> Result<(), CheckpointError> {
    let lower = file.to_ascii_lowercase();
    let last = lower.rsplit_once('.').map_or("", |(_, last)| last);
    if last.ends_with("part")
        || last.ends_with("download")
        || matches!(last, "partial" | "incomplete" | "tmp")
    {
        return Err(no_model(file, "is an unfinished download", UNFINISHED));
    }
    let Some((whole, counter)) = counter(file, &lower) else {
        return Ok(());
    };
    let mut advice = "put them together in their order".to_owned();
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"._-+".contains(&letter);
    // Other names would need a shell's quotes.
    if file.bytes().all(plain) {
        let (before, after) = (&file[..counter.start], &file[counter.end..]);
        // Numbers that are not filled up with zeroes have several lengths, and no shell sorts them
        // by size.
        let number = &file[counter.clone()];
        let filled = number.len() > 1 && number.starts_with('0');
        let total = after.split('.').next().unwrap_or_default();
        let total = total.bytes().filter(u8::is_ascii_digit).count();
        let digits = number.bytes().all(|digit| digit.is_ascii_digit());
        advice = match digits && !filled && total != 1 {
            true => format!("cat $(ls {before}[0-9]*{after} | sort -V) > {whole}"),
            false => format!("cat {before}{}{after} > {whole}", "?".repeat(counter.len())),
        } + ", all pieces in their order";
    }
    Err(no_model(
        file,
        "is a piece of a file that was cut by bytes; joined they are a model",
        &advice,
    ))
}

/// The name of the whole file that the piece `file` is cut from, and the range of the piece's
/// number in `file`; `lower` is `file` in lower case.
fn counter(file: &str, lower: &str) -> Option<(String, Range<usize>)> {
    const WORDS: [&str; 4] = ["part", "split", "chunk", "piece"];
    let place = |rest: &str, end: usize, named: bool| {
        let rest = rest.trim_start_matches(SEPARATORS);
        let start = end - rest.len();
        Some(start..start + counted(rest, named)?)
    };
    for ending in [".gguf", ".safetensors"] {
        let Some(at) = lower.rfind(ending) else {
            continue;
        };
        let end = at + ending.len();
        let after = &lower[end..];
        let cut = after.trim_start_matches(SEPARATORS);
        if cut.len() < after.len() {
            let word = WORDS.iter().find_map(|word| cut.strip_prefix(word));
            let place = place(word.unwrap_or(cut), lower.len(), word.is_some())?;
            return Some((file[..end].to_owned(), place));
        }
        // The parts of a split model are files of their own.
        if !after.is_empty() || split_name(lower).is_some() {
            return None;
        }
        return WORDS.iter().find_map(|word| {
            let start = lower[..at].rfind(word)?;
            let stem = lower[..start].strip_suffix(SEPARATORS)?;
            let place = place(&lower[start + word.len()..at], at, true)?;
            Some((format!("{}{}", &file[..stem.len()], &file[at..]), place))
        });
    }
    // Names that `split` gives by itself.
    let letters = lower.strip_prefix('x').filter(|letters| letters.len() == 2);
    Some(("x.gguf".to_owned(), place(letters?, 3, false)?))
}

/// Length of the number, in digits or letters, with which `tail` begins. `None` if more follows
/// than a total such as `of 9`. One letter is a number only if a word such as `part` comes before
/// it (`named`).
fn counted(tail: &str, named: bool) -> Option<usize> {
    let after_digits = |text: &str| {
        text.trim_start_matches(|letter: char| letter.is_ascii_digit())
            .len()
    };
    let digits = tail.len() - after_digits(tail);
    if digits > 0 {
        let total = tail[digits..].trim_start_matches(SEPARATORS);
        let total = total.strip_prefix("of").unwrap_or(total);
        return (after_digits(total.trim_start_matches(SEPARATORS)) == 0).then_some(digits);
    }
    let counts = match tail.len() {
        1 => named,
        // Not those of compressed files.
        2 => named || tail < "ga" && !matches!(tail, "br" | "bz"),
        3 => named || tail.starts_with("aa"),
        _ => false,
    };
    let letters = tail.bytes().all(|letter| letter.is_ascii_lowercase());
    (letters && counts).then_some(tail.len())
}

/// The adapter of a Hugging Face folder, if it has one.
pub(crate) fn adapter(source: &dyn Source) -> Option<CheckpointError> {
    named(source, ADAPTER)?;
    Some(no_model(
        ADAPTER,
        "belongs to an adapter (LoRA), which is a change of another model",
        "merge it into that one",
    ))
}

/// Error for a GGUF model beside a folder's own weights.
pub(crate) fn second(file: &str) -> CheckpointError {
    no_model(
        file,
        "stands beside the folder's own weights, which go before it",
        "name the file itself",
    )
}

/// Error for a file with tensors and no tokenizer, beside one with a tokenizer.
pub(crate) fn without_tokens(file: &str) -> CheckpointError {
    no_model(file, "has no tokenizer", "choose a language model")
}

/// Error for a GGUF file with a tokenizer and no tensors.
pub(crate) fn vocabulary(file: &str) -> CheckpointError {
    no_model(
        file,
        "is a vocabulary without weights",
        "choose the model itself",
    )
}

/// Refuses a file that can't be a chat template, or JSON with one. `bytes` are its content.
///
/// # Errors
/// [`CheckpointError::NoModel`] with `file` and its kind.
#[cfg(not(target_family = "wasm"))]
pub fn refuse_no_template(file: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
    const TEMPLATE: &str = "name a file of Jinja, or the model's chat_template.json or \
        tokenizer_config.json";
    if bytes.starts_with(b"GGUF") {
        return Err(no_model(file, "is a GGUF file", TEMPLATE));
    }
    refuse_stand_in(file, bytes, false)?;
    refuse_format(file, bytes).map_err(|error| match error {
        CheckpointError::NoModel { what, advice, .. } if advice != UNPACK => {
            no_model(file, &what, TEMPLATE)
        }
        error => error,
    })?;
    if std::str::from_utf8(bytes).is_err() {
        let what = "is not valid UTF-8";
        return Err(no_model(
            file,
            what,
            "save it in that encoding, or download it again",
        ));
    }
    Ok(())
}

/// Refuses a GGUF file that is no language model.
pub(crate) fn refuse_other_kind(file: &str, gguf: &Gguf) -> Result<(), CheckpointError> {
    let text = |key: &str| gguf.metadata().opt_str(key).ok().flatten();
    let architecture = text("general.architecture").unwrap_or_default();
    // The first part of a split model may hold metadata alone.
    let empty = gguf.tensors().is_empty() && gguf.metadata().get("split.count").is_none();
    let (what, advice) = match (text("general.type").unwrap_or_default(), architecture) {
        ("mmproj" | "clip-vision", _) | (_, "clip") => (
            "is a model's eye or ear (mmproj) and no language model",
            "choose the model that it stands beside",
        ),
        ("adapter", _) => (
            "is an adapter (LoRA), which is a change of another model",
            "choose one that it is merged into",
        ),
        ("imatrix", _) | (_, "imatrix") => (
            "is an importance matrix, which models are quantised by",
            "choose the model itself",
        ),
        ("controlvector", _) | (_, "controlvector") => (
            "is a control vector, which is a change of another model",
            "choose a model",
        ),
        _ if OTHERS.iter().any(|other| architecture.contains(other)) => {
            let what = format!("is a model of the kind `{architecture}`, which writes no text");
            return Err(no_model(file, &what, "choose a language model"));
        }
        (kind, _) if kind == "vocab" || empty && has_tokens(gguf) => return Err(vocabulary(file)),
        _ if empty => (
            "is a header without weights",
            "choose the model itself, or convert it anew",
        ),
        _ => return Ok(()),
    };
    Err(no_model(file, what, advice))
}

/// Whether a GGUF file has a tokenizer.
pub(crate) fn has_tokens(gguf: &Gguf) -> bool {
    gguf.metadata().get("tokenizer.ggml.tokens").is_some()
}
