//! Opens models of every kind of files, made by `gguf`, `safetensors` and `transformers`
//! (`tests/fixtures/make_weights_fixtures.py`), and names what is wrong with others.

use conclave_weights::{
    Checkpoint, CheckpointError, Description, Disk, Format, Gguf, GgufError, Memory,
    SafetensorsError, Source, Tensor, dequantise,
};
use pollster::block_on;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/weights");

/// The names and contents of a fixture's files.
type Files = Vec<(String, Vec<u8>)>;

fn files(folder: &str, part_of_name: &str) -> Files {
    let mut files: Files = std::fs::read_dir(format!("{FIXTURES}/{folder}"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .filter(|(name, _)| name.contains(part_of_name))
        .collect();
    files.sort();
    files
}

fn folder(name: &str) -> Files {
    files(name, "")
}

fn open(files: Files) -> Result<Checkpoint, CheckpointError> {
    block_on(Checkpoint::open(&Memory::new(files)))
}

fn without(mut files: Files, name: &str) -> Files {
    let before = files.len();
    files.retain(|(file, _)| file != name);
    assert_eq!(files.len(), before - 1);
    files
}

fn content<'a>(files: &'a mut Files, name: &str) -> &'a mut Vec<u8> {
    &mut files.iter_mut().find(|(file, _)| file == name).unwrap().1
}

fn read(checkpoint: &Checkpoint, source: &dyn Source, tensor: &Tensor) -> Vec<f32> {
    let mut bytes = Vec::new();
    block_on(checkpoint.read_rows(source, tensor, 0..tensor.rows(), &mut bytes)).unwrap();
    assert_eq!(bytes.len() as u64, tensor.bytes);
    let mut values = vec![0.0; usize::try_from(tensor.elements()).unwrap()];
    dequantise(tensor.format, &bytes, &mut values).unwrap();
    values
}

#[test]
fn a_gguf_file_is_a_model_whatever_its_name() {
    for name in ["values.gguf", "VALUES.GGUF", "a3f5c1"] {
        let bytes = std::fs::read(format!("{FIXTURES}/values.gguf")).unwrap();
        let whole = Gguf::parse_whole(&bytes).unwrap();
        let source = Memory::file(name, bytes.clone());
        let checkpoint = block_on(Checkpoint::open(&source)).unwrap();
        assert_eq!(checkpoint.tensors(), whole.tensors());
        assert_eq!(
            checkpoint.description(),
            &Description::Gguf(whole.metadata().clone())
        );
        let tensor = checkpoint.tensor("matrix.q8_0").unwrap();
        let mut rows = Vec::new();
        block_on(checkpoint.read_rows(&source, tensor, 1..3, &mut rows)).unwrap();
        assert_eq!(rows, whole.data_of(tensor, &bytes).unwrap()[68..]);
        for rows in [2..4, 4..4, std::ops::Range { start: 2, end: 1 }] {
            let start = rows.start;
            let error = block_on(checkpoint.read_rows(&source, tensor, rows, &mut Vec::new()));
            assert!(
                matches!(error, Err(CheckpointError::Rows { rows: 3, start: s, .. }) if s == start)
            );
        }
    }
}

#[test]
fn the_parts_of_a_split_model_are_one() {
    let checkpoint = open(files("", "split-")).unwrap();
    assert_eq!(checkpoint.tensors().len(), 5);
    let files_of: Vec<usize> = checkpoint
        .tensors()
        .iter()
        .map(|tensor| tensor.file)
        .collect();
    assert_eq!(files_of, [0, 0, 1, 1, 2]);
    let Description::Gguf(metadata) = checkpoint.description() else {
        panic!("a split GGUF is a GGUF");
    };
    assert_eq!(metadata.str("general.architecture"), Ok("llama"));
    // In any order, and from a path to any part.
    let mut turned = files("", "split-");
    turned.reverse();
    let turned = Memory::new(turned);
    let of_path = Disk::open(format!("{FIXTURES}/split-00002-of-00003.gguf")).unwrap();
    let reordered = block_on(Checkpoint::open(&turned)).unwrap();
    let from_disk = block_on(Checkpoint::open(&of_path)).unwrap();
    for tensor in checkpoint.tensors() {
        let [one, other] = [(&reordered, &turned as &dyn Source), (&from_disk, &of_path)].map(
            |(checkpoint, source)| {
                read(checkpoint, source, checkpoint.tensor(&tensor.name).unwrap())
            },
        );
        assert_eq!(one, other, "{}", tensor.name);
    }
}

