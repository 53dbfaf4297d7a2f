//! Files that are no model, or a piece of one, are named for what they are.

use conclave_weights::{Checkpoint, CheckpointError, Description, Disk, Memory, Source};

const POINTER: &[u8] =
    b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 270000000\n";
const PAGE: &[u8] = b"\n<!DOCTYPE html>\n<html><head><title>404</title></head></html>";

fn open(source: &dyn Source) -> Result<Checkpoint, CheckpointError> {
    pollster::block_on(Checkpoint::open(source))
}

fn refused(files: &[(&str, &[u8])]) -> String {
    let files = files
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
    let source = Memory::new(files.collect());
    match open(&source) {
        Ok(_) => panic!("it is no model"),
        Err(error) => error.to_string(),
    }
}

/// A GGUF header without tensors that says this of itself.
fn gguf(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend((entries.len() as u64).to_le_bytes());
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    for (key, value) in entries {
        text(&mut bytes, key);
        bytes.extend(8_u32.to_le_bytes());
        text(&mut bytes, value);
    }
    bytes
}

fn fixture(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/members/");
    std::fs::read(format!("{folder}{name}")).unwrap()
}

#[test]
fn what_stands_for_a_file_is_no_file() {
    for (bytes, word) in [(POINTER, "git lfs pull"), (PAGE, "web page")] {
        let config: &[u8] = b"{}";
        for files in [
            &[("x.gguf", bytes)][..],
            &[("model.safetensors", bytes), ("config.json", config)],
            &[("model.safetensors.index.json", bytes)],
        ] {
            let told = refused(files);
            assert!(
                told.starts_with(files[0].0) && told.contains(word),
                "{told}"
            );
        }
    }
    // An empty safetensors file: two bytes of header.
    let empty: &[u8] = b"\x02\0\0\0\0\0\0\0{}";
    for name in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    ] {
        let mut files = vec![("model.safetensors", empty), (name, POINTER)];
        if name != "config.json" {
            files.push(("config.json", b"{}"));
        }
        let told = refused(&files);
        assert!(
            told.starts_with(name) && told.contains("git-LFS pointer"),
            "{told}"
        );
    }
}

#[test]
fn what_stands_beside_a_language_model_is_left_out() {
    let model = fixture("ada.gguf");
    let others = [
        (
            "mmproj-x.gguf",
            [("general.architecture", "clip")],
            "mmproj",
        ),
        ("lora.gguf", [("general.type", "adapter")], "adapter"),
        (
            "imatrix.gguf",
            [("general.type", "imatrix")],
            "importance matrix",
        ),
    ];
    for (name, says, word) in others {
        let other = gguf(&says);
        let both = Memory::new(vec![
            (name.to_owned(), other.clone()),
            ("x.gguf".to_owned(), model.clone()),
        ]);
        let opened = open(&both).expect("the language model is taken");
        assert!(!opened.tensors().is_empty() && opened.tensors().iter().all(|one| one.file == 1));
        let told = refused(&[(name, &other)]);
        assert!(told.contains(name) && told.contains(word), "{told}");
    }
    assert!(refused(&[("a.gguf", &model), ("b.gguf", &model)]).contains("several models"));
    let adapter = refused(&[
        ("adapter_config.json", b"{}"),
        ("adapter_model.safetensors", b""),
    ]);
    assert!(adapter.contains("adapter (LoRA)"), "{adapter}");
}

#[test]
fn pieces_that_were_cut_by_bytes_are_to_be_joined() {
    let model = fixture("ada.gguf");
    let (first, second) = model.split_at(model.len() / 2);
    for (one, other) in [
        ("x.gguf.part1of2", "x.gguf.part2of2"),
        ("x.gguf-split-a", "x.gguf-split-b"),
        ("x.gguf.001", "x.gguf.002"),
    ] {
        for files in [
            &[(one, first)][..],
            &[(other, second)],
            &[(one, first), (other, second)],
        ] {
            let told = refused(files);
            assert!(told.contains("joined they are a model"), "{told}");
        }
    }
    assert!(refused(&[("x.gguf", first)]).contains("truncated"));
}

#[test]
fn a_file_of_a_folder_is_the_folder() {
    let folder = std::env::temp_dir().join(format!("conclave-folder-{}", std::process::id()));
    let more = folder.join("additional_chat_templates");
    std::fs::create_dir_all(&more).unwrap();
    std::fs::write(folder.join("model.safetensors"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
    std::fs::write(folder.join("config.json"), b"\xef\xbb\xbf{}").unwrap();
    // Editors on Windows begin files so.
    for name in [
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ] {
        std::fs::write(folder.join(name), b"\xef\xbb\xbf{}").unwrap();
    }
    std::fs::write(folder.join("merges.txt"), b"a b").unwrap();
    std::fs::write(
        folder.join("chat_template.json"),
        br#"{"chat_template": "json"}"#,
    )
    .unwrap();
    std::fs::write(more.join("rag.jinja"), b"rag").unwrap();
    for path in [
        folder.clone(),
        folder.join("model.safetensors"),
        folder.join("config.json"),
        folder.join("tokenizer.json"),
        folder.join("tokenizer_config.json"),
        folder.join("merges.txt"),
    ] {
        let opened = open(&Disk::open(&path).unwrap()).expect("it is a folder of a model");
        let Description::HuggingFace(described) = opened.description() else {
            panic!("it is a folder");
        };
        let wanted = [
            serde_json::json!("json"),
            serde_json::json!({ "rag": "rag" }),
        ];
        assert_eq!(described.other_templates, wanted);
        assert_eq!(described.tokenizer.as_deref(), Some(&b"{}"[..]));
        assert_eq!(described.tokenizer_config, Some(serde_json::json!({})));
        assert_eq!(described.generation_config, described.tokenizer_config);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
