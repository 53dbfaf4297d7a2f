//! The README's commands for the tool run as they stand there.

use std::path::Path;
use std::process::Command;

/// The commands of the last block of the README's ways in.
fn commands() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(file).expect("there is a README");
    let (_, ways) = text
        .split_once("\n## Three ways in\n")
        .expect("it has ways in");
    let (ways, _) = ways.split_once("\n## ").expect("something follows them");
    let (_, block) = ways.rsplit_once("```sh\n").expect("there are commands");
    let (block, _) = block.split_once("```").expect("the block ends");
    block.lines().map(str::to_owned).collect()
}

#[test]
fn the_tool_is_installed_and_answers_as_the_readme_says() {
    let commands = commands();
    let [install, run] = commands.as_slice() else {
        panic!("two commands: {commands:?}");
    };
    // `cargo xtask test --only packages` installs it from the packed crates. Here all is built
    // already: the crate of this name has the tool of that name.
    let install: Vec<_> = install.split(' ').collect();
    let crate_name = env!("CARGO_PKG_NAME");
    assert_eq!(install, ["cargo", "install", "--locked", crate_name]);
    let tool = Path::new(env!("CARGO_BIN_EXE_conclave"));
    assert_eq!(tool.file_stem().expect("it is a file"), "conclave");

    // A shell reads the command, and finds the tool as one that is installed.
    let folder = tool.parent().expect("it is in a folder");
    let mut path = vec![folder.to_path_buf()];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let shell = Command::new("sh")
        .args(["-ec", run])
        .env(
            "PATH",
            std::env::join_paths(path).expect("they can be joined"),
        )
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&shell.stderr);
    assert!(shell.status.success(), "{run}: {said}");
    let answer = String::from_utf8_lossy(&shell.stdout);
    assert!(answer.contains("933"), "{run}: {answer}");
}
