//! Opening a file of any length reads its header and little more, and reading rows reads those
//! rows: nothing is ever whole in memory.

mod allocation;

use std::cell::{Cell, RefCell};
use std::future::ready;

use allocation::measured;
use conclave_weights::{Checkpoint, CheckpointError, Reading, Source, SourceError, SourceFile};
use pollster::block_on;

/// A file of any length: some bytes, then zeros. Records the reads.
struct Long {
    files: Vec<SourceFile>,
    start: Vec<u8>,
    reads: RefCell<Vec<(u64, usize)>>,
    fails: Cell<bool>,
}

impl Long {
    fn new(start: Vec<u8>, bytes: u64) -> Self {
        Self {
            files: vec![SourceFile {
                name: "model.gguf".to_owned(),
                bytes,
            }],
            start,
            reads: RefCell::default(),
            fails: Cell::new(false),
        }
    }

    fn bytes_read(&self) -> usize {
        self.reads.borrow().iter().map(|(_, length)| length).sum()
    }
}

impl Source for Long {
    fn files(&self) -> &[SourceFile] {
        &self.files
    }

    fn read<'a>(&'a self, file: usize, offset: u64, into: &'a mut [u8]) -> Reading<'a> {
        assert!(offset + into.len() as u64 <= self.files[file].bytes);
        if self.fails.get() {
            return Box::pin(ready(Err(SourceError::Read {
                file: "model.gguf".to_owned(),
                reason: "the line is cut".to_owned(),
            })));
        }
        self.reads.borrow_mut().push((offset, into.len()));
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.start.len());
        let here = (self.start.len() - start).min(into.len());
        into[..here].copy_from_slice(&self.start[start..start + here]);
        into[here..].fill(0);
        Box::pin(ready(Ok(())))
    }
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// A header with a vocabulary of `words` and one F32 tensor of `rows` rows of 1024.
fn header(words: usize, rows: u64) -> Vec<u8> {
    let mut header = b"GGUF\x03\0\0\0".to_vec();
    header.extend(1_u64.to_le_bytes());
    header.extend(1_u64.to_le_bytes());
    header.extend(string("tokenizer.ggml.tokens"));
    header.extend([9_u32, 8].map(u32::to_le_bytes).concat());
    header.extend((words as u64).to_le_bytes());
    for word in 0..words {
        header.extend(string(&format!("word {word}")));
    }
    header.extend(string("weight"));
    header.extend(2_u32.to_le_bytes());
    header.extend([1024, rows].map(u64::to_le_bytes).concat());
    header.extend(0_u32.to_le_bytes());
    header.extend(0_u64.to_le_bytes());
    header.resize(header.len().next_multiple_of(32), 0);
    header
}

#[test]
fn a_terabyte_is_opened_by_its_header() {
    let rows = 1 << 28;
    let header = header(262_144, rows);
    let (length, total) = (header.len(), header.len() as u64 + rows * 4096);
    assert!(length > 4 << 20);
    let source = Long::new(header, total);
    let (checkpoint, most) = measured(|| block_on(Checkpoint::open(&source)));
    let checkpoint = checkpoint.unwrap();
    assert!(
        source.bytes_read() < 2 * length,
        "{} read for {length}",
        source.bytes_read()
    );
    assert!(most < 6 * length, "{most} held for {length}");
    // Pieces follow each other: nothing is read twice.
    let mut at = 0;
    for (offset, length) in source.reads.take() {
        assert_eq!(offset, at);
        at += length as u64;
    }

    let tensor = checkpoint.tensor("weight").unwrap();
    let mut bytes = Vec::new();
    let last = rows - 2..rows;
    let (read, most) =
        measured(|| block_on(checkpoint.read_rows(&source, tensor, last, &mut bytes)));
    assert_eq!(read, Ok(()));
    assert!(most < 3 * 8192, "{most} held for two rows");
    assert_eq!(source.reads.take(), [(total - 8192, 8192)]);

    source.fails.set(true);
    let read = block_on(checkpoint.read_rows(&source, tensor, 0..1, &mut bytes));
    assert!(matches!(
        read,
        Err(CheckpointError::Source(SourceError::Read { .. }))
    ));
    assert!(matches!(
        block_on(Checkpoint::open(&source)),
        Err(CheckpointError::Source(SourceError::Read { .. }))
    ));
}

#[test]
fn a_small_file_takes_no_more_than_itself() {
    let header = header(3, 1);
    let source = Long::new(header.clone(), header.len() as u64 + 4096);
    let (checkpoint, most) = measured(|| block_on(Checkpoint::open(&source)));
    assert_eq!(checkpoint.unwrap().tensors().len(), 1);
    assert!(most < 16_384, "{most}");
}

#[test]
fn a_header_without_end_is_given_up() {
    let mut endless = header(3, 1);
    // The number of words, as large as a file of this length could hold.
    let at = 24 + 8 + "tokenizer.ggml.tokens".len() + 8;
    endless[at..at + 8].copy_from_slice(&(1_u64 << 36).to_le_bytes());
    let source = Long::new(endless, 1 << 40);
    let (opened, most) = measured(|| block_on(Checkpoint::open(&source)));
    assert!(matches!(opened, Err(CheckpointError::LongHeader { .. })));
    assert!(most < 4 << 20, "{most}");
}
