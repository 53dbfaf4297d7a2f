//! Real files with random damage: the reader must answer every one with a header or an error,
//! never panic, and never take memory that the bytes present do not justify.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use conclave_weights::{Gguf, GgufError, dequantise};
use proptest::prelude::*;

const FILES: [&[u8]; 3] = [
    include_bytes!("../../../tests/fixtures/weights/values.gguf"),
    include_bytes!("../../../tests/fixtures/weights/aligned.gguf"),
    include_bytes!("../../../tests/fixtures/weights/blocks.gguf"),
];

/// Counts what this thread has allocated in total, so that a test can bound it.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // During a thread's end its storage may be gone; nothing is measured there.
        let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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

/// Does all that a loader does with a file.
fn load(file: &[u8]) -> Result<(), GgufError> {
    let gguf = Gguf::parse_whole(file)?;
    for tensor in gguf.tensors() {
        let bytes = gguf.data_of(tensor, file)?;
        assert_eq!(bytes.len() as u64, tensor.bytes);
        let mut values = vec![0.0; usize::try_from(tensor.elements()).unwrap()];
        dequantise(tensor.format, bytes, &mut values).unwrap();
        assert_eq!(tensor.row_bytes()? as u64 * tensor.rows(), tensor.bytes);
    }
    for (key, _) in gguf.metadata().iter() {
        let _ = (
            gguf.metadata().opt_u32(key),
            gguf.metadata().opt_str(key),
            gguf.metadata().opt_i32s(key),
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_answered_with_an_error_or_a_sound_header(
        file in 0..FILES.len(),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let mut bytes = FILES[file].to_vec();
        for damage in &damages {
            damage.apply(&mut bytes);
        }
        let before = ALLOCATED.get();
        let parsed = Gguf::parse(&bytes);
        let allocated = ALLOCATED.get() - before;
        // The directory's entries are some 100 bytes in memory for 24 in the file; all else is less.
        prop_assert!(allocated <= 16 * bytes.len() + 4096, "{allocated} bytes for a file of {}", bytes.len());
        if let Err(GgufError::NeedMore { at_least, .. }) = parsed {
            prop_assert!(at_least > bytes.len() as u64);
        }
        if let Err(error) = load(&bytes) {
            prop_assert!(!matches!(error, GgufError::NeedMore { .. }), "{error}");
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn bytes_that_are_no_file_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), real in any::<bool>()) {
        if real && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(b"GGUF\x03\0\0\0");
        }
        prop_assert!(Gguf::parse_whole(&bytes).is_err() || real);
    }
}
