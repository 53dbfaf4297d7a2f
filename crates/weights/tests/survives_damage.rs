//! Real models with random damage: the readers must answer every one with a model or an error,
//! never panic, and never take memory that the bytes present do not justify. The long run is
//! `examples/fuzz.rs`.

mod allocation;
mod damage;

use allocation::measured;
use conclave_weights::{Gguf, GgufError};
use damage::load;
use proptest::prelude::*;

/// A model's files.
type Files = Vec<(String, Vec<u8>)>;

const GGUF: [&[u8]; 3] = [
    include_bytes!("../../../tests/fixtures/weights/values.gguf"),
    include_bytes!("../../../tests/fixtures/weights/aligned.gguf"),
    include_bytes!("../../../tests/fixtures/weights/random_blocks.gguf"),
];

macro_rules! folder {
    ($folder:literal: $($name:literal),*) => {
        &[$((
            $name,
            include_bytes!(concat!("../../../tests/fixtures/weights/", $folder, "/", $name)),
        )),*]
    };
}

const FOLDERS: [&[(&str, &[u8])]; 5] = [
    folder!("mixed": "config.json", "model.safetensors"),
    folder!("fp8": "config.json", "model.safetensors"),
    folder!("compressed": "config.json", "model.safetensors"),
    folder!("single": "config.json", "generation_config.json", "model.safetensors"),
    folder!("sharded": "config.json", "model.safetensors.index.json",
        "model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
        "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors"),
];

/// One act of damage; positions are taken modulo the file's length.
#[derive(Debug, Clone)]
enum Damage {
    Byte(usize, u8),
    Word(usize, u32),
    Long(usize, u64),
    Cut(usize),
    Remove(usize, usize),
    Repeat(usize, usize),
}

impl Damage {
    fn apply(&self, file: &mut Vec<u8>) {
        if file.is_empty() {
            return;
        }
        let length = file.len();
        let mut write = |at: usize, bytes: &[u8]| {
            let at = at % length;
            let end = (at + bytes.len()).min(length);
            file[at..end].copy_from_slice(&bytes[..end - at]);
        };
        match *self {
            Self::Byte(at, byte) => write(at, &[byte]),
            Self::Word(at, word) => write(at, &word.to_le_bytes()),
            Self::Long(at, long) => write(at, &long.to_le_bytes()),
            Self::Cut(at) => file.truncate(at % length),
            Self::Remove(at, count) => {
                drop(file.drain(at % length..(at % length + count).min(length)))
            }
            Self::Repeat(at, count) => {
                let piece = file[at % length..(at % length + count).min(length)].to_vec();
                file.splice(at % length..at % length, piece);
            }
        }
    }
}

/// Headers are the first two kilobytes; damage there tells most.
fn position() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..2048_usize, 1 => any::<usize>()]
}

fn damage() -> impl Strategy<Value = Damage> {
    let word = prop_oneof![0..64_u32, any::<u32>(), Just(u32::MAX), Just(1 << 31)];
    let long = prop_oneof![
        0..4096_u64,
        any::<u64>(),
        Just(u64::MAX),
        Just(1 << 63),
        Just(1 << 32),
        Just(u64::MAX - 31),
        (0..64_u32).prop_map(|shift| 1 << shift),
    ];
    prop_oneof![
        4 => (position(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        3 => (position(), word).prop_map(|(at, word)| Damage::Word(at, word)),
        3 => (position(), long).prop_map(|(at, long)| Damage::Long(at, long)),
        1 => position().prop_map(Damage::Cut),
        1 => (position(), 1..64_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        1 => (position(), 1..64_usize).prop_map(|(at, count)| Damage::Repeat(at, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_gguf_files_are_answered_with_an_error_or_a_sound_model(
        file in 0..GGUF.len(),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let mut bytes = GGUF[file].to_vec();
        for damage in &damages {
            damage.apply(&mut bytes);
        }
        let (parsed, most) = measured(|| Gguf::parse(&bytes));
        // The directory's entries are some 100 bytes in memory for 24 in the file; all else is less.
        prop_assert!(most <= 16 * bytes.len() + 4096, "{most} bytes for a file of {}", bytes.len());
        if let Err(GgufError::NeedMore { at_least, .. }) = parsed {
            prop_assert!(at_least > bytes.len() as u64);
        }
        let whole = Gguf::parse_whole(&bytes).is_ok();
        prop_assert_eq!(load(vec![("model.gguf".to_owned(), bytes)]).is_ok(), whole);
    }

    #[test]
    fn damaged_folders_are_answered_with_an_error_or_a_sound_model(
        folder in 0..FOLDERS.len(),
        file in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let mut files: Files =
            FOLDERS[folder].iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        let damaged = file.index(files.len());
        for damage in &damages {
            damage.apply(&mut files[damaged].1);
        }
        let _ = load(files);
    }

    #[test]
    fn bytes_that_are_no_file_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), real in any::<bool>()) {
        if real && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(b"GGUF\x03\0\0\0");
        }
        prop_assert!(Gguf::parse_whole(&bytes).is_err() || real);
        prop_assert!(load(vec![("model.gguf".to_owned(), bytes)]).is_err() || real);
    }
}