#[test]
fn parts_that_do_not_make_a_whole_are_named() {
    let parts = || files("", "split-");
    let second = "split-00002-of-00003.gguf";
    assert_eq!(
        open(without(parts(), second)).unwrap_err(),
        CheckpointError::MissingFiles {
            files: second.to_owned()
        }
    );
    let alone = open(parts().drain(..1).collect()).unwrap_err();
    assert!(
        alone
            .to_string()
            .contains("split-00002-of-00003.gguf, split-00003-of-00003.gguf"),
        "{alone}"
    );
    let mut renamed: Files = parts().drain(..1).collect();
    renamed[0].0 = "model.gguf".to_owned();
    let error = open(renamed).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the other 2 parts of model.gguf"),
        "{error}"
    );
    // One part's content under another's name, one name twice, one number too many.
    let mut doubled = parts();
    doubled[1].1 = doubled[0].1.clone();
    assert!(
        matches!(open(doubled).unwrap_err(), CheckpointError::WrongPart { file, .. } if file == second)
    );
    let mut twice = parts();
    twice[2].0 = second.to_owned();
    assert!(
        matches!(open(twice).unwrap_err(), CheckpointError::WrongPart { file, .. } if file == second)
    );
    let mut beyond = parts();
    beyond[2].0 = "split-00004-of-00003.gguf".to_owned();
    assert!(
        matches!(open(beyond).unwrap_err(), CheckpointError::WrongPart { file, .. } if file.contains("00004"))
    );
    // Five tensors that are said to be six, and a name that occurs in two parts.
    let mut parts_with = parts();
    let key = b"split.tensors.count";
    let first = &mut parts_with[0].1;
    let at = first
        .windows(key.len())
        .position(|window| window == key)
        .unwrap()
        + key.len()
        + 4;
    first[at] = 6;
    assert_eq!(
        open(parts_with).unwrap_err(),
        CheckpointError::TensorCount {
            promised: 6,
            found: 5
        }
    );
    let mut same_name = parts();
    let third = &mut same_name[2].1;
    let at = third
        .windows(8)
        .position(|window| window == b"tensor.4")
        .unwrap();
    third[at + 7] = b'0';
    assert!(matches!(
        open(same_name).unwrap_err(),
        CheckpointError::DuplicateTensor { tensor, .. } if tensor == "tensor.0"
    ));
    let several = open(files("", ".gguf")).unwrap_err();
    assert!(
        matches!(&several, CheckpointError::Several { files } if files.contains("values.gguf")
            && files.contains("blocks.gguf")),
        "{several}"
    );
}

#[test]
fn a_folder_of_transformers_is_read_whole_and_in_shards() {
    let single = Memory::new(folder("single"));
    let sharded = Disk::open(format!("{FIXTURES}/sharded")).unwrap();
    let one = block_on(Checkpoint::open(&single)).unwrap();
    let several = block_on(Checkpoint::open(&sharded)).unwrap();
    assert_eq!(one.tensors().len(), 12);
    assert_eq!(several.tensors().len(), 12);
    let files_used: std::collections::BTreeSet<usize> =
        several.tensors().iter().map(|tensor| tensor.file).collect();
    assert_eq!(files_used.len(), 4);
    for tensor in one.tensors() {
        let other = several.tensor(&tensor.name).unwrap();
        assert_eq!((tensor.format, other.format), (Format::BF16, Format::F32));
        assert_eq!(tensor.shape, other.shape);
        let exact = read(&several, &sharded, other);
        for (rounded, exact) in read(&one, &single, tensor).into_iter().zip(exact) {
            assert!(
                (rounded - exact).abs() <= exact.abs() / 256.0,
                "{}",
                tensor.name
            );
        }
    }
    let Description::HuggingFace(described) = one.description() else {
        panic!("a folder is a folder");
    };
    assert_eq!(described.config["model_type"], "llama");
    assert_eq!(
        described.generation_config.as_ref().unwrap()["eos_token_id"],
        2
    );
    assert_eq!(described.tokenizer, None);
    // Against the values that torch printed; shapes are [in, out] here.
    let values = std::fs::read(format!("{FIXTURES}/single/values.json")).unwrap();
    let values: serde_json::Value = serde_json::from_slice(&values).unwrap();
    let tensor = one.tensor(values["name"].as_str().unwrap()).unwrap();
    assert_eq!(tensor.shape, [24, 16]);
    let torch: Vec<f32> = serde_json::from_value(values["values"].clone()).unwrap();
    assert_eq!(read(&one, &single, tensor), torch);
}

