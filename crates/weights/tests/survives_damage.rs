//! Randomly damaged real models: the readers answer every one with a model or an error, never
//! panic, and never take memory that the bytes present do not justify. The first executions of the
//! long run, `examples/fuzz.rs`.

#[path = "../examples/fuzz.rs"]
#[allow(dead_code, reason = "the long run counts and prints")]
mod fuzz;

use conclave_weights::{Gguf, GgufError};
use fuzz::allocation::measured;
use fuzz::damage::load;

#[test]
fn damaged_models_are_answered_with_an_error_or_a_sound_model() {
    let models = fuzz::models();
    for execution in 0..200_000 {
        let guard = fuzz::Announce(execution);
        let (reader, files) = fuzz::damaged(&models, 1, execution);
        // A part of a split model cannot be checked alone, and a header without tensors is no
        // model.
        let whole = match &files[..] {
            [(name, bytes)] if reader == "GGUF" && !name.starts_with("split") => {
                let parsed = Gguf::parse(bytes);
                let empty = parsed.is_ok_and(|gguf| gguf.tensors().is_empty());
                Some(is_whole(bytes)).filter(|_| !empty)
            }
            _ => None,
        };
        let outcome = load(files);
        assert!(whole.is_none_or(|whole| whole == outcome.is_ok()));
        std::mem::forget(guard);
    }
}

/// Whether it is a GGUF file; its header is read within bounds in any case.
fn is_whole(bytes: &[u8]) -> bool {
    let (parsed, most) = measured(|| Gguf::parse(bytes));
    // A directory entry takes some 100 bytes in memory for 24 in the file; all else less.
    assert!(most <= 16 * bytes.len() + 4096, "{most} bytes held");
    if let Err(GgufError::NeedMore { at_least, .. }) = parsed {
        assert!(at_least > bytes.len() as u64);
    }
    Gguf::parse_whole(bytes).is_ok()
}

#[test]
fn bytes_that_are_no_file_are_refused() {
    let mut random = fuzz::Random(1);
    for execution in 0..20_000 {
        let length = random.below(200);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.any() as u8).collect();
        let real = execution % 2 == 0 && length >= 8;
        if real {
            bytes[..8].copy_from_slice(b"GGUF\x03\0\0\0");
        }
        assert!(real || !is_whole(&bytes));
        assert!(load(vec![("model.gguf".to_owned(), bytes)]).is_err() || real);
    }
}
