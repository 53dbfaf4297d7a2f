//! `cargo xtask dist`: makes the published page folder, or the package for embedding.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::module::without_names;
use crate::toolchain::Toolchain;
use crate::wasm::Module;
use crate::workspace::Workspace;
use crate::{demo, policy, process, setup, wasm};

/// Header file of hosts such as Netlify and Cloudflare Pages.
const HEADERS: &str = "_headers";

/// Limits of jsDelivr, which serves the README's script tag: bytes of a file, and of a package.
const LARGEST_FILE: u64 = 20_000_000;
const LARGEST_PACKAGE: u64 = 50_000_000;

/// Name of the packed package.
const PACKED: &str = "conclave.tgz";

/// Makes the folder, checks it, and prints its contents and the headers to send.
///
/// # Errors
/// If a build fails, the page would not work from a sub-path, its policy is not strict, or `out`
/// contains something else.
pub fn make(workspace: &Workspace, out: &Path) -> Result<()> {
    let built = workspace.page();
    let out = std::path::absolute(out)?;
    if out != built {
        refuse_foreign(&out)?;
    }
    build(workspace)?;
    let index = built.join("index.html");
    let html = fs::read_to_string(&index)
        .with_context(|| format!("the build of web/ made no {}", index.display()))?;
    let absolute = policy::absolute_addresses(&html);
    if !absolute.is_empty() {
        bail!(
            "the page would break when served from a sub-path, it asks for {}",
            absolute.join(", ")
        );
    }
    let headers = policy::headers(&policy::of_page(&html)?);
    let mut text = String::from("/*\n");
    for (name, value) in &headers {
        writeln!(text, "  {name}: {value}")?;
    }
    fs::write(built.join(HEADERS), text)?;
    if out != built {
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        copy(&built, &out)?;
    }
    sizes(&out)?;
    println!("\nHeaders to send with every file (hosts that read {HEADERS} need nothing more):");
    for (name, value) in headers {
        println!("  {name}: {value}");
    }
    println!("\nReady: {}", out.display());
    Ok(())
}

/// Packs the package for a registry like npm's into the folder `out`, and prints its contents.
/// Returns the file.
pub fn package(workspace: &Workspace, out: &Path) -> Result<PathBuf> {
    let out = std::path::absolute(out)?;
    build(workspace)?;
    licences(workspace)?;
    let folder = workspace.package();
    fs::create_dir_all(&out)?;
    sizes(&folder)?;
    refuse_large(&folder)?;
    let packed = process::capture(
        Command::new("npm")
            .args(["pack", "--silent", "--pack-destination"])
            .args([&out, &folder]),
    )?;
    // Without the version, which `examples/` would have to name.
    let file = out.join(PACKED);
    fs::rename(out.join(packed.trim()), &file)?;
    println!("\nReady: {}", file.display());
    Ok(file)
}

/// Copies the licence texts of everything that the package's modules and scripts contain into the
/// package.
fn licences(workspace: &Workspace) -> Result<()> {
    process::run(
        Command::new("node")
            .args(["scripts/licences.mjs", "--texts"])
            .args(["package/licences.txt", "package"])
            .current_dir(workspace.web()),
    )
}

/// Builds the page and the package with modules stripped of names.
fn build(workspace: &Workspace) -> Result<()> {
    let toolchain = Toolchain::ready(workspace)?;
    setup::web(workspace)?;
    for module in Module::ALL {
        wasm::build(workspace, &toolchain, module)?;
        // In web's folder, since the page's build reads their sizes.
        for file in module.files(workspace) {
            fs::write(&file, without_names(&fs::read(&file)?)?)?;
        }
    }
    demo::page(workspace)
}

/// Fails if jsDelivr, which serves packages of npm, would refuse the package for its size. Returns
/// its bytes.
fn refuse_large(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        total += match entry.file_type()?.is_dir() {
            true => refuse_large(&entry.path())?,
            false => entry.metadata()?.len(),
        };
        let file = entry.metadata()?;
        if file.is_file() && file.len() > LARGEST_FILE {
            let name = entry.path();
            bail!(
                "{} has {} bytes, and jsDelivr serves {LARGEST_FILE} at most",
                name.display(),
                file.len()
            );
        }
    }
    if total > LARGEST_PACKAGE {
        bail!("the package has {total} bytes, and jsDelivr serves {LARGEST_PACKAGE} at most");
    }
    Ok(total)
}

