//! Record of the finished chunks of a file, so that a download can resume.
//!
//! `NAME.chunks` is text: a line with the file and chunk sizes, then one line per finished chunk
//! with its index and SHA-256. A truncated last line is ignored.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::digest::Sha256;
use crate::error::HubError;

/// Accepted chunk sizes.
const CHUNK_SIZES: Range<u64> = 1 << 10..1 << 31;

#[derive(Debug, Clone)]
pub(crate) struct Chunks {
    record: PathBuf,
    /// Path of the incomplete file.
    pub(crate) part: PathBuf,
    /// Size of the file.
    pub(crate) bytes: u64,
    /// Size of every chunk but the last.
    pub(crate) size: u64,
    done: BTreeMap<u64, String>,
}

impl Chunks {
    /// Reads the record of a file of `bytes`; without a valid one, chunks have `size` bytes.
    pub(crate) fn open(folder: &Path, name: &str, bytes: u64, size: u64) -> Self {
        let record = folder.join(format!("{name}.chunks"));
        let text = std::fs::read_to_string(&record).unwrap_or_default();
        let (size, done) = parse(&text, bytes).unwrap_or((
            size.clamp(CHUNK_SIZES.start, CHUNK_SIZES.end - 1),
            BTreeMap::new(),
        ));
        Self {
            record,
            part: folder.join(format!("{name}.part")),
            bytes,
            size,
            done,
        }
    }

    /// Number of bytes recorded as finished.
    pub(crate) fn finished(folder: &Path, name: &str, bytes: u64) -> u64 {
        Self::open(folder, name, bytes, CHUNK_SIZES.start).bytes_done()
    }

    pub(crate) fn count(&self) -> u64 {
        self.bytes.div_ceil(self.size)
    }

    pub(crate) fn range(&self, index: u64) -> Range<u64> {
        range(index, self.size, self.bytes)
    }

    pub(crate) fn has(&self, index: u64) -> bool {
        self.done.contains_key(&index)
    }

    pub(crate) fn bytes_done(&self) -> u64 {
        self.done
            .keys()
            .map(|&index| self.range(index))
            .map(|range| range.end - range.start)
            .sum()
    }

    /// Verifies the finished chunks' digests and drops those that differ. Calls `read` with each
    /// chunk's size.
    pub(crate) fn check(
        &mut self,
        read: &mut dyn FnMut(u64) -> Result<(), HubError>,
    ) -> Result<(), HubError> {
        let mut file = match File::open(&self.part) {
            Ok(file) => file,
            Err(_) => return self.clear(),
        };
        let mut wrong = Vec::new();
        for (&index, digest) in &self.done {
            let range = self.range(index);
            if sha256(&mut file, &range).map_err(HubError::disk(&self.part))? != *digest {
                wrong.push(index);
            }
            read(range.end - range.start)?;
        }
        self.done.retain(|index, _| !wrong.contains(index));
        self.write()
    }

    /// Records a finished chunk.
    pub(crate) fn add(&mut self, index: u64, digest: String) -> Result<(), HubError> {
        let mut file = OpenOptions::new()
            .append(true)
            .open(&self.record)
            .map_err(HubError::disk(&self.record))?;
        // A single write: lines are never interleaved.
        file.write_all(format!("{index} {digest}\n").as_bytes())
            .map_err(HubError::disk(&self.record))?;
        self.done.insert(index, digest);
        Ok(())
    }

    /// Discards the file's contents and its record.
    pub(crate) fn clear(&mut self) -> Result<(), HubError> {
        self.done.clear();
        File::create(&self.part).map_err(HubError::disk(&self.part))?;
        self.write()
    }

    /// Removes the record of a complete file.
    pub(crate) fn close(self) {
        let _ = std::fs::remove_file(self.record);
    }

    fn write(&self) -> Result<(), HubError> {
        let mut text = format!("{} {}\n", self.bytes, self.size);
        for (index, digest) in &self.done {
            text += &format!("{index} {digest}\n");
        }
        let beside = self.record.with_extension("new");
        std::fs::write(&beside, text).map_err(HubError::disk(&beside))?;
        std::fs::rename(&beside, &self.record).map_err(HubError::disk(&self.record))
    }
}

pub(crate) fn range(index: u64, size: u64, bytes: u64) -> Range<u64> {
    let start = index.saturating_mul(size).min(bytes);
    start..start.saturating_add(size).min(bytes)
}

fn parse(text: &str, bytes: u64) -> Option<(u64, BTreeMap<u64, String>)> {
    let mut lines = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n')?.split_once(' '));
    let (whole, size) = lines.next()?;
    let size: u64 = size.parse().ok()?;
    if whole.parse() != Ok(bytes) || !CHUNK_SIZES.contains(&size) {
        return None;
    }
    let done = lines.filter_map(|(index, digest)| {
        let index = index.parse().ok()?;
        (index < bytes.div_ceil(size) && digest.len() == 64).then(|| (index, digest.to_owned()))
    });
    Some((size, done.collect()))
}

fn sha256(file: &mut File, range: &Range<u64>) -> std::io::Result<String> {
    file.seek(SeekFrom::Start(range.start))?;
    let mut left = file.take(range.end - range.start);
    let mut piece = vec![0; 1 << 17];
    let mut digest = Sha256::new();
    loop {
        match left.read(&mut piece)? {
            0 => return Ok(digest.finish()),
            count => digest.update(&piece[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_makes_no_sense_is_none() {
        let digest = "a".repeat(64);
        let done = |text: String| parse(&text, 5000).map(|(size, done)| (size, done.len()));
        assert_eq!(
            done(format!("5000 2048\n0 {digest}\n2 {digest}\n")),
            Some((2048, 2))
        );
        assert_eq!(
            done(format!("5000 2048\n0 {digest}\n2 {digest}")),
            Some((2048, 1)),
            "a line cut short"
        );
        assert_eq!(
            done(format!("5000 2048\n3 {digest}\n-1 {digest}\n1 short\n")),
            Some((2048, 0))
        );
        assert_eq!(done("5000 0\n".to_owned()), None);
        assert_eq!(done("4999 2048\n".to_owned()), None);
        assert_eq!(done(String::new()), None);
    }

    #[test]
    fn chunks_cover_a_file_once() {
        let chunks = Chunks::open(Path::new("/nowhere"), "x", 5000, 2048);
        let ranges: Vec<_> = (0..chunks.count())
            .map(|index| chunks.range(index))
            .collect();
        assert_eq!(ranges, [0..2048, 2048..4096, 4096..5000]);
    }
}
