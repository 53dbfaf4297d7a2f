//! Strips comments and indentation from the shaders' text that is compiled in, 9 KB of a page's
//! download. Lines stay in place, so that a compiler's message names a line of the file. Appends to
//! a shader's text the files it requires, listed as `// Needs: FILE.wgsl`, beside it.
//!
//! `shaders` is a link to the repository's folder, which a published crate has in its place.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // The current values: a build folder may have been moved.
    let [own, out] = ["CARGO_MANIFEST_DIR", "OUT_DIR"].map(env::var_os);
    let [own, out] = [own, out].map(|path| path.map(PathBuf::from).ok_or(io::ErrorKind::NotFound));
    // Where a checkout has no links (on Windows, by default), the link is a file.
    let folders = ["shaders", "../../shaders"];
    let own = own?;
    let mut folders = folders.into_iter().map(|folder| own.join(folder));
    let shaders = folders.find(|folder| folder.is_dir());
    let shaders = shaders.ok_or(io::ErrorKind::NotFound)?;
    println!("cargo::rerun-if-changed={}", shaders.display());
    strip(&shaders, &out?)
}

/// Writes every shader below `from`, stripped, to the same path below `to`.
fn strip(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            strip(&path, &to.join(name))?;
            continue;
        }
        fs::write(to.join(name), code_of(&path)?)?;
    }
    Ok(())
}

/// The code of a shader and of the files it requires.
fn code_of(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    // WGSL has no strings, so slashes always begin a comment.
    let code = text.lines().map(|line| match line.split_once("//") {
        Some((code, _)) => code.trim(),
        None => line.trim(),
    });
    let mut code: String = code.flat_map(|code| [code, "\n"]).collect();
    for line in text.lines() {
        if let Some(needed) = line.strip_prefix("// Needs: ") {
            code += &code_of(&path.with_file_name(needed))?;
        } else if line.contains("Needs: ") {
            let place = path.display();
            return Err(io::Error::other(format!(
                "{place}: `Needs:` must begin a comment"
            )));
        }
    }
    Ok(code)
}