#[test]
fn the_text_files_of_a_folder_are_handed_on() {
    let mut with_text = folder("single");
    with_text.push(("tokenizer.json".to_owned(), b"{not parsed here}".to_vec()));
    with_text.push((
        "tokenizer_config.json".to_owned(),
        br#"{"bos_token": "<s>"}"#.to_vec(),
    ));
    with_text.push(("chat_template.jinja".to_owned(), "{{ 'ä' }}".into()));
    // A GGUF beside a folder's weights does not hide them.
    with_text.extend(files("", "values.gguf"));
    let checkpoint = open(with_text.clone()).unwrap();
    let Description::HuggingFace(described) = checkpoint.description() else {
        panic!("a folder is a folder");
    };
    assert_eq!(
        described.tokenizer.as_deref(),
        Some(&b"{not parsed here}"[..])
    );
    assert_eq!(
        described.tokenizer_config.as_ref().unwrap()["bos_token"],
        "<s>"
    );
    assert_eq!(described.chat_template.as_deref(), Some("{{ 'ä' }}"));

    for (name, bad) in [
        ("config.json", &b"{\"a\": 1, \"a\": 2}"[..]),
        ("config.json", b"[]"),
        ("tokenizer_config.json", b"{"),
        ("generation_config.json", b"\xff"),
    ] {
        let mut damaged = with_text.clone();
        *content(&mut damaged, name) = bad.to_vec();
        assert!(
            matches!(open(damaged).unwrap_err(), CheckpointError::Json { file, .. } if file == name)
        );
    }
    *content(&mut with_text, "chat_template.jinja") = vec![0xff];
    assert!(matches!(
        open(with_text.clone()).unwrap_err(),
        CheckpointError::Utf8 { .. }
    ));
    *content(&mut with_text, "config.json") = vec![b' '; (4 << 20) + 1];
    assert!(matches!(
        open(with_text).unwrap_err(),
        CheckpointError::LongFile { .. }
    ));
}

#[test]
fn numbers_that_cannot_be_read_are_refused_on_use() {
    let source = Memory::new(folder("mixed"));
    let checkpoint = block_on(Checkpoint::open(&source)).unwrap();
    let names: Vec<&str> = checkpoint
        .tensors()
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let third = |index: usize| index as f32 / 3.0;
    let tensor = checkpoint.tensor("f32").unwrap();
    assert_eq!(
        (&tensor.shape[..], tensor.rows(), tensor.cols()),
        (&[3, 2][..], 2, 3)
    );
    assert_eq!(
        read(&checkpoint, &source, tensor),
        [0, 1, 2, 3, 4, 5].map(third)
    );
    let tensor = checkpoint.tensor("bf16").unwrap();
    assert_eq!((&tensor.shape[..], tensor.rows()), (&[4, 3, 2][..], 6));
    assert_eq!(
        read(&checkpoint, &source, tensor)[..4],
        [0.0, 0.333_984_38, 0.667_968_75, 1.0]
    );
    let half: Vec<f32> = read(&checkpoint, &source, checkpoint.tensor("f16").unwrap());
    assert_eq!(half[..2], [-1.0, -0.666_503_9]);
    let scalar = checkpoint.tensor("scalar").unwrap();
    assert_eq!(
        (scalar.rows(), read(&checkpoint, &source, scalar)),
        (1, vec![0.25])
    );

    for (name, dtype) in [
        ("i64", "I64"),
        ("bool", "BOOL"),
        ("f8", "F8_E4M3"),
        ("empty", "F32"),
    ] {
        assert!(checkpoint.has(name) && checkpoint.find(name).is_none());
        let error = checkpoint.tensor(name).unwrap_err();
        assert_eq!(
            error,
            CheckpointError::Dtype {
                tensor: name.to_owned(),
                dtype: dtype.to_owned()
            }
        );
    }
    assert!(!checkpoint.has("nothing"));
    assert_eq!(
        checkpoint.tensor("nothing").unwrap_err(),
        CheckpointError::Quantised {
            tensor: "nothing".to_owned(),
            method: "fp8".to_owned()
        }
    );
}

