//! Reads files written by the `gguf` Python package (`tests/fixtures/make_weights_fixtures.py`) and
//! checks that every kind of fault is distinguished and named.

use conclave_weights::{Array, Format, Gguf, GgufError, Metadata, Tensor, Value};

const VALUES: &[u8] = include_bytes!("../../../../tests/fixtures/weights/values.gguf");
const ALIGNED: &[u8] = include_bytes!("../../../../tests/fixtures/weights/aligned.gguf");

fn values() -> Gguf {
    Gguf::parse_whole(VALUES).unwrap()
}

fn tensor<'a>(gguf: &'a Gguf, name: &str) -> &'a Tensor {
    let mut tensors = gguf.tensors().iter();
    tensors.find(|tensor| tensor.name == name).unwrap()
}

/// Offset of the values file's data.
fn data_start() -> u64 {
    tensor(&values(), "vector").offset
}

/// The position of the only occurrence of `needle` in the values file.
fn find(needle: &[u8]) -> usize {
    let mut found = VALUES
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle);
    let position = found.next().unwrap().0;
    assert!(found.next().is_none(), "{needle:?} is not unique");
    position
}

/// The values file with some bytes replaced.
fn patched(at: usize, bytes: &[u8]) -> Result<Gguf, GgufError> {
    let mut file = VALUES.to_vec();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    Gguf::parse_whole(&file)
}

/// Position right after a key: of its value type.
fn after_key(key: &str) -> usize {
    find(key.as_bytes()) + key.len()
}

/// Position right after a tensor's name: of its number of dimensions.
fn after_tensor(name: &str) -> usize {
    let mut entry = (name.len() as u64).to_le_bytes().to_vec();
    entry.extend_from_slice(name.as_bytes());
    find(&entry) + entry.len()
}

#[test]
fn every_value_type_is_read() {
    let gguf = values();
    let metadata = gguf.metadata();
    let expected = [
        ("test.u8", Value::U8(200)),
        ("test.i8", Value::I8(-100)),
        ("test.u16", Value::U16(60000)),
        ("test.i16", Value::I16(-30000)),
        ("test.u32", Value::U32(4_000_000_000)),
        ("test.i32", Value::I32(-2_000_000_000)),
        ("test.u64", Value::U64((1 << 63) + 5)),
        ("test.i64", Value::I64(-(1 << 62))),
        ("test.f32", Value::F32(0.5)),
        ("test.f64", Value::F64(1e300)),
        ("test.bool", Value::Bool(true)),
        ("test.string", Value::String("größer 🙂".to_owned())),
        (
            "test.strings",
            Value::Array(Array::Strings(["", "a", "日本", "\0b"].iter().collect())),
        ),
        ("test.i32s", Value::Array(Array::I32(vec![1, -2, 3]))),
        ("test.f32s", Value::Array(Array::F32(vec![0.25, -1.5]))),
        (
            "test.bools",
            Value::Array(Array::Bool(vec![true, false, true])),
        ),
        (
            "test.u32s",
            Value::Array(Array::U32(vec![1, 2, 4_000_000_000])),
        ),
        ("test.u16s", Value::Array(Array::U16(vec![1, 65535]))),
        ("test.u64s", Value::Array(Array::U64(vec![1 << 40]))),
        (
            "test.nested",
            Value::Array(Array::Arrays(vec![
                Array::I32(vec![1, 2]),
                Array::I32(vec![3]),
            ])),
        ),
        ("general.architecture", Value::String("llama".to_owned())),
        ("llama.block_count", Value::U32(2)),
    ];
    for (key, value) in &expected {
        assert_eq!(metadata.get(key), Some(value), "{key}");
    }
    assert_eq!(metadata.iter().len(), expected.len());
}

