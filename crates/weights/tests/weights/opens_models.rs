//! Opens models of every kind of files, made by `gguf`, `safetensors` and `transformers`
//! (`tests/fixtures/make_weights_fixtures.py`), and names the faults of others.

use crate::fixture::{FIXTURES, Files, files, open, read};
use conclave_weights::{
    Checkpoint, CheckpointError, Description, Disk, Format, Gguf, GgufError, Memory,
};
use pollster::block_on;

fn folder(name: &str) -> Files {
    files(name, "")
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
        let data = &bytes[tensor.offset as usize..][..tensor.bytes as usize];
        assert_eq!(rows, data[68..]);
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

/// `json.dumps` writes the time steps of Granite 4's hybrids so.
#[test]
fn every_json_file_may_have_pythons_numbers() {
    let mut files = folder("single");
    for (name, field) in [
        ("config.json", r#""time_step_limit": [0.0, Infinity]"#),
        ("generation_config.json", r#""bias": -Infinity"#),
        ("tokenizer_config.json", r#""loss": NaN"#),
        ("tokenizer.json", r#""scores": [NaN, "NaN", Infinity]"#),
        ("chat_template.json", r#""chat_template": "NaN", "x": NaN"#),
    ] {
        files.retain(|(file, _)| file != name);
        let text = format!("{{{field}, \"model_type\": \"llama\"}}");
        files.push((name.to_owned(), text.into()));
    }
    let checkpoint = block_on(Checkpoint::open(&Memory::new(files))).unwrap();
    let Description::HuggingFace(described) = checkpoint.description() else {
        panic!("a folder");
    };
    assert_eq!(
        described.config["time_step_limit"],
        serde_json::json!([0.0, null])
    );
    let lowest = &described.generation_config.as_ref().unwrap()["bias"];
    assert!(lowest.is_null());
    assert!(described.tokenizer_config.as_ref().unwrap()["loss"].is_null());
    let tokenizer = described.tokenizer.as_deref().unwrap();
    let tokenizer: serde_json::Value = serde_json::from_slice(tokenizer).unwrap();
    assert_eq!(tokenizer["scores"], serde_json::json!([null, "NaN", null]));
    assert_eq!(described.other_templates[0], "NaN");
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
            method: "gptq".to_owned()
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
    // The only file may have another name, but not that of an adapter or a part.
    for (name, whole) in [
        ("weights.safetensors", true),
        ("pytorch_model.safetensors", true),
        ("adapter_model.safetensors", false),
        ("model-00001-of-00002.safetensors", false),
    ] {
        let mut renamed = folder("single");
        let file = renamed
            .iter_mut()
            .find(|(file, _)| file == "model.safetensors");
        name.clone_into(&mut file.unwrap().0);
        assert_eq!(open(renamed.clone()).is_ok(), whole, "{name}");
        if whole {
            renamed.push(("other.safetensors".to_owned(), Vec::new()));
            missing(renamed);
        }
    }
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
    let missing = Disk::open(format!("{FIXTURES}/nowhere")).unwrap_err();
    assert!(
        missing.to_string().contains("check that it is still there"),
        "{missing}"
    );
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
        matches!(
            &twice,
            CheckpointError::Json { reason, .. }
                if reason.contains("`model.norm.weight` occurs twice")
        ),
        "{twice}"
    );
    let away = with_index(
        &entry,
        "\"model.norm.weight\": \"../x.safetensors\", \"y\": \"0",
    );
    assert!(matches!(
        &away,
        CheckpointError::MissingFiles { files } if files.contains("../x.safetensors")
    ));
}
