//! Checks and installs what the tasks need from the machine.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, version};

/// Oldest Node version for the build and the tests.
const NODE: u32 = 20;

/// Software Vulkan for the native GPU tests.
const VULKAN_PACKAGES: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

/// Checks and installs everything, and reports it.
///
/// # Errors
/// At the first thing that is missing and can't be installed, with a remedy.
pub fn everything(workspace: &Workspace) -> Result<()> {
    let toolchain = Toolchain::ready(workspace)?;
    println!("setup: wasm32 target: {}", toolchain.describe());
    web(workspace)?;
    let vulkan = Vulkan::ready()?;
    println!("setup: lavapipe: {}", vulkan.lavapipe.display());
    let chromium = chromium()?;
    println!("setup: Chromium: {}", chromium.display());
    match vulkan.swiftshader(&chromium) {
        Some(driver) => println!("setup: SwiftShader: {}", driver.display()),
        None => println!("setup: SwiftShader: this Chromium brings none for native programs"),
    }
    Ok(())
}

/// Checks Node and npm, and installs the packages of web/.
pub fn web(workspace: &Workspace) -> Result<()> {
    let node = process::capture(Command::new("node").arg("--version"))
        .with_context(|| format!("Node {NODE} or newer with npm is needed: https://nodejs.org"))?;
    if version(&node).is_none_or(|(major, _)| major < NODE) {
        bail!(
            "Node {NODE} or newer is needed, this is {}: https://nodejs.org",
            node.trim()
        );
    }
    let folder = workspace.web();
    let lock = std::fs::read(folder.join("package-lock.json"))
        .context("web/package-lock.json can't be read")?;
    // Lock file of the installed packages, copied there after a complete installation.
    let installed = folder.join("node_modules/.installed-lock.json");
    if std::fs::read(&installed).is_ok_and(|made_from| made_from == lock) {
        println!("setup: Node {}, packages of web/ are there", node.trim());
        return Ok(());
    }
    println!("setup: Node {}, npm ci in web/", node.trim());
    process::run(
        Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1")
            .current_dir(&folder),
    )?;
    std::fs::write(installed, lock)?;
    Ok(())
}

/// Checks Firefox, WebKit's driver with its browser, and a display for it.
pub fn other_browsers() -> Result<()> {
    let programs = [
        ("firefox-esr", "firefox-esr"),
        ("WebKitWebDriver", "webkit2gtk-driver"),
        ("Xvfb", "xvfb"),
    ];
    let missing: Vec<_> = programs
        .iter()
        .filter(|(program, _)| process::find(program).is_none())
        .map(|&(_, package)| package)
        .collect();
    if !missing.is_empty() {
        apt_install(&missing)?;
    }
    Ok(())
}

/// Finds or installs the Chromium of the browser tests.
pub fn chromium() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("CONCLAVE_CHROMIUM") {
        let named = PathBuf::from(named);
        if !named.is_file() {
            bail!("CONCLAVE_CHROMIUM is {}, which is no file", named.display());
        }
        return Ok(named);
    }
    let find = || {
        ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find_map(process::find)
    };
    if let Some(found) = find() {
        return Ok(found);
    }
    apt_install(&["chromium"])?;
    find().context("no Chromium: install it, or set CONCLAVE_CHROMIUM to one")
}

/// Vulkan drivers for tests.
pub struct Vulkan {
    /// Manifest of Mesa's software driver.
    pub lavapipe: PathBuf,
}

impl Vulkan {
    /// Finds lavapipe and the Vulkan loader, or installs them.
    pub fn ready() -> Result<Self> {
        if !has_loader() || lavapipe().is_none() {
            apt_install(&VULKAN_PACKAGES)?;
        }
        let lavapipe = lavapipe()
            .context("Mesa's software Vulkan driver (lavapipe) is not where Vulkan looks for it")?;
        Ok(Self { lavapipe })
    }

    /// SwiftShader's manifest, beside Chromium's executable.
    pub fn swiftshader(&self, chromium: &Path) -> Option<PathBuf> {
        let real = std::fs::canonicalize(chromium).ok();
        [
            real.as_deref().and_then(Path::parent),
            Some(Path::new("/usr/lib/chromium")),
            Some(Path::new("/usr/lib/chromium-browser")),
            Some(Path::new("/opt/google/chrome")),
        ]
        .into_iter()
        .flatten()
        .map(|folder| folder.join("vk_swiftshader_icd.json"))
        .find(|file| file.is_file())
    }
}

/// Restricts a program to this Vulkan driver.
pub fn use_driver<'a>(command: &'a mut Command, driver: &Path) -> &'a mut Command {
    // The loader reads both names and prefers the newer. Mesa's device-selection layer asks the
    // display for its preference, and without one complains each time.
    command
        .env("VK_ICD_FILENAMES", driver)
        .env("VK_DRIVER_FILES", driver)
        .env("NODEVICE_SELECT", "1")
}

fn lavapipe() -> Option<PathBuf> {
    ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]
        .into_iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|files| files.flatten().map(|file| file.path()))
        .find(|file| {
            file.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("lvp_icd"))
        })
}

fn has_loader() -> bool {
    let known = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
    let triplet = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    known
        .into_iter()
        .chain([triplet.as_str()])
        .any(|folder| Path::new(folder).join("libvulkan.so.1").exists())
}

/// Installs Debian packages if the user may.
///
/// # Errors
/// If not, or if apt-get fails: one line that names the packages.
pub fn apt_install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    let Some(prefix) = privilege().filter(|_| process::find("apt-get").is_some()) else {
        bail!("missing system packages, please install: {names}");
    };
    let command = || {
        let mut command = apt(prefix);
        command.args(["install", "-y", "--no-install-recommends"]);
        command.args(packages);
        command
    };
    println!("setup: {}", process::describe(&command()));
    if !prefix.is_empty() && !agreed()? {
        bail!("missing system packages, please install: {names}");
    }
    let install = || process::capture(&mut command());
    if install().is_err() {
        // Package lists may be missing or outdated.
        process::capture(apt(prefix).arg("update"))
            .and_then(|_| install())
            .with_context(|| format!("missing system packages, please install: {names}"))?;
    }
    Ok(())
}

/// Asks for permission to run a command as root; without a terminal, sudo's own rules have decided.
fn agreed() -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(true);
    }
    print!("setup: run this as root? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn apt(prefix: &[&str]) -> Command {
    // `env` sets the variable after sudo as well.
    let words = [
        prefix,
        &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"],
    ]
    .concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// Prefix that runs a command as root, if the user can do so without a password.
fn privilege() -> Option<&'static [&'static str]> {
    let user = process::capture(Command::new("id").arg("-u")).ok()?;
    if user.trim() == "0" {
        return Some(&[]);
    }
    process::capture(Command::new("sudo").args(["-n", "true"]))
        .ok()
        .map(|_| &["sudo", "-n"][..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_set_under_both_names_and_nothing_sorts_it() {
        let mut command = Command::new("true");
        use_driver(&mut command, Path::new("/drivers/one.json"));
        let set: Vec<_> = command.get_envs().map(|(name, _)| name).collect();
        let wanted = ["NODEVICE_SELECT", "VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
        assert_eq!(set, wanted);
    }

    #[test]
    fn apt_runs_unattended_after_any_prefix() {
        let words = process::describe(apt(&["sudo", "-n"]).arg("update"));
        assert_eq!(
            words,
            "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get update"
        );
        assert_eq!(
            process::describe(&apt(&[])),
            "env DEBIAN_FRONTEND=noninteractive apt-get"
        );
    }
}
