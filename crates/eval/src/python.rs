//! Runs Python programs, each in its own limited process.
//!
//! `python/guarded.py` sets the limits from inside: memory, processor time, file sizes, no child
//! processes, no network, no changes outside of an empty folder. That contains a small model's
//! mistakes. It is no sandbox: a program can read the user's files, and a malicious one can break
//! out. macOS does not limit memory, and Windows neither memory nor processor time nor file sizes:
//! there the clock ends a program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Limit of processor time, seconds.
const SECONDS: u64 = 10;

/// Limit of wall-clock time, seconds; longer, so that a busy machine makes no answer wrong.
const PATIENCE: u64 = 30;

/// Limit of address space, bytes.
const MEMORY: u64 = 1 << 30;

/// Limit of a written file, bytes.
const FILE: u64 = 1 << 20;

/// Exit status of a program that ran to its end, unlikely otherwise.
const PASSED: i32 = 86;

const GUARDED: &str = include_str!("python/guarded.py");

/// A Python interpreter.
#[derive(Debug, Clone)]
pub struct Python {
    executable: PathBuf,
}

/// Reason why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// There is no working `python3`.
    #[error(
        "python3 can't be run ({0}), and some tasks are checked by running code; install \
         Python 3.8 or newer, or leave those tasks out with --skip-code"
    )]
    Missing(String),
    /// The process or its folder failed.
    #[error("an answer's code could not be run: {0}")]
    Failed(#[from] std::io::Error),
}

impl Python {
    /// Finds the interpreter that `python3` starts; on Windows also `python`.
    ///
    /// # Errors
    /// [`PythonError::Missing`].
    pub fn find() -> Result<Self, PythonError> {
        let found = Self::named("python3");
        match cfg!(windows) {
            // The only name that Python's own installer gives it there.
            true => found.or_else(|error| Self::named("python").map_err(|_| error)),
            false => found,
        }
    }

    fn named(name: &str) -> Result<Self, PythonError> {
        // Printed as bytes: on Windows, text would be in the encoding of the user's language.
        const ASK: &str = "import os, sys; assert sys.version_info >= (3, 8); \
                           sys.stdout.buffer.write(os.fsencode(sys.executable))";
        let asked = Command::new(name)
            .args(["-I", "-c", ASK])
            .stdin(Stdio::null())
            .output();
        let asked = asked.map_err(|error| PythonError::Missing(error.to_string()))?;
        let path = String::from_utf8_lossy(&asked.stdout).into_owned();
        if !asked.status.success() || path.is_empty() {
            return Err(PythonError::Missing(
                "it is no Python 3.8 or newer".to_owned(),
            ));
        }
        Ok(Self {
            executable: path.into(),
        })
    }

    /// Returns whether `program` runs to its end without an exception, within 10 s of processor
    /// time.
    ///
    /// # Errors
    /// [`PythonError::Failed`] if it can't be started.
    pub fn passes(&self, program: &str) -> Result<bool, PythonError> {
        let folder = Folder::new()?;
        let file = folder.0.join("program.py");
        std::fs::write(&file, program)?;
        let mut command = Command::new(&self.executable);
        command
            .args(["-I", "-B", "-c", GUARDED])
            .arg(&file)
            .args([PASSED.to_string(), SECONDS.to_string()])
            .args([MEMORY.to_string(), FILE.to_string()])
            .current_dir(folder.work())
            // Hides the user's keys and tokens.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(root) = std::env::var_os("SYSTEMROOT") {
            // Required on Windows to start any program.
            command.env("SYSTEMROOT", root);
        }
        let mut child = command.spawn()?;
        let clock = Instant::now();
        let mut wait = Duration::from_millis(4);
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status.code() == Some(PASSED));
            }
            if clock.elapsed() >= Duration::from_secs(PATIENCE) {
                child.kill()?;
                child.wait()?;
                return Ok(false);
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_millis(50));
        }
    }
}

/// Temporary folder that contains an empty one; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("conclave-code-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(folder.work())?;
        Ok(folder)
    }

    fn work(&self) -> PathBuf {
        Path::join(&self.0, "work")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover folder does not fail the evaluation.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(program: &str) -> bool {
        let python = Python::find().expect("the tests need python3");
        python.passes(program).unwrap()
    }

    #[test]
    fn a_program_passes_by_coming_to_its_end() {
        assert!(passes("assert sum([1, 2]) == 3"));
        assert!(!passes("assert sum([1, 2]) == 4"));
        assert!(!passes("def broken(:"));
        // Before the tests can run.
        for end in [
            "exit()",
            "import sys; sys.exit(0)",
            "import os; os._exit(0)",
        ] {
            assert!(!passes(&format!("{end}\nassert False")), "{end}");
        }
        assert!(!passes("input()"), "standard input is closed");
        assert!(!passes("while True: pass"), "ends by the limit of time");
        assert!(passes("if __name__ == '__main__':\n    input()"));
        let class = "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: 'int' = 3\n";
        assert!(passes(&[class, "assert A().x == 3"].concat()));
    }

    #[test]
    fn harm_is_refused() {
        for program in [
            "import socket; socket.create_connection(('127.0.0.1', 9))",
            "import os; os.system('true')",
            "import subprocess; subprocess.run(['true'])",
            "import os; os.fork()",
            "open('../program.py', 'w')",
            "import os; os.remove('../program.py')",
            "import shutil; shutil.rmtree('..')",
        ] {
            assert!(!passes(program), "{program}");
        }
        let own = "import os, tempfile\nopen('a', 'w').write('b')\nos.rename('a', 'c')\n\
                   assert os.listdir('.') == ['c']\nos.remove('c')\n\
                   tempfile.NamedTemporaryFile().write(b'x')\n\
                   assert 'PATH' not in os.environ";
        assert!(passes(own));
    }

    #[test]
    #[cfg(unix)]
    fn a_file_has_its_limit() {
        assert!(!passes("open('large', 'wb').write(bytes(2 << 20))"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_has_its_limit() {
        assert!(!passes("x = bytearray(3 << 30)"));
    }
}
