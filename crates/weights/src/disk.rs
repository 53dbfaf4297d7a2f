//! Model files on a disk: one GGUF file, the parts of a split one, or a folder.

use std::fs::{self, File};
use std::future::ready;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::checkpoint::list;
use crate::gguf_files::split_name;
use crate::hugging_face::{CONFIG, INDEX, MORE_TEMPLATES, WEIGHTS};
use crate::no_model::ANNEX;
use crate::source::file_with;
use crate::{Reading, Source, SourceError, SourceFile};

/// A [`Source`] over files on disk, each opened at its first read.
#[derive(Debug)]
pub struct Disk {
    files: Vec<SourceFile>,
    opened: Vec<Mutex<Opened>>,
}

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    file: Option<File>,
}

impl Disk {
    /// The model at `path`: a folder with all its files (not those in its folders), or a file, with
    /// the other parts beside it where its name marks it as one of several
    /// (`-00001-of-00003.gguf`). A file of a Hugging Face folder, such as `tokenizer.json`, stands
    /// for the folder, and a model's folder in a Hugging Face cache for its only snapshot.
    ///
    /// # Errors
    /// [`SourceError::Read`] where the path is missing or unreadable, [`SourceError::Folders`]
    /// where it holds folders only.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SourceError> {
        let mut path = path.as_ref();
        let mut snapshots = Vec::new();
        // Another program's folder of that name is no cache's.
        if path.join("blobs").is_dir() {
            snapshots = folders_in(&path.join("snapshots"));
        }
        if let [only] = &snapshots[..] {
            path = only;
        }
        let failed = |error: std::io::Error| unreadable(path.display().to_string(), &error);
        let mut found = Vec::new();
        let kind = match (fs::metadata(path), annexed(path)) {
            (Err(_), Some(text)) => {
                let (name, bytes) = (name_of(path), text.len() as u64);
                let opened = Opened {
                    path: path.to_owned(),
                    file: None,
                };
                return Ok(Self {
                    files: vec![SourceFile { name, bytes }],
                    opened: vec![Mutex::new(opened)],
                });
            }
            (kind, _) => kind.map_err(failed)?,
        };
        // A file of a folder stands for the folder.
        let name = name_of(path);
        let parent = path.parent().filter(|_| kind.is_file());
        let parent = parent.map(|folder| match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        });
        let folder = parent.filter(|folder| {
            let ends = |ending: &&str| name.ends_with(ending);
            let has = |file: &&str| folder.join(file).exists();
            [".safetensors", ".safetensors.index.json"].iter().any(ends)
                || [".json", ".jinja", ".txt", ".model"].iter().any(ends)
                    && [WEIGHTS, INDEX, CONFIG].iter().any(has)
        });
        if let Some(folder) = folder.or(kind.is_dir().then_some(path)) {
            found = files_in(folder).map_err(failed)?;
            if found.is_empty() {
                let within = match snapshots.is_empty() {
                    true => folders_in(folder),
                    false => snapshots.clone(),
                };
                if !within.is_empty() {
                    return Err(SourceError::Folders {
                        folder: folder.display().to_string(),
                        folders: list(within.iter().map(|path| path.display().to_string())),
                    });
                }
            }
            // A folder without is as good.
            let more = files_in(&folder.join(MORE_TEMPLATES)).unwrap_or_default();
            found.extend(more.into_iter().map(|(mut file, path)| {
                file.name.insert_str(0, MORE_TEMPLATES);
                (file, path)
            }));
        } else {
            match (split_name(&name), parent) {
                (Some(part), Some(folder)) => {
                    found = files_in(folder).map_err(failed)?;
                    found.retain(|(file, _)| {
                        split_name(&file.name).is_some_and(|other| part.is_beside(&other))
                    });
                }
                _ => {
                    let bytes = kind.len();
                    found.push((SourceFile { name, bytes }, path.to_owned()));
                }
            }
        }
        found.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        let (files, opened) = found
            .into_iter()
            .map(|(file, path)| (file, Mutex::new(Opened { path, file: None })))
            .unzip();
        Ok(Self { files, opened })
    }

    fn fill(&self, file: usize, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let listed = file_with(&self.files, file, offset, into.len())?;
        let opened = self.opened.get(file).ok_or(SourceError::NoFile { file })?;
        // The lock guards a handle that every read positions anew: a poisoned one is sound.
        let mut opened = opened
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        opened
            .read(offset, into)
            .map_err(|error| unreadable(listed.name.clone(), &error))
    }
}

fn unreadable(file: String, error: &std::io::Error) -> SourceError {
    SourceError::Read {
        file,
        reason: format!("{error}; check that it is still there and may be read"),
    }
}

impl Opened {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => match File::open(&self.path) {
                Ok(file) => none.insert(file),
                Err(error) => {
                    let text = annexed(&self.path).ok_or(error)?;
                    let start = text
                        .len()
                        .min(usize::try_from(offset).unwrap_or(usize::MAX));
                    return (&text.as_bytes()[start..]).read_exact(into);
                }
            },
        };
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(into)
    }
}

impl Source for Disk {
    fn files(&self) -> &[SourceFile] {
        &self.files
    }

    fn read<'a>(&'a self, file: usize, offset: u64, into: &'a mut [u8]) -> Reading<'a> {
        Box::pin(ready(self.fill(file, offset, into)))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Target of the link by which git-annex stands for a file. git-annex writes the target as text on
/// systems without links.
fn annexed(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    let target = target.to_string_lossy().replace('\\', "/");
    target.contains(ANNEX).then_some(target)
}

/// The folders in a folder, none if it can't be read.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn files_in(folder: &Path) -> std::io::Result<Vec<(SourceFile, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Hub caches use links, so links are followed; broken ones are skipped, except those that
        // stand for a file as a pointer does.
        let Ok(kind) = fs::metadata(&path) else {
            if let Some(text) = annexed(&path) {
                let (name, bytes) = (name_of(&path), text.len() as u64);
                files.push((SourceFile { name, bytes }, path));
            }
            continue;
        };
        if kind.is_file() {
            let bytes = kind.len();
            let name = name_of(&path);
            files.push((SourceFile { name, bytes }, path));
        }
    }
    Ok(files)
}
