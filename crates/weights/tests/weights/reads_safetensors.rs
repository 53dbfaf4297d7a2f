//! Faults of safetensors files are named.

use conclave_weights::{Checkpoint, CheckpointError, Memory, SafetensorsError};
use pollster::block_on;

/// A folder whose safetensors file has this header and as many bytes of data.
fn with_header(header: &str, data: usize) -> Result<Checkpoint, SafetensorsError> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + data, 0);
    of_file(file)
}

fn of_file(file: Vec<u8>) -> Result<Checkpoint, SafetensorsError> {
    let source = Memory::new(vec![
        ("config.json".to_owned(), b"{}".to_vec()),
        ("model.safetensors".to_owned(), file),
    ]);
    block_on(Checkpoint::open(&source)).map_err(|error| match error {
        CheckpointError::Safetensors { file, error } => {
            assert_eq!(file, "model.safetensors");
            error
        }
        error => panic!("{error}"),
    })
}

#[test]
fn damage_in_safetensors_is_named() {
    let entry = |name: &str, shape: &str, start: u64, end: u64| {
        format!(
            r#""{name}": {{"dtype": "F32", "shape": {shape}, "data_offsets": [{start}, {end}]}}"#
        )
    };
    let sound = format!(
        "{{{}, {}}}  ",
        entry("a", "[2]", 0, 8),
        entry("b", "[]", 8, 12)
    );
    assert_eq!(with_header(&sound, 12).unwrap().tensors().len(), 2);
    assert_eq!(with_header("{}", 0).unwrap().tensors().len(), 0);

    assert_eq!(
        with_header(&sound, 13).unwrap_err(),
        SafetensorsError::Hole { start: 12, end: 13 }
    );
    let start = 8 + sound.len() as u64;
    assert_eq!(
        with_header(&sound, 11).unwrap_err(),
        SafetensorsError::Truncated {
            needed: start + 12,
            length: start + 11
        }
    );
    let two = |one: (u64, u64), other: (u64, u64), data| {
        let one = entry("a", "[2]", one.0, one.1);
        with_header(
            &format!("{{{one}, {}}}", entry("b", "[1]", other.0, other.1)),
            data,
        )
    };
    assert_eq!(
        two((0, 8), (9, 13), 13).unwrap_err(),
        SafetensorsError::Hole { start: 8, end: 9 }
    );
    assert_eq!(
        two((0, 8), (4, 8), 8).unwrap_err(),
        SafetensorsError::Overlap {
            tensor: "b".to_owned(),
            other: "a".to_owned()
        }
    );
    for (one, other) in [((0, 4), (4, 8)), ((0, 9), (9, 13)), ((8, 0), (0, 4))] {
        let error = two(one, other, 8.max(other.1 as usize)).unwrap_err();
        assert!(
            matches!(&error, SafetensorsError::Place { tensor, .. } if tensor == "a"),
            "{error}"
        );
    }
    for shape in ["[18446744073709551615, 2]", "[4294967296, 4294967296]"] {
        let error = with_header(&format!("{{{}}}", entry("a", shape, 0, 8)), 8).unwrap_err();
        assert!(matches!(error, SafetensorsError::Shape { tensor, .. } if tensor == "a"));
    }
    assert_eq!(
        with_header(&format!("{{{0}, {0}}}", entry("a", "[2]", 0, 8)), 8).unwrap_err(),
        SafetensorsError::DuplicateTensor {
            tensor: "a".to_owned()
        }
    );
    let reason = |header: &str| match with_header(header, 8).unwrap_err() {
        SafetensorsError::Header { reason } => reason,
        error => panic!("{error}"),
    };
    let doubled =
        r#"{"a": {"dtype": "F32", "dtype": "F16", "shape": [2], "data_offsets": [0, 8]}}"#;
    assert!(
        reason(doubled).contains("tensor `a`: duplicate field"),
        "{}",
        reason(doubled)
    );
    for header in [
        "",
        "[]",
        "{",
        "{} {}",
        r#"{"a": 1}"#,
        r#"{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 9]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 18446744073709551616]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [2]}}"#,
    ] {
        assert!(!reason(header).is_empty());
    }
    let nested = format!("{{\"__metadata__\": {}", "[".repeat(100_000));
    assert!(!reason(&nested).is_empty());

    for (length, data) in [(u64::MAX, 8), (100_000_001, 8)] {
        let file = [length.to_le_bytes().to_vec(), vec![0; data]].concat();
        assert!(matches!(
            of_file(file),
            Err(SafetensorsError::LongHeader { bytes, .. }) if bytes == length
        ));
    }
    for file in [
        Vec::new(),
        vec![1; 7],
        [9_u64.to_le_bytes().to_vec(), vec![b' '; 8]].concat(),
    ] {
        let length = file.len() as u64;
        assert!(matches!(
            of_file(file),
            Err(SafetensorsError::Truncated { length: l, .. }) if l == length
        ));
    }
}
