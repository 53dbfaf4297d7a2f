//! Puts the bundled members where the tool's source includes them from. `members` is a link to the
//! repository's folder, which the published crate has in its place.

use std::path::PathBuf;
use std::{env, fs, io};

const FILES: [&str; 3] = ["ada.gguf", "quill.gguf", "juno.gguf"];

fn main() -> io::Result<()> {
    // The current values: a build folder may have been moved.
    let [own, out] = ["CARGO_MANIFEST_DIR", "OUT_DIR"].map(env::var_os);
    let [own, out] = [own, out].map(|path| path.map(PathBuf::from).ok_or(io::ErrorKind::NotFound));
    let (own, out) = (own?, out?);
    // Where a checkout has no links (on Windows, by default), the link is a file.
    let folders = ["members", "../../web/members"];
    let mut folders = folders.into_iter().map(|folder| own.join(folder));
    let members = folders.find(|folder| folder.is_dir());
    let members = members.ok_or(io::ErrorKind::NotFound)?;
    for name in FILES {
        let file = members.join(name);
        println!("cargo::rerun-if-changed={}", file.display());
        fs::copy(&file, out.join(name))?;
    }
    Ok(())
}
