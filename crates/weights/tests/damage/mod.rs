//! A loader that uses all of a model's files and checks that the outcome is sound. Used by
//! `examples/fuzz.rs`.

use std::collections::HashSet;

use conclave_weights::{
    BlockError, Checkpoint, CheckpointError, Description, Format, GgufError, Memory, Source,
    convert, dequantise,
};
use pollster::block_on;

use super::allocation::measured;

/// Opens a model, reads all of it and checks that it matches its header.
///
/// # Panics
/// Where a reader accepts unsound files, returns an error that is not about the files, or takes
/// more memory than a small multiple of their bytes.
pub fn load(files: Vec<(String, Vec<u8>)>) -> Result<(), CheckpointError> {
    let total: usize = files.iter().map(|(_, content)| content.len()).sum();
    let source = Memory::new(files);
    let (opened, most) = measured(|| block_on(Checkpoint::open(&source)));
    // A JSON value takes 32 bytes in memory and two in a file, in vectors that double as they grow.
    assert!(most <= 64 * total + 8192, "{most} bytes held for {total}");
    let checkpoint = match opened {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            assert!(error.to_string().len() > 10);
            // The readers know the files' lengths: they never ask for more.
            assert!(!matches!(error, CheckpointError::Source(_)), "{error}");
            assert!(
                !matches!(
                    &error,
                    CheckpointError::Gguf {
                        error: GgufError::NeedMore { .. },
                        ..
                    }
                ),
                "{error}"
            );
            return Err(error);
        }
    };
    let mut names = HashSet::new();
    let mut held = vec![0_u64; source.files().len()];
    let (mut rows, mut converted) = (Vec::new(), Vec::new());
    for tensor in checkpoint.tensors() {
        assert!(names.insert(tensor.name.as_str()), "{} twice", tensor.name);
        assert_eq!(checkpoint.find(&tensor.name), Some(tensor));
        assert!(tensor.offset + tensor.bytes <= source.files()[tensor.file].bytes);
        held[tensor.file] += tensor.bytes;
        block_on(checkpoint.read_rows(&source, tensor, 0..tensor.rows(), &mut rows))?;
        let (stored, read) = (tensor.format, tensor.read_as());
        if stored == read {
            assert_eq!(rows.len() as u64, tensor.bytes);
        }
        assert_eq!(tensor.cols() * tensor.rows(), tensor.elements());
        let mut values = vec![0.0; usize::try_from(tensor.elements()).expect("it fits a file")];
        dequantise(read, &rows, &mut values).expect("whole blocks");
        match convert(read, &rows, Format::Q8_0, &mut converted) {
            Ok(()) | Err(BlockError::Value { .. } | BlockError::Length { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let last = tensor.rows() - 1..tensor.rows();
        block_on(checkpoint.read_rows(&source, tensor, last, &mut rows))?;
        let beyond = 0..tensor.rows() + 1;
        assert!(block_on(checkpoint.read_rows(&source, tensor, beyond, &mut rows)).is_err());
    }
    for tensor in checkpoint.unreadable() {
        assert!(tensor.problem.is_none() || tensor.dtype == "F8_E4M3");
        assert!(names.insert(tensor.name.as_str()), "{} twice", tensor.name);
        assert!(checkpoint.tensor(&tensor.name).is_err() && checkpoint.has(&tensor.name));
        held[tensor.file] += tensor.bytes;
    }
    for (file, held) in source.files().iter().zip(held) {
        assert!(held <= file.bytes, "tensors of {} share bytes", file.name);
    }
    match checkpoint.description() {
        Description::Gguf(metadata) => {
            for (key, value) in metadata.iter() {
                assert!(
                    metadata
                        .get(key)
                        .is_some_and(|found| std::ptr::eq(found, value))
                );
                let _ = (
                    metadata.opt_u32(key),
                    metadata.opt_u64(key),
                    metadata.opt_f32(key),
                );
                let _ = (metadata.opt_str(key), metadata.opt_bool(key));
                let _ = (metadata.opt_i32s(key), metadata.f32s(key));
                if let Ok(strings) = metadata.strings(key) {
                    assert_eq!(strings.iter().count(), strings.len());
                }
            }
        }
        Description::HuggingFace(described) => assert!(described.config.is_object()),
    }
    Ok(())
}
