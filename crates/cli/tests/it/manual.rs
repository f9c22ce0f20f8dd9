//! The manual is what the definitions say: generated, and committed as generated.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The binary, in surroundings that configure nothing.
fn sabir(arguments: &[&str]) -> String {
    let nowhere = tempfile::TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
    command.args(arguments).env_clear().env("HOME", nowhere.path()).current_dir(nowhere.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_about_the_command_line_is_up_to_date() {
    let committed = fs::read_to_string(root().join("docs/cli.md")).unwrap_or_default();
    assert!(sabir(&["manual", "markdown"]) == committed, "run `sabir manual markdown > docs/cli.md`");
}

#[test]
fn the_man_pages_are_up_to_date() {
    let fresh = tempfile::TempDir::new().unwrap();
    sabir(&["manual", "man", "--dir", fresh.path().to_str().unwrap()]);
    let read = |directory: &Path| -> Vec<(String, String)> {
        let entries = fs::read_dir(directory).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
        let mut pages: Vec<_> = entries
            .iter()
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
            .collect();
        pages.sort();
        pages
    };
    let (made, committed) = (read(fresh.path()), read(&root().join("docs/man")));
    assert!(made.len() > 10 && made.iter().any(|(name, _)| name == "sabir-task-get.1"));
    assert!(made == committed, "run `rm docs/man/*.1; sabir manual man`");
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sabir(&["completion", shell]);
        assert!(script.contains("SABIR_COMPLETE") && script.contains("sabir"), "{shell}: {script}");
    }
}
