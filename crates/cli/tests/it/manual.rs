//! The manual and `docs/cli.md` are generated from the definitions of the commands.

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
    assert!(sabir(&["manual"]) == committed, "run `sabir manual > docs/cli.md`");
}

#[test]
fn every_command_gets_a_manual_page() {
    let fresh = tempfile::TempDir::new().unwrap();
    let directory = fresh.path().join("man1");
    let said = sabir(&["man", directory.to_str().unwrap()]);
    let pages: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(said.starts_with(&format!("wrote {} manual pages to ", pages.len())), "{said}");
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{}: {text}", page.display());
    }
    let get = fs::read_to_string(directory.join("sabir-task-get.1")).unwrap();
    assert!(get.contains("\\-\\-history"), "{get}");
    // Those of the page, and the families: `sabir task` has a page of its own, and the program itself.
    let documented = sabir(&["manual"]).lines().filter(|line| line.starts_with("### sabir ")).count();
    assert!(documented > 80 && pages.len() > documented, "{} pages, {documented} commands", pages.len());
}

#[test]
fn manual_pages_that_cannot_be_written_are_an_error_that_names_the_directory() {
    let fresh = tempfile::TempDir::new().unwrap();
    let file = fresh.path().join("file");
    fs::write(&file, "").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sabir")).arg("man").arg(&file).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot write manual pages to") && said.contains(file.to_str().unwrap()), "{said}");
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sabir(&["completion", shell]);
        assert!(script.contains("SABIR_COMPLETE") && script.contains("sabir"), "{shell}: {script}");
    }
}
