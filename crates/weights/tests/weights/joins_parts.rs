//! Opens split GGUF models, and names the faulty part.

use crate::fixture::{FIXTURES, Files, files, open, read};
use conclave_weights::{Checkpoint, CheckpointError, Description, Disk, Memory, Source};
use pollster::block_on;

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
        open(
            parts()
                .into_iter()
                .filter(|(name, _)| name != second)
                .collect()
        )
        .unwrap_err(),
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
    assert!(matches!(
        open(doubled).unwrap_err(),
        CheckpointError::WrongPart { file, .. } if file == second
    ));
    let mut twice = parts();
    twice[2].0 = second.to_owned();
    assert!(matches!(
        open(twice).unwrap_err(),
        CheckpointError::WrongPart { file, .. } if file == second
    ));
    let mut beyond = parts();
    beyond[2].0 = "split-00004-of-00003.gguf".to_owned();
    assert!(matches!(
        open(beyond).unwrap_err(),
        CheckpointError::WrongPart { file, .. } if file.contains("00004")
    ));
    // Five tensors announced as six, and a name that occurs in two parts.
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
