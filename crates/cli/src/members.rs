//! The members that take part: files the user names, or the bundled three.

use std::path::Path;

use conclave_member::Member;
use conclave_model::Backend;

use crate::args::Members;
use crate::failure::Failure;

/// The bundled members: name and GGUF file.
const BUNDLED: [(&str, &[u8]); 3] = [
    ("Ada", include_bytes!("../../../web/members/ada.gguf")),
    ("Quill", include_bytes!("../../../web/members/quill.gguf")),
    ("Juno", include_bytes!("../../../web/members/juno.gguf")),
];

/// Loads the members asked for.
///
/// # Errors
/// [`Failure::File`] and [`Failure::Model`], naming the file.
pub fn load(members: &Members, backend: &Backend) -> Result<Vec<Member>, Failure> {
    if members.files.is_empty() {
        return BUNDLED
            .into_iter()
            .map(|(name, file)| Ok(Member::load(name, file, backend, members.context)?))
            .collect();
    }
    members
        .files
        .iter()
        .zip(&members.names)
        .map(|(path, name)| open(path, name, backend, members.context))
        .collect()
}

/// Loads one member from a file.
///
/// # Errors
/// [`Failure::File`] and [`Failure::Model`], naming the file.
pub fn open(path: &Path, name: &str, backend: &Backend, context: usize) -> Result<Member, Failure> {
    let file = read(path)?;
    Member::load(name, &file, backend, context).map_err(|source| Failure::Model {
        path: path.to_owned(),
        source,
    })
}

/// Reads a file whole; `-` is standard input.
///
/// # Errors
/// [`Failure::File`].
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    bytes.map_err(|source| Failure::file(path, source))
}
