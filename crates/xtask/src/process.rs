//! Runs other programs: silently, with their output shown, or shown and captured.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Command of the Cargo that runs this program, which preserves a `+toolchain`. Without the
/// variables of this program's package: ring's build script depends on them, so that half of the
/// workspace would be compiled again at each change between this program and plain Cargo.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Finds a program in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Formats a command as it would be typed.
pub fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_else(|| command.get_program())
        .to_string_lossy()
        .into_owned();
    let mut words = vec![program];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs a command with its output shown.
pub fn run(command: &mut Command) -> Result<()> {
    let words = describe(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("`{words}` did not start"))?;
    if !status.success() {
        bail!("`{words}` failed ({status}); its message is above");
    }
    Ok(())
}

/// Runs a command with its output shown, and kills it after `limit`.
pub fn run_within(command: &mut Command, limit: Duration) -> Result<()> {
    let words = describe(command);
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("`{words}` did not start"))?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("`{words}` failed ({status}); its message is above");
            }
            return Ok(());
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            bail!("`{words}` took longer than {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs a command silently and returns its standard output.
///
/// # Errors
/// If it can't start or does not succeed; includes its standard error.
pub fn capture(command: &mut Command) -> Result<String> {
    let words = describe(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{words}` did not start"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("`{words}` failed ({}): {}", output.status, message.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command with its output shown as it comes; returns whether it succeeded, and its standard
/// output.
///
/// # Errors
/// If it can't start or its output can't be read. A failing command is not an error.
pub fn tee(command: &mut Command) -> Result<(bool, String)> {
    let words = describe(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{words}` did not start"))?;
    let mut kept = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        let mut shown = std::io::stdout();
        let mut buffer = [0; 8192];
        loop {
            let count = output.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            kept.extend_from_slice(&buffer[..count]);
            // A closed standard output must not end the tests early.
            let _ = shown
                .write_all(&buffer[..count])
                .and_then(|()| shown.flush());
        }
    }
    let status = child.wait()?;
    Ok((
        status.success(),
        String::from_utf8_lossy(&kept).into_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tee_keeps_the_output_of_a_failing_command() {
        let (success, text) = tee(Command::new("sh").args(["-c", "echo kept; exit 3"])).unwrap();
        assert!(!success);
        assert_eq!(text, "kept\n");
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let start = Instant::now();
        let limit = Duration::from_millis(200);
        let error = run_within(Command::new("sleep").arg("30"), limit).unwrap_err();
        assert!(error.to_string().contains("longer than"));
        assert!(start.elapsed() < Duration::from_secs(10));
        run_within(&mut Command::new("true"), Duration::from_secs(10)).unwrap();
        assert!(run_within(&mut Command::new("false"), Duration::from_secs(10)).is_err());
    }

    #[test]
    fn a_failure_names_the_command_and_its_message() {
        let error =
            capture(Command::new("sh").args(["-c", "echo because >&2; exit 1"])).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("sh -c") && text.contains("because"), "{text}");
        let missing = run(&mut Command::new("no-such-program-at-all")).unwrap_err();
        assert!(format!("{missing:#}").contains("did not start"));
    }
}