/// Fails unless the folder is empty or was made by an earlier run.
fn refuse_foreign(out: &Path) -> Result<()> {
    let empty = fs::read_dir(out).map_or(!out.exists(), |mut files| files.next().is_none());
    let ours = out.join(HEADERS).is_file() && out.join("index.html").is_file();
    if !empty && !ours {
        bail!(
            "{} holds something that `cargo xtask dist` did not make; name another folder",
            out.display()
        );
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Prints every file with its raw, gzip and brotli sizes, largest first.
fn sizes(folder: &Path) -> Result<()> {
    // Node has both compressors; level 9 is what hosts use on the fly.
    const MEASURE: &str = "
        const zlib = require('node:zlib'), fs = require('node:fs'), path = require('node:path');
        const root = process.argv[1], quality = { [zlib.constants.BROTLI_PARAM_QUALITY]: 9 };
        const rows = fs.readdirSync(root, { recursive: true })
          .filter(name => fs.statSync(path.join(root, name)).isFile())
          .map(name => {
            const bytes = fs.readFileSync(path.join(root, name));
            return [name, bytes.length, zlib.gzipSync(bytes, { level: 9 }).length,
              zlib.brotliCompressSync(bytes, { params: quality }).length];
          }).sort((a, b) => b[1] - a[1]);
        rows.push(['total', ...[1, 2, 3].map(i => rows.reduce((sum, row) => sum + row[i], 0))]);
        const kb = n => (n / 1000).toFixed(1).padStart(10);
        const width = Math.max(...rows.map(row => row[0].length));
        console.log('kB'.padEnd(width) + \
        ['raw', 'gzip', 'brotli'].map(s => s.padStart(10)).join(''));
        for (const [name, ...row] of rows) console.log(name.padEnd(width) + row.map(kb).join(''));";
    print!(
        "\n{}",
        process::capture(Command::new("node").args(["--eval", MEASURE]).arg(folder))?
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_no_network_serves_is_refused() {
        let folder = std::env::temp_dir().join(format!("conclave-large-{}", std::process::id()));
        fs::create_dir_all(folder.join("deep")).unwrap();
        let write = |name: &str, bytes: u64| {
            // Sparse: no byte of it is written.
            fs::File::create(folder.join(name))
                .unwrap()
                .set_len(bytes)
                .unwrap();
        };
        write("a.wasm", LARGEST_FILE);
        write("deep/b.wasm", LARGEST_FILE);
        assert_eq!(refuse_large(&folder).unwrap(), 2 * LARGEST_FILE);
        write("c.wasm", LARGEST_FILE);
        let error = refuse_large(&folder).unwrap_err().to_string();
        assert!(error.contains("the package has"), "{error}");
        fs::remove_file(folder.join("c.wasm")).unwrap();
        write("deep/b.wasm", LARGEST_FILE + 1);
        let error = refuse_large(&folder).unwrap_err().to_string();
        assert!(error.contains("b.wasm"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_foreign_folder_is_never_replaced() {
        let base = std::env::temp_dir().join(format!("conclave-dist-{}", std::process::id()));
        let out = base.join("out");
        refuse_foreign(&out).unwrap();
        fs::create_dir_all(out.join("deep")).unwrap();
        refuse_foreign(&base.join("out/deep")).unwrap();
        assert!(refuse_foreign(&out).is_err());
        fs::write(out.join("index.html"), "x").unwrap();
        assert!(refuse_foreign(&out).is_err());
        fs::write(out.join(HEADERS), "x").unwrap();
        refuse_foreign(&out).unwrap();
        assert!(refuse_foreign(&out.join("index.html")).is_err());

        fs::write(out.join("deep/file"), "deep").unwrap();
        copy(&out, &base.join("copy")).unwrap();
        assert_eq!(
            fs::read_to_string(base.join("copy/deep/file")).unwrap(),
            "deep"
        );
        fs::remove_dir_all(base).unwrap();
    }
}
