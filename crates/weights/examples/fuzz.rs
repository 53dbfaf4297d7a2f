//! Long fuzzing run of damaged files through both readers:
//!
//! ```sh
//! cargo run -p conclave-weights --example fuzz -- 10000000 [seed]
//! ```
//!
//! Each execution takes a real model's files (or ones built here), damages them one to four times
//! with knowledge of lengths, counts and JSON, loads the result as a loader does, and checks that
//! it is a sound model or a typed error, within a bound of memory. Stops at the first failure and
//! prints its number, which as a third argument repeats that execution alone.

#[path = "../tests/allocation/mod.rs"]
pub mod allocation;
#[path = "../tests/damage/mod.rs"]
pub mod damage;

use std::collections::BTreeMap;
use std::time::Instant;

use conclave_weights::{CheckpointError, Format};
use damage::load;

/// A model's files.
pub type Files = Vec<(String, Vec<u8>)>;

macro_rules! fixtures {
    ($($name:literal),*) => {
        vec![$((
            $name.rsplit('/').next().unwrap_or_default().to_owned(),
            include_bytes!(concat!("../../../tests/fixtures/weights/", $name)).to_vec(),
        )),*]
    };
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let executions = numbers.first().copied().unwrap_or(1_000_000);
    let seed = numbers.get(1).copied().unwrap_or(1);
    let models = models();
    if let Some(&only) = numbers.get(2) {
        println!("{:?}", load(damaged(&models, seed, only).1));
        return;
    }
    let mut counts = BTreeMap::<(&str, String), u64>::new();
    let start = Instant::now();
    for execution in 0..executions {
        let guard = Announce(execution);
        let (reader, files) = damaged(&models, seed, execution);
        let outcome = load(files);
        std::mem::forget(guard);
        let outcome = match outcome {
            Ok(()) => "accepted".to_owned(),
            Err(error) => name_of(&error),
        };
        *counts.entry((reader, outcome)).or_default() += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    for ((reader, outcome), count) in &counts {
        println!("{reader:12} {outcome:36} {count:>12}");
    }
    for reader in ["GGUF", "safetensors"] {
        let of_reader = counts.iter().filter(|((name, _), _)| *name == reader);
        let total: u64 = of_reader.map(|(_, count)| count).sum();
        println!("{reader}: {total} executions");
    }
    println!("{executions} executions, seed {seed}, {seconds:.0} s: no panic, no unsound model");
}

/// Names the execution on panic.
#[derive(Debug)]
pub struct Announce(pub u64);

impl Drop for Announce {
    fn drop(&mut self) {
        eprintln!("execution {} failed", self.0);
    }
}

/// The error's variant, including the container error's.
fn name_of(error: &CheckpointError) -> String {
    let variant = |debug: String| {
        let end = debug.find([' ', '(', '{']).unwrap_or(debug.len());
        debug[..end].to_owned()
    };
    match error {
        CheckpointError::Gguf { error, .. } => format!("Gguf::{}", variant(format!("{error:?}"))),
        CheckpointError::Safetensors { error, .. } => {
            format!("Safetensors::{}", variant(format!("{error:?}")))
        }
        error => variant(format!("{error:?}")),
    }
}

/// The models that are damaged, each with its reader's name.
pub fn models() -> Vec<(&'static str, Files)> {
    vec![
        ("GGUF", fixtures!["values.gguf"]),
        ("GGUF", fixtures!["aligned.gguf"]),
        (
            "GGUF",
            fixtures![
                "split-00001-of-00003.gguf",
                "split-00002-of-00003.gguf",
                "split-00003-of-00003.gguf"
            ],
        ),
        ("GGUF", vec![("formats.gguf".to_owned(), every_format())]),
        (
            "safetensors",
            fixtures!["mixed/config.json", "mixed/model.safetensors"],
        ),
        (
            "safetensors",
            fixtures!["fp8/config.json", "fp8/model.safetensors"],
        ),
        (
            "safetensors",
            fixtures!["compressed/config.json", "compressed/model.safetensors"],
        ),
        (
            "safetensors",
            fixtures![
                "single/config.json",
                "single/generation_config.json",
                "single/model.safetensors"
            ],
        ),
        (
            "safetensors",
            fixtures![
                "sharded/config.json",
                "sharded/model.safetensors.index.json",
                "sharded/model-00001-of-00004.safetensors",
                "sharded/model-00002-of-00004.safetensors",
                "sharded/model-00003-of-00004.safetensors",
                "sharded/model-00004-of-00004.safetensors"
            ],
        ),
    ]
}

/// A GGUF file with one block of every format that such files have.
fn every_format() -> Vec<u8> {
    let mut header = b"GGUF\x03\0\0\0".to_vec();
    let ggml = |format: Format| Some((format, format.ggml_type()?));
    let formats: Vec<_> = Format::ALL.into_iter().filter_map(ggml).collect();
    header.extend((formats.len() as u64).to_le_bytes());
    header.extend(1_u64.to_le_bytes());
    let string = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    header.extend(string("general.architecture"));
    header.extend(8_u32.to_le_bytes());
    header.extend(string("llama"));
    let mut data = Vec::new();
    for (format, ggml_type) in formats {
        header.extend(string(format.name()));
        header.extend(1_u32.to_le_bytes());
        header.extend((format.block_elements() as u64).to_le_bytes());
        header.extend(ggml_type.to_le_bytes());
        header.extend((data.len() as u64).to_le_bytes());
        data.extend((0..format.block_bytes()).map(|byte| (byte * 37 % 120) as u8));
        data.resize(data.len().next_multiple_of(32), 0);
    }
    header.resize(header.len().next_multiple_of(32), 0);
    header.extend(data);
    header
}

/// One of the models, damaged, with its reader's name.
pub fn damaged(
    models: &[(&'static str, Files)],
    seed: u64,
    execution: u64,
) -> (&'static str, Files) {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ execution);
    let (reader, files) = &models[random.below(models.len())];
    let mut files = files.clone();
    for _ in 0..1 + random.below(4) {
        random.damage(&mut files);
    }
    (reader, files)
}

/// SplitMix64.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.any() % limit.max(1) as u64) as usize
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A number likely to break readers: at a boundary or huge.
    pub fn number(&mut self) -> u64 {
        match self.below(6) {
            0 => self.any() % 64,
            1 => self.any() % 4096,
            2 => 1 << (self.any() % 64),
            3 => (1_u64 << (self.any() % 64)).wrapping_sub(1 + self.any() % 40),
            4 => u64::MAX - self.any() % 64,
            _ => self.any(),
        }
    }

    fn damage(&mut self, files: &mut Files) {
        let file = self.below(files.len());
        match self.below(24) {
            0 if files.len() > 1 => drop(files.remove(file)),
            1 => {
                let other = self.below(files.len());
                let from = files[other].1.clone();
                self.splice(&mut files[file].1, &from);
            }
            2 => {
                let other = self.below(files.len());
                if self.below(2) == 0 {
                    files[file].1 = files[other].1.clone();
                } else {
                    files[file].0 = files[other].0.clone();
                }
            }
            _ if files[file].0.ends_with(".json") => self.damage_json(&mut files[file].1),
            _ if files[file].0.ends_with(".safetensors") && self.below(8) > 0 => {
                self.damage_header(&mut files[file].1);
            }
            _ => self.damage_bytes(&mut files[file].1),
        }
    }

    /// Damages a safetensors file's JSON, and mostly corrects its length, so that the parser
    /// reaches the damage.
    fn damage_header(&mut self, file: &mut Vec<u8>) {
        let length = file
            .first_chunk()
            .map_or(0, |length| u64::from_le_bytes(*length));
        let Some(end) = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_add(8))
        else {
            return;
        };
        if end > file.len() {
            return;
        }
        let mut header = file[8..end].to_vec();
        self.damage_json(&mut header);
        let length = header.len() as u64;
        file.splice(8..end, header);
        if self.below(16) > 0 {
            file[..8].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Damages text as JSON: numbers, strings, pairs and brackets.
    pub fn damage_json(&mut self, text: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let start = self.below(text.len());
        let find = |wanted: fn(u8) -> bool| {
            text[start..]
                .iter()
                .position(|&byte| wanted(byte))
                .map(|at| start + at)
        };
        match self.below(8) {
            0..=2 => {
                let Some(at) = find(|byte| byte.is_ascii_digit()) else {
                    return;
                };
                let digits = text[at..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                let number = match self.below(8) {
                    0 => "-1".to_owned(),
                    1 => "1e999".to_owned(),
                    2 => "0.5".to_owned(),
                    3 => "18446744073709551616".to_owned(),
                    4 => format!("{}", text.len()),
                    _ => self.number().to_string(),
                };
                text.splice(at..at + digits, number.into_bytes());
            }
            3 => {
                // Duplicates or removes a member.
                let Some(at) = find(|byte| byte == b'"') else {
                    return;
                };
                let ends = text[at..]
                    .iter()
                    .position(|&byte| byte == b'}' || byte == b',');
                let piece = text[at..at + ends.unwrap_or(0)].to_vec();
                if self.below(2) == 0 {
                    text.splice(at..at, [&piece[..], b","].concat());
                } else {
                    text.drain(at..at + piece.len());
                }
            }
            4 => {
                // Replaces a string.
                let words = [
                    "F32",
                    "F16",
                    "BF16",
                    "F64",
                    "F8_E4M3",
                    "F8_E5M2",
                    "blocks.weight",
                    "blocks.weight_scale",
                    "blocks.weight_scale_inv",
                    "weight_block_size",
                    "I32",
                    "dtype",
                    "shape",
                    "x",
                    "",
                    "data_offsets",
                    "__metadata__",
                    "weight_map",
                    "model.safetensors",
                ];
                let Some(at) = find(|byte| byte == b'"') else {
                    return;
                };
                let rest = &text[at + 1..];
                if let Some(length) = rest.iter().position(|&byte| byte == b'"') {
                    let word = self.pick(&words).as_bytes().to_vec();
                    text.splice(at + 1..at + 1 + length, word);
                }
            }
            5 => {
                let brackets = *self.pick(b"{}[]\",:\\ -0\xff\x00");
                let count = if self.below(50) == 0 {
                    2000
                } else {
                    1 + self.below(3)
                };
                text.splice(start..start, std::iter::repeat_n(brackets, count));
            }
            _ => self.damage_bytes(text),
        }
    }

    /// Damages bytes, preferring numbers that look like lengths.
    fn damage_bytes(&mut self, file: &mut Vec<u8>) {
        if file.is_empty() {
            return;
        }
        let length = file.len();
        // The header, at the front, is what readers rely on.
        let near = if self.below(4) > 0 {
            length.min(1400)
        } else {
            length
        };
        let mut at = self.below(near);
        if self.below(2) == 0 {
            let small = |at: &usize| file[*at + 3..*at + 8].iter().all(|&byte| byte == 0);
            at = (at..length.saturating_sub(8))
                .take(64)
                .find(small)
                .unwrap_or(at);
        }
        let number = self.number();
        let mut write = |bytes: &[u8]| {
            let end = (at + bytes.len()).min(length);
            file[at..end].copy_from_slice(&bytes[..end - at]);
        };
        match self.below(16) {
            0..=3 => write(&[number as u8]),
            4 | 5 => {
                let flipped = file[at] ^ (1 << (number % 8));
                file[at] = flipped;
            }
            6..=8 => write(&(number as u32).to_le_bytes()),
            9..=12 => write(&number.to_le_bytes()),
            13 => file.truncate(at),
            14 => drop(file.drain(at..(at + 1 + number as usize % 40).min(length))),
            _ => {
                let piece = file[at..(at + 1 + number as usize % 40).min(length)].to_vec();
                file.splice(at..at, piece);
            }
        }
    }

    /// Replaces a piece of this file by a piece of another.
    fn splice(&mut self, file: &mut Vec<u8>, other: &[u8]) {
        let (at, from) = (self.below(file.len()), self.below(other.len()));
        let (gone, come) = (self.below(200), self.below(200));
        let piece = other[from..(from + come).min(other.len())].to_vec();
        file.splice(at..(at + gone).min(file.len()), piece);
    }
}
