//! Rust toolchain for the wasm modules: rustup's, or if rustup can't fetch the wasm32 target, the
//! distribution's current Rust, which compiles the standard library from source.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::process;
use crate::setup::apt_install;
use crate::workspace::{Workspace, version};

/// Target triple of browsers.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's current Rust, kept up to date for its browsers, with its library's source.
const DISTRIBUTION_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// rustup's component with the standard library's source.
const SOURCE: &str = "rust-src";

/// Flags for memory shared between threads, in addition to `.cargo/config.toml`: atomics; imported
/// memory, up to the limit of wasm32; set-up of thread-local variables.
const SHARED_MEMORY: [&str; 8] = [
    "-Ctarget-feature=+atomics",
    "-Clink-arg=--shared-memory",
    "-Clink-arg=--import-memory",
    "-Clink-arg=--max-memory=4294967296",
    "-Clink-arg=--export=__wasm_init_tls",
    "-Clink-arg=--export=__tls_size",
    "-Clink-arg=--export=__tls_align",
    "-Clink-arg=--export=__tls_base",
];

/// Time limit of rustup for 30 MB before the distribution is used.
const RUSTUP_PATIENCE: Duration = Duration::from_secs(240);

/// A Rust that can build for [`TARGET`].
#[derive(Debug)]
pub enum Toolchain {
    /// The running toolchain has the target's standard library.
    Rustup,
    /// The distribution's Rust compiles the standard library itself.
    Distribution {
        rustc: PathBuf,
        cargo: PathBuf,
        /// LLD for wasm, from the running toolchain or the distribution.
        linker: PathBuf,
    },
}

impl Toolchain {
    /// Finds a toolchain for [`TARGET`], installing what is missing if possible.
    ///
    /// # Errors
    /// If there is none, with the packages to install.
    pub fn ready(workspace: &Workspace) -> Result<Self> {
        let choice = std::env::var("CONCLAVE_WASM_TOOLCHAIN").unwrap_or_default();
        match choice.as_str() {
            "" | "auto" => {}
            "rustup" => {
                if !has_target() {
                    rustup(&["target", "add", TARGET])?;
                }
                return Ok(Self::Rustup);
            }
            "distribution" => return Self::distribution(workspace),
            other => bail!(
                "CONCLAVE_WASM_TOOLCHAIN is `{other}`; set it to auto, rustup or distribution"
            ),
        }
        if has_target() {
            return Ok(Self::Rustup);
        }
        // Once the distribution's Rust has built here, rustup need not fail first.
        if distribution_folder(workspace).is_dir()
            && let Some(found) = Self::find_distribution(workspace)
        {
            return Ok(found);
        }
        println!("setup: rustup target add {TARGET}");
        match rustup(&["target", "add", TARGET]) {
            Ok(()) if has_target() => return Ok(Self::Rustup),
            Ok(()) => println!("setup: rustup is not the Rust that runs this"),
            Err(error) => println!("setup: {error:#}"),
        }
        println!("setup: taking the distribution's Rust for {TARGET} instead");
        Self::distribution(workspace)
    }

    fn distribution(workspace: &Workspace) -> Result<Self> {
        if let Some(found) = Self::find_distribution(workspace) {
            return Ok(found);
        }
        apt_install(&DISTRIBUTION_PACKAGES)?;
        Self::find_distribution(workspace).ok_or_else(|| {
            let (major, minor) = workspace.rust;
            anyhow::anyhow!(
                "no Rust that builds for {TARGET}: `rustup target add {TARGET}` fails, and the \
                 distribution has no Rust {major}.{minor} or newer with its library source and an \
                 LLD (Debian: {})",
                DISTRIBUTION_PACKAGES.join(" ")
            )
        })
    }

    fn find_distribution(workspace: &Workspace) -> Option<Self> {
        let rustc = PathBuf::from("/usr/bin/rustc");
        let cargo = PathBuf::from("/usr/bin/cargo");
        let library = Path::new("/usr/lib/rustlib/src/rust/library/std/Cargo.toml");
        if !cargo.is_file() || !library.is_file() {
            return None;
        }
        let text = process::capture(clean(&mut Command::new(&rustc)).arg("--version")).ok()?;
        if version(&text)? < workspace.rust {
            return None;
        }
        Some(Self::Distribution {
            rustc,
            cargo,
            linker: linker()?,
        })
    }