#[test]
fn a_folder_that_lacks_something_says_what() {
    let missing = |files: Files| match open(files).unwrap_err() {
        CheckpointError::MissingFiles { files } => files,
        error => panic!("{error}"),
    };
    assert_eq!(
        missing(without(folder("single"), "config.json")),
        "config.json"
    );
    assert_eq!(
        missing(without(folder("single"), "model.safetensors")),
        "model.safetensors"
    );
    let index = "model.safetensors.index.json";
    assert_eq!(missing(without(folder("sharded"), index)), index);
    let second = "model-00002-of-00004.safetensors";
    assert_eq!(missing(without(folder("sharded"), second)), second);

    let mut pickled = without(folder("single"), "model.safetensors");
    pickled.push(("pytorch_model.bin".to_owned(), vec![0x80, 2]));
    assert!(matches!(
        open(pickled).unwrap_err(),
        CheckpointError::Pickle { .. }
    ));
    assert!(matches!(
        open(Vec::new()).unwrap_err(),
        CheckpointError::Nothing { .. }
    ));
    let pictures = ["a.png", "b.png"].map(|name| (name.to_owned(), vec![0]));
    assert!(matches!(
        open(pictures.to_vec()).unwrap_err(),
        CheckpointError::Nothing { files } if files == "a.png, b.png"
    ));
    assert!(matches!(
        open(pictures[..1].to_vec()).unwrap_err(),
        CheckpointError::Gguf { file, error: GgufError::Truncated { .. } } if file == "a.png"
    ));
    assert!(Disk::open(format!("{FIXTURES}/nowhere")).is_err());
}

#[test]
fn an_index_that_differs_from_its_shards_is_refused() {
    let with_index = |from: &str, to: &str| {
        let mut files = folder("sharded");
        let index = content(&mut files, "model.safetensors.index.json");
        let text = String::from_utf8(index.clone()).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{text}");
        *index = text.replace(from, to).into_bytes();
        open(files).unwrap_err()
    };
    let norm = "\"model.norm.weight\": \"model-0000";
    let text = std::fs::read_to_string(format!("{FIXTURES}/sharded/model.safetensors.index.json"));
    let at = text.as_ref().unwrap().find(norm).unwrap() + norm.len();
    let shard = &text.as_ref().unwrap()[at..=at];
    let other = if shard == "1" { "2" } else { "1" };
    let entry = format!("{norm}{shard}");
    let error = with_index(&entry, &format!("{norm}{other}"));
    let (CheckpointError::Unlisted { tensor, .. } | CheckpointError::NotInShard { tensor, .. }) =
        &error
    else {
        panic!("{error}");
    };
    assert_eq!(tensor, "model.norm.weight");
    let file = format!("model-0000{shard}-of-00004.safetensors");
    assert_eq!(
        with_index(&entry, &format!("\"ghost\": \"{file}\", {entry}")),
        CheckpointError::NotInShard {
            tensor: "ghost".to_owned(),
            file: file.clone()
        }
    );
    assert_eq!(
        with_index("\"model.norm.weight\"", "\"other\""),
        CheckpointError::Unlisted {
            tensor: "model.norm.weight".to_owned(),
            file: file.clone()
        }
    );
    let twice = with_index(
        &entry,
        &format!("\"model.norm.weight\": \"{file}\", {entry}"),
    );
    assert!(
        matches!(&twice, CheckpointError::Json { reason, .. } if reason.contains("`model.norm.weight` occurs twice")),
        "{twice}"
    );
    let away = with_index(
        &entry,
        "\"model.norm.weight\": \"../x.safetensors\", \"y\": \"0",
    );
    assert!(
        matches!(&away, CheckpointError::MissingFiles { files } if files.contains("../x.safetensors"))
    );
}

/// A folder whose safetensors file has this header and as many bytes of data.
fn with_header(header: &str, data: usize) -> Result<Checkpoint, SafetensorsError> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + data, 0);
    of_file(file)
}

fn of_file(file: Vec<u8>) -> Result<Checkpoint, SafetensorsError> {
    open(vec![
        ("config.json".to_owned(), b"{}".to_vec()),
        ("model.safetensors".to_owned(), file),
    ])
    .map_err(|error| match error {
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
        assert!(
            matches!(of_file(file), Err(SafetensorsError::LongHeader { bytes, .. }) if bytes == length)
        );
    }
    for file in [
        Vec::new(),
        vec![1; 7],
        [9_u64.to_le_bytes().to_vec(), vec![b' '; 8]].concat(),
    ] {
        let length = file.len() as u64;
        assert!(
            matches!(of_file(file), Err(SafetensorsError::Truncated { length: l, .. }) if l == length)
        );
    }
}
