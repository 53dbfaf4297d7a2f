//! Files that are no model, or a piece of one, are named for what they are.

use conclave_weights::{
    Checkpoint, CheckpointError, Description, Disk, Memory, Source, refuse_no_template,
};

const POINTER: &[u8] =
    b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 270000000\n";
const PAGE: &[u8] = b"\n<!DOCTYPE html>\n<html><head><title>404</title></head></html>";

fn open(source: &dyn Source) -> Result<Checkpoint, CheckpointError> {
    pollster::block_on(Checkpoint::open(source))
}

fn memory(files: &[(&str, &[u8])]) -> Memory {
    let files = files
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
    Memory::new(files.collect())
}

fn refused(files: &[(&str, &[u8])]) -> String {
    match open(&memory(files)) {
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
fn what_is_no_template_is_named() {
    let torch: &[u8] = b"PK\x03\x04\0\0\x08\x08\0\0archive/data.pkl";
    for (bytes, words) in [
        (POINTER, "is a git-LFS pointer"),
        (PAGE, "is a web page"),
        (
            b"../.git/annex/objects/Gx/x.jinja",
            "is a git-annex pointer",
        ),
        (
            b"{\"error\":\"Invalid credentials\"}",
            "if a server replied so",
        ),
        (b"GGUF\x03\0\0\0", "is a GGUF file: name a file of Jinja"),
        (
            b"\x02\0\0\0\0\0\0\0{}",
            "is a safetensors file: name a file",
        ),
        (b"PK\x03\x04\x14\0\0\0", "is a zip archive: unpack it"),
        (torch, "pickled Python objects"),
        (b"{{ 'caf\xe9' }}", "is not valid UTF-8: save it"),
    ] {
        let told = refuse_no_template("--template x", bytes).unwrap_err();
        let told = told.to_string();
        assert!(
            told.starts_with("--template x ") && told.contains(words),
            "{told}"
        );
    }
    for template in ["{{ messages }}", "{\"chat_template\": \"é\"}", "", "<html"] {
        let refused = refuse_no_template("x", template.as_bytes()).is_err();
        assert_eq!(refused, template == "<html", "{template}");
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
        (
            "v.gguf",
            [("general.type", "vocab")],
            "vocabulary without weights",
        ),
        (
            "w.gguf",
            [("general.architecture", "whisper")],
            "`whisper`, which writes no text",
        ),
        (
            "e.gguf",
            [("general.architecture", "nomic-bert")],
            "`nomic-bert`, which writes no text",
        ),
        (
            "t.gguf",
            [("tokenizer.ggml.tokens", "")],
            "vocabulary without weights",
        ),
        (
            "h.gguf",
            [("general.architecture", "llama")],
            "header without weights",
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
        let [left] = opened.left_out() else {
            panic!("{:?}", opened.left_out());
        };
        let left = left.to_string();
        assert!(left.starts_with(name) && left.contains(word), "{left}");
        let told = refused(&[(name, &other)]);
        assert!(told.contains(name) && told.contains(word), "{told}");
    }
    let vocabulary = gguf(&[
        ("tokenizer.ggml.model", "gpt2"),
        ("tokenizer.ggml.tokens", ""),
    ]);
    // Its tokens can be read.
    let opened = open(&memory(&[("v.gguf", &vocabulary)])).unwrap();
    let told = opened.refuse_vocabulary().unwrap_err().to_string();
    assert!(told.contains("is a vocabulary without weights"), "{told}");
    assert!(refused(&[("a.gguf", &model), ("b.gguf", &model)]).contains("several models"));
    // A model that can't be used for want of a tokenizer goes after one that has it.
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/weights");
    let bare = std::fs::read(format!("{fixtures}/blocks.gguf")).unwrap();
    let opened = open(&memory(&[("a.gguf", &bare), ("b.gguf", &model)])).unwrap();
    assert_eq!(opened.tensors()[0].file, 1);
    assert!(opened.left_out()[0].to_string().contains("no tokenizer"));
    let empty: &[u8] = b"\x02\0\0\0\0\0\0\0{}";
    let eye = gguf(&[("general.architecture", "clip")]);
    let folder = memory(&[
        ("model.safetensors", empty),
        ("config.json", b"{}"),
        ("adapter_config.json", b"{}"),
        ("eye.gguf", &eye),
        ("x.gguf", &model),
    ]);
    let left: Vec<String> = open(&folder)
        .unwrap()
        .left_out()
        .iter()
        .map(ToString::to_string)
        .collect();
    let words = ["mmproj", "beside the folder's own weights", "(LoRA)"];
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(
        left.iter()
            .zip(words)
            .all(|(left, word)| left.contains(word)),
        "{left:?}"
    );
    let adapter = refused(&[
        ("adapter_config.json", b"{}"),
        ("adapter_model.safetensors", b""),
    ]);
    assert!(adapter.contains("adapter (LoRA)"), "{adapter}");
}

#[test]
fn a_stand_in_hides_no_sound_model() {
    let model = fixture("ada.gguf");
    let cut = &model[..model.len() / 2];
    let config: &[u8] = b"{}";
    for (files, place) in [
        (&[("big.gguf", POINTER), ("m.gguf", &model)][..], 1),
        (&[("m.gguf", &model), ("n.gguf", PAGE)], 0),
        (&[("m.gguf", &model), ("n.gguf", cut)], 0),
        (
            &[
                ("config.json", config),
                ("m.gguf", &model),
                ("model.safetensors", POINTER),
            ],
            1,
        ),
        (
            &[
                ("big-00001-of-00002.gguf", POINTER),
                ("big-00002-of-00002.gguf", &model),
                ("m.gguf", &model),
            ],
            2,
        ),
    ] {
        let opened = open(&memory(files)).expect("one model is sound");
        assert!(opened.tensors().iter().all(|tensor| tensor.file == place));
        let [left] = opened.left_out() else {
            panic!("{:?}", opened.left_out());
        };
        assert!(!left.to_string().starts_with("m.gguf"), "{left}");
    }
    // None is sound: the file that was to be the model is named.
    let eye = gguf(&[("general.architecture", "clip")]);
    let told = refused(&[("a.gguf", &eye), ("b.gguf", POINTER)]);
    assert!(told.starts_with("b.gguf is a git-LFS pointer"), "{told}");
    assert!(
        refused(&[("m.gguf", &model), ("n.gguf", &model), ("p.gguf", PAGE)])
            .contains("several models in one place (m.gguf, n.gguf)")
    );
}

#[test]
fn an_error_reply_is_text_and_no_model() {
    for (reply, quoted) in [
        ("Entry not found", r#""Entry not found""#),
        (
            r#"{"error":"Entry not found"}"#,
            r#""{\"error\":\"Entry not found\"}""#,
        ),
        ("Invalid username or password.", "Invalid username"),
        (
            "\u{feff}<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>",
            "<?xml",
        ),
        ("Found. Redirecting to https://example.org", "Found. Redir"),
        ("Zugriff verweigert: ä\u{202e}", r"ä\u{202e}"),
    ] {
        for files in [
            &[("x.gguf", reply.as_bytes())][..],
            &[
                ("model.safetensors", reply.as_bytes()),
                ("config.json", b"{}"),
            ],
        ] {
            let told = refused(files);
            let wanted = told.starts_with(files[0].0) && told.contains(quoted);
            assert!(wanted && told.contains("the download failed"), "{told}");
        }
    }
    let long = refused(&[("x.gguf", &b"a".repeat(10_000))]);
    assert!(long.len() < 400, "{long}");
    let told = refused(&[
        ("config.json", br#"{"error":"no"}"#),
        ("model.safetensors", b"\x02\0\0\0\0\0\0\0{}"),
    ]);
    assert!(told.contains("config.json is text"), "{told}");
    // Bytes that no text has.
    assert!(refused(&[("x.gguf", b"\x01\x02\x03\x04rest")]).contains("not a GGUF file"));
}

#[test]
fn files_of_other_formats_are_named() {
    let mut tar = b"x/x.gguf".to_vec();
    tar.resize(257, 0);
    tar.extend(b"ustar  \0");
    let torch: &[u8] = b"PK\x03\x04\0\0\x08\x08\0\0archive/data.pkl";
    let onnx: &[u8] = b"\x08\x07\x12\x07pytorch\x1a\x052.0.0";
    let zip: &[u8] = b"PK\x03\x04\x14\0\0\0\x08\0rest";
    let gzip: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03rest";
    for (name, bytes, words) in [
        ("x.zip", zip, "is a zip archive: unpack it first"),
        ("x.gguf", zip, "is a zip archive"),
        ("model.safetensors", zip, "is a zip archive"),
        ("x.gguf.gz", gzip, "is compressed by gzip: unpack it first"),
        ("model.safetensors", gzip, "is compressed by gzip"),
        ("x.7z", b"7z\xbc\xaf\x27\x1c\0\x04{", "is a 7z archive"),
        ("x.rar", b"Rar!\x1a\x07\x01\0", "is a RAR archive"),
        ("x.gguf.xz", b"\xfd7zXZ\0\0", "is compressed by xz"),
        ("x.zst", b"\x28\xb5\x2f\xfd\0", "is compressed by zstd"),
        ("x.bz2", b"BZh91AY&SY\x01\x02", "is compressed by bzip2"),
        ("x.tar", &tar, "is a tar archive: unpack it first"),
        ("x.onnx", onnx, "is an ONNX file"),
        ("model.safetensors", onnx, "is an ONNX file"),
        ("x.tflite", b"\x1c\0\0\0TFL3", "is a TensorFlow Lite file"),
        ("x.gguf", &[0; 2000], "begins with zeroes, as an unfinished"),
        ("model.safetensors", &[0; 2000], "begins with zeroes"),
        ("x.bin", &[0; 2000], "begins with zeroes"),
        (
            "x.bin",
            b"lmgg\0\x7d\0\0",
            "is an old GGML file: convert it",
        ),
        ("x.bin", b"fmgg\x01\0\0\0", "is an old GGML file"),
        ("x", b"tjgg\x03\0\0\0", "is an old GGML file"),
        ("x.bin", b"GGUF\x03\0\0\0", "is a GGUF file"),
        ("x.gguf", b"GGUF\0\0\0\x03", "the file is big-endian"),
        ("x.gguf", b"\x02\0\0\0\0\0\0\0{}", "is a safetensors file"),
        ("x.bin", POINTER, "is a git-LFS pointer"),
        ("x.bin", torch, "pickled Python objects"),
        ("x.ckpt", torch, "pickled Python objects"),
        ("x.pt", zip, "pickled Python objects"),
        ("x.pth", b"\x80\x02", "pickled Python objects"),
    ] {
        let told = refused(&[(name, bytes)]);
        assert!(told.starts_with(name) && told.contains(words), "{told}");
    }
    // A length of a header that reads as another format's mark.
    for length in [0x12_07_08_u64, 0x08_8b_1f] {
        let mut sound = length.to_le_bytes().to_vec();
        sound.extend(b"{}");
        sound.resize(8 + length as usize, b' ');
        let opened = open(&memory(&[
            ("model.safetensors", &sound),
            ("config.json", b"{}"),
        ]));
        assert!(opened.is_ok(), "{length}");
    }
}

#[test]
fn older_pointers_are_pointers() {
    for (bytes, words) in [
        (
            "version http://git-media.io/v/2\noid sha256:00\n",
            "git-LFS",
        ),
        ("version https://hawser.github.com/spec/v1\noid", "git-LFS"),
        ("/annex/objects/SHA256E-s9--00.gguf\n", "git annex get"),
        ("../.git/annex/objects/a/b/SHA256E-s9--0", "git annex get"),
    ] {
        for name in ["x.gguf", "model.safetensors", "x.bin"] {
            let told = refused(&[(name, bytes.as_bytes())]);
            assert!(told.starts_with(name) && told.contains(words), "{told}");
        }
    }
}

#[test]
fn a_folder_of_a_cache_is_its_only_snapshot() {
    let cache = std::env::temp_dir().join(format!("conclave-cache-{}", std::process::id()));
    let folder = cache.join("models--owner--name");
    let snapshot = folder.join("snapshots").join("aa");
    for path in [&snapshot, &folder.join("blobs"), &folder.join("refs")] {
        std::fs::create_dir_all(path).unwrap();
    }
    std::fs::write(snapshot.join("x.gguf"), fixture("ada.gguf")).unwrap();
    for path in [&folder, &snapshot] {
        assert!(open(&Disk::open(path).unwrap()).is_ok());
    }
    let told = Disk::open(&cache).unwrap_err().to_string();
    assert!(told.contains(&folder.display().to_string()), "{told}");
    let other = folder.join("snapshots").join("bb");
    std::fs::create_dir_all(&other).unwrap();
    let told = Disk::open(&folder).unwrap_err().to_string();
    for path in [&snapshot, &other] {
        assert!(told.contains(&path.display().to_string()), "{told}");
    }
    assert!(!told.contains("blobs"), "{told}");
    #[cfg(unix)]
    {
        let link = other.join("y.gguf");
        std::os::unix::fs::symlink("../.git/annex/objects/a/b/SHA256E-s9--0", &link).unwrap();
        for path in [&other, &link] {
            let told = open(&Disk::open(path).unwrap()).unwrap_err().to_string();
            assert!(told.starts_with("y.gguf is a git-annex pointer"), "{told}");
        }
    }
    std::fs::remove_dir_all(&cache).unwrap();
}

#[test]
fn pieces_that_were_cut_by_bytes_are_to_be_joined() {
    let model = fixture("ada.gguf");
    let (first, second) = model.split_at(model.len() / 2);
    for (one, other) in [
        ("x.gguf.part1of2", "x.gguf.part2of2"),
        ("x.gguf-split-a", "x.gguf-split-b"),
        ("x.gguf.001", "x.gguf.002"),
        ("x.gguf.aa", "x.gguf.ac"),
        ("x.gguf-aa", "x.gguf-ac"),
        ("model.safetensors.aa", "model.safetensors.ac"),
        ("x.gguf.1", "x.gguf.3"),
        ("X.part1.GGUF", "X.part3.GGUF"),
        ("x-part-1-of-3.gguf", "x-part-3-of-3.gguf"),
        ("x.gguf.part_1", "x.gguf.part_3"),
        ("xaa", "xac"),
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
    for (name, command) in [
        ("x.gguf.ac", "cat x.gguf.?? > x.gguf,"),
        (
            "model.safetensors-ab",
            "cat model.safetensors-?? > model.safetensors,",
        ),
        (
            "X.part3.GGUF",
            "cat $(ls X.part[0-9]*.GGUF | sort -V) > X.GGUF,",
        ),
        (
            "x.gguf.part2of12",
            "cat $(ls x.gguf.part[0-9]*of12 | sort -V) > x.gguf,",
        ),
        (
            "x.gguf.part10of12",
            "cat $(ls x.gguf.part[0-9]*of12 | sort -V) > x.gguf,",
        ),
        ("x.gguf.part02of12", "cat x.gguf.part??of12 > x.gguf,"),
        ("x.gguf.part2of2", "cat x.gguf.part?of2 > x.gguf,"),
        ("x.gguf.012", "cat x.gguf.??? > x.gguf,"),
    ] {
        let told = refused(&[(name, second)]);
        assert!(told.contains(command), "{told}");
        // A whole model may have any name, also beside others.
        let notes: &[u8] = b"# Notes";
        for files in [
            &[(name, &model[..])][..],
            &[(name, &model), ("README.md", notes), ("config.json", b"{}")],
        ] {
            assert!(open(&memory(files)).is_ok(), "{name}");
        }
    }
    let quoted = refused(&[("x;reboot.gguf.ac", second)]);
    assert!(!quoted.contains("cat "), "{quoted}");
    for name in [
        "x.gguf",
        "x.gguf.gz",
        "x-00001-of-00003x.gguf",
        "counterpart-2.gguf",
        "llama-3.gguf",
    ] {
        let told = refused(&[(name, first)]);
        assert!(told.contains("truncated"), "{told}");
    }
    for name in [
        "x.gguf.part",
        "x.gguf.crdownload",
        "Unconfirmed 12.crdownload",
        "x.gguf.download",
        "x.safetensors.partial",
    ] {
        for files in [
            &[(name, first)][..],
            &[(name, first), ("config.json", b"{}")],
        ] {
            let told = refused(files);
            assert!(told.contains("unfinished download"), "{told}");
        }
        assert!(open(&memory(&[(name, &model)])).is_ok(), "{name}");
    }
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
    for (name, template) in [
        ("chat_template.json", r#"{"chat_template": "json"}"#),
        ("processor_config.json", r#"{"chat_template": "processor"}"#),
    ] {
        std::fs::write(folder.join(name), template).unwrap();
    }
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
            serde_json::json!("processor"),
            serde_json::json!({ "rag": "rag" }),
        ];
        assert_eq!(described.other_templates, wanted);
        assert_eq!(described.tokenizer.as_deref(), Some(&b"{}"[..]));
        assert_eq!(described.tokenizer_config, Some(serde_json::json!({})));
        assert_eq!(described.generation_config, described.tokenizer_config);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