    /// Returns a `cargo build` for [`TARGET`], without packages and profile, and its target folder.
    pub fn build(&self, workspace: &Workspace) -> (Command, PathBuf) {
        match self {
            Self::Rustup => {
                let mut command = process::cargo();
                command.args(["build", "--target", TARGET]);
                (command, workspace.target.clone())
            }
            Self::Distribution {
                rustc,
                cargo,
                linker,
            } => {
                let mut command = Command::new(cargo);
                let folder = distribution_folder(workspace);
                clean(&mut command)
                    .args(["build", "--target", TARGET])
                    .arg("-Zbuild-std=std,panic_abort")
                    .arg("--target-dir")
                    .arg(&folder)
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("RUSTC", rustc)
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                (command, folder)
            }
        }
    }

    /// Like [`Self::build`], for memory shared between threads, which needs its own standard
    /// library.
    pub fn build_shared(&self, workspace: &Workspace) -> Result<(Command, PathBuf)> {
        let (mut command, _) = self.build(workspace);
        if let Self::Rustup = self {
            if !has_source() {
                println!("setup: rustup component add {SOURCE}");
                rustup(&["component", "add", SOURCE])?;
            }
            command
                .arg("-Zbuild-std=std,panic_abort")
                .env("RUSTC_BOOTSTRAP", "1");
        }
        // A separate folder: nothing is shared with other builds.
        let folder = workspace.target.join("shared-memory");
        command.arg("--target-dir").arg(&folder);
        let flags = SHARED_MEMORY.map(|flag| format!("{flag:?}")).join(", ");
        command
            .arg("--config")
            .arg(format!("target.{TARGET}.rustflags = [{flags}]"));
        Ok((command, folder))
    }

    pub fn describe(&self) -> &'static str {
        match self {
            Self::Rustup => "the running toolchain",
            Self::Distribution { .. } => "the distribution's Rust, standard library built in place",
        }
    }
}

/// A separate folder: two compilers sharing one would rebuild each other's work every time.
fn distribution_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("distribution")
}

/// Removes the environment that rustup's toolchain has set for itself.
fn clean(command: &mut Command) -> &mut Command {
    for name in [
        "RUSTUP_TOOLCHAIN",
        "LD_LIBRARY_PATH",
        "CARGO",
        "RUSTC",
        "RUSTC_WRAPPER",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs rustup with a time limit.
fn rustup(arguments: &[&str]) -> Result<()> {
    process::run_within(
        Command::new("rustup")
            .args(arguments)
            .env("RUSTUP_MAX_RETRIES", "1")
            .env_remove("RUST_BACKTRACE"),
        RUSTUP_PATIENCE,
    )
}

/// Returns whether the running toolchain has the target's core library.
fn has_target() -> bool {
    let printed = process::capture(Command::new("rustc").args([
        "--print",
        "target-libdir",
        "--target",
        TARGET,
    ]));
    let Ok(folder) = printed else { return false };
    std::fs::read_dir(folder.trim()).is_ok_and(|files| {
        files
            .flatten()
            .any(|file| file.file_name().to_string_lossy().starts_with("libcore-"))
    })
}

/// Returns whether the running toolchain has its library's source.
fn has_source() -> bool {
    process::capture(Command::new("rustc").args(["--print", "sysroot"])).is_ok_and(|sysroot| {
        let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
        library.join("std/Cargo.toml").is_file()
    })
}

/// LLD that links wasm: the running toolchain's, or the distribution's.
fn linker() -> Option<PathBuf> {
    let sysroot = process::capture(Command::new("rustc").args(["--print", "sysroot"])).ok();
    let host = process::capture(Command::new("rustc").arg("-vV")).ok();
    if let (Some(sysroot), Some(host)) = (sysroot, host)
        && let Some(host) = host.lines().find_map(|line| line.strip_prefix("host: "))
    {
        let own = Path::new(sysroot.trim())
            .join("lib/rustlib")
            .join(host)
            .join("bin/rust-lld");
        if own.is_file() {
            return Some(own);
        }
    }
    process::find("wasm-ld").or_else(|| {
        (16..40)
            .rev()
            .find_map(|release| process::find(&format!("wasm-ld-{release}")))
    })
}