#[test]
fn accessors_take_any_width_that_fits_and_name_the_key_otherwise() {
    let gguf = values();
    let metadata = gguf.metadata();
    assert_eq!(metadata.opt_u32("test.u8"), Ok(Some(200)));
    assert_eq!(metadata.opt_u64("test.u64"), Ok(Some((1 << 63) + 5)));
    assert_eq!(metadata.opt_f32("test.i8"), Ok(Some(-100.0)));
    assert_eq!(metadata.opt_bool("test.bool"), Ok(Some(true)));
    assert_eq!(metadata.str("test.string"), Ok("größer 🙂"));
    assert_eq!(
        metadata.strings("test.strings").unwrap().get(2),
        Some("日本")
    );
    assert_eq!(metadata.strings("test.strings").unwrap().get(4), None);
    assert_eq!(
        metadata.opt_i32s("test.u16s").unwrap().as_deref(),
        Some(&[1, 65535][..])
    );
    assert_eq!(metadata.f32s("test.f32s"), Ok(&[0.25, -1.5][..]));
    assert_eq!(metadata.opt_u32("absent"), Ok(None));

    let message = metadata.str("absent").unwrap_err().to_string();
    assert!(message.contains("`absent` is missing"), "{message}");
    for (key, part) in [
        ("test.i8", "`test.i8` is the integer -100"),
        ("test.u64", "`test.u64`"),
        ("test.string", "`test.string` is the string \"größer 🙂\""),
        ("test.strings", "an array of 4 strings"),
    ] {
        let message = metadata.opt_u32(key).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    assert!(
        metadata.opt_i32s("test.u32s").is_err(),
        "4,000,000,000 is no i32"
    );
}

#[test]
fn tensors_have_their_shape_and_place() {
    let gguf = values();
    let shapes: Vec<_> = gguf
        .tensors()
        .iter()
        .map(|tensor| {
            (
                tensor.name.as_str(),
                tensor.shape.as_slice(),
                tensor.format,
                tensor.bytes,
            )
        })
        .collect();
    assert_eq!(
        shapes,
        [
            ("vector", &[5][..], Format::F32, 20),
            ("matrix.f16", &[8, 3], Format::F16, 48),
            ("matrix.q8_0", &[64, 3], Format::Q8_0, 3 * 2 * 34),
            ("matrix.q4_0", &[32, 5], Format::Q4_0, 5 * 18),
            ("cube", &[4, 3, 2], Format::F32, 96),
            ("four", &[2, 2, 2, 2], Format::F32, 64),
        ]
    );
    let matrix = tensor(&gguf, "matrix.q8_0");
    assert_eq!(
        (matrix.cols(), matrix.rows(), matrix.elements()),
        (64, 3, 192)
    );
    let vector = tensor(&gguf, "vector");
    assert_eq!((vector.cols(), vector.rows()), (5, 1));

    let cube = tensor(&gguf, "cube");
    let numbers: Vec<f32> = VALUES[cube.offset as usize..][..cube.bytes as usize]
        .chunks(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(numbers, (0..24_u8).map(f32::from).collect::<Vec<_>>());
}

#[test]
fn other_alignments_and_version_2_are_read() {
    let gguf = Gguf::parse_whole(ALIGNED).unwrap();
    let (first, second) = (gguf.tensors()[0].offset, tensor(&gguf, "second").offset);
    assert_eq!((first % 128, second), (0, first + 128));
    assert_eq!(ALIGNED[second as usize..][..4], 6.0_f32.to_le_bytes());

    let old = patched(4, &2_u32.to_le_bytes()).unwrap();
    assert_eq!(old.tensors(), values().tensors());
    for version in [0_u32, 1, 4] {
        assert_eq!(
            patched(4, &version.to_le_bytes()).unwrap_err(),
            GgufError::Version { version }
        );
    }
    let swapped = patched(4, &3_u32.to_be_bytes());
    assert_eq!(swapped.unwrap_err(), GgufError::BigEndian);
}

#[test]
fn a_header_can_arrive_in_pieces() {
    let data_start = data_start() as usize;
    let mut have = 0;
    let mut attempts = 0;
    let gguf = loop {
        match Gguf::parse(&VALUES[..have]) {
            Ok(gguf) => break gguf,
            Err(GgufError::NeedMore { at_least, .. }) => {
                let at_least = usize::try_from(at_least).unwrap();
                assert!(at_least > have, "asks for {at_least} bytes, has {have}");
                assert!(at_least <= data_start, "asks for bytes beyond the header");
                have = at_least;
                attempts += 1;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert!(attempts > 50);
    assert_eq!(gguf.tensors(), values().tensors());
    assert_eq!(gguf.metadata(), values().metadata());
}

#[test]
fn a_truncated_file_is_told_from_a_good_one_at_every_length() {
    let data_start = data_start() as usize;
    let last = values().tensors().last().cloned().unwrap();
    let end = usize::try_from(last.offset + last.bytes).unwrap();
    for length in 0..VALUES.len() {
        let result = Gguf::parse_whole(&VALUES[..length]);
        if length >= end {
            assert!(result.is_ok(), "only padding is cut off at {length}");
            continue;
        }
        let Err(GgufError::Truncated {
            what,
            needed,
            length: had,
        }) = result
        else {
            panic!("a file cut at {length} bytes gave {result:?}");
        };
        assert_eq!(had, length as u64);
        assert!(needed > had);
        assert_eq!(
            what.starts_with("tensor `"),
            length >= data_start - 31 && !what.contains("entry"),
            "{what}"
        );
    }
}

#[test]
fn damage_is_named() {
    assert_eq!(
        patched(0, b"GGML").unwrap_err(),
        GgufError::Magic { found: *b"GGML" }
    );

    let u8_type = after_key("test.u8");
    assert_eq!(
        patched(u8_type, &13_u32.to_le_bytes()).unwrap_err(),
        GgufError::UnknownValueType {
            key: "test.u8".to_owned(),
            type_id: 13
        }
    );
    assert_eq!(
        patched(after_key("test.bool\x07") + 3, &[2]).unwrap_err(),
        GgufError::Boolean {
            key: "test.bool".to_owned(),
            byte: 2
        }
    );
    assert_eq!(
        patched(find("größer".as_bytes()), &[0xff]).unwrap_err(),
        GgufError::Utf8 {
            what: "metadata key `test.string`".to_owned()
        }
    );
    assert_eq!(
        patched(find(b"test.i16"), b"test.i64").unwrap_err(),
        GgufError::DuplicateKey {
            key: "test.i64".to_owned()
        }
    );
    // Arrays whose inner types are arrays again, without end.
    let mut deep = VALUES[..after_key("test.nested")].to_vec();
    deep.extend_from_slice(&9_u32.to_le_bytes());
    for _ in 0..100_000 {
        deep.extend_from_slice(&9_u32.to_le_bytes());
        deep.extend_from_slice(&1_u64.to_le_bytes());
    }
    assert_eq!(
        Gguf::parse(&deep).unwrap_err(),
        GgufError::TooDeep {
            key: "test.nested".to_owned(),
            limit: 4
        }
    );

    let cube = after_tensor("cube");
    assert!(matches!(
        patched(cube, &5_u32.to_le_bytes()).unwrap_err(),
        GgufError::Shape { tensor, .. } if tensor == "cube"
    ));
    for (dimension, reason) in [(0, "a dimension is zero"), (u64::MAX, "its size overflows")] {
        assert_eq!(
            patched(cube + 4, &u64::to_le_bytes(dimension)).unwrap_err(),
            GgufError::Shape {
                tensor: "cube".to_owned(),
                shape: vec![dimension, 3, 2],
                reason
            }
        );
    }
    assert!(matches!(
        patched(after_tensor("matrix.q8_0") + 4, &48_u64.to_le_bytes()).unwrap_err(),
        GgufError::Shape { tensor, reason, .. }
            if tensor == "matrix.q8_0" && reason.contains("blocks")
    ));
    let cube_type = cube + 4 + 3 * 8;
    let unknown = patched(cube_type, &19_u32.to_le_bytes()).unwrap_err();
    assert!(matches!(
        &unknown,
        GgufError::UnknownFormat { type_id: 19, .. }
    ));
    assert!(
        unknown
            .to_string()
            .contains("`cube` has ggml type 19 (IQ1_S)"),
        "{unknown}"
    );
    assert!(
        patched(cube_type, &999_u32.to_le_bytes())
            .unwrap_err()
            .to_string()
            .contains("999 (unknown)")
    );

    let cube_offset = cube_type + 4;
    let offset = tensor(&values(), "cube").offset - data_start();
    let at = |offset: u64| patched(cube_offset, &offset.to_le_bytes()).unwrap_err();
    assert!(matches!(at(offset + 1), GgufError::Misaligned { tensor, .. } if tensor == "cube"));
    assert!(matches!(
        at(0),
        GgufError::Overlap { tensor, other } if (tensor == "cube") != (other == "cube")
    ));
    assert!(matches!(at(u64::MAX - 31), GgufError::Offset { tensor, .. } if tensor == "cube"));
    assert!(matches!(at(1 << 40), GgufError::Truncated { what, .. } if what == "tensor `cube`"));
    assert_eq!(
        patched(after_tensor("four") - 4, b"cube").unwrap_err(),
        GgufError::DuplicateTensor {
            tensor: "cube".to_owned()
        }
    );
}

#[test]
fn absurd_counts_are_refused_before_memory_is_taken() {
    for at in [
        8,
        16,
        after_key("test.strings") + 8,
        after_key("test.string\x08") + 3,
    ] {
        for count in [u64::MAX, 1 << 62, 1 << 33, VALUES.len() as u64] {
            let error = patched(at, &count.to_le_bytes()).unwrap_err();
            assert!(
                matches!(error, GgufError::Truncated { .. }),
                "{count} at {at}: {error}"
            );
        }
    }
}

#[test]
fn metadata_can_be_built() {
    let mut metadata = Metadata::default();
    metadata.set("a", Value::U32(1));
    assert_eq!(metadata.opt_u32("a"), Ok(Some(1)));
    assert_eq!(metadata.iter().collect::<Vec<_>>(), [("a", &Value::U32(1))]);
}
