//! The files of the repository for the checks: path and text.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A text file of the repository.
pub(crate) struct File {
    /// Relative to the root of the repository, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        File { path: path.into(), text: text.into() }
    }
}

/// Every Rust file under `crates/*/src`, in the order of their paths.
pub(crate) fn rust_sources(root: &Path) -> Result<Vec<File>> {
    let mut paths = Vec::new();
    for crate_dir in entries(&root.join("crates"))? {
        walk(root, &format!("crates/{crate_dir}/src"), &mut paths)?;
    }
    paths.sort();
    read_all(root, paths)
}

/// Every Rust file of the crates: sources, tests, examples and benchmarks.
pub(crate) fn rust_code(root: &Path) -> Result<Vec<File>> {
    let mut paths = Vec::new();
    for crate_dir in entries(&root.join("crates"))? {
        for part in ["src", "tests", "examples", "benches"] {
            walk(root, &format!("crates/{crate_dir}/{part}"), &mut paths)?;
        }
    }
    paths.sort();
    read_all(root, paths)
}

/// The documents with these names, and every Markdown file directly in one of the directories.
pub(crate) fn documents(root: &Path, names: &[&str], directories: &[&str]) -> Result<Vec<File>> {
    let mut paths: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    for directory in directories {
        let pages = entries(&root.join(directory))?.into_iter().filter(|name| name.ends_with(".md"));
        paths.extend(pages.map(|name| format!("{directory}/{name}")));
    }
    paths.sort();
    read_all(root, paths)
}

/// The crate that a file under `crates/` belongs to.
pub(crate) fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}

/// Every text file that git tracks, or would track after `git add .`, so that the checks report a problem before the
/// commit. `None` if this is not a git checkout, as in an unpacked release.
pub(crate) fn tracked_by_git(root: &Path) -> Result<Option<Vec<File>>> {
    if !root.join(".git").exists() {
        return Ok(None);
    }
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("running git ls-files")?;
    if !listing.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listing.stderr).trim());
    }
    let paths = String::from_utf8(listing.stdout).context("git listed a path that is not UTF-8")?;
    read_all(root, paths.split_terminator('\0').map(String::from).collect()).map(Some)
}

fn walk(root: &Path, dir: &str, found: &mut Vec<String>) -> Result<()> {
    for name in entries(&root.join(dir))? {
        let path = format!("{dir}/{name}");
        if root.join(&path).is_dir() {
            walk(root, &path, found)?;
        } else if path.ends_with(".rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The names in a directory; none if there is no such directory.
fn entries(dir: &Path) -> Result<Vec<String>> {
    let listing = match fs::read_dir(dir) {
        Ok(listing) => listing,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(e) => return Err(e).with_context(|| format!("listing {}", dir.display())),
    };
    let names = listing.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<Result<_>>().with_context(|| format!("listing {}", dir.display()))
}

fn read_all(root: &Path, paths: Vec<String>) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in paths {
        if let Some(text) = read(&root.join(&path)).with_context(|| format!("reading {path}"))? {
            files.push(File { path, text });
        }
    }
    Ok(files)
}

/// The text of a file. `None` for binary files, directories (git lists submodules), and files that are in git's index
/// but deleted on disk. The text of a symbolic link is its target, as for git.
fn read(path: &Path) -> Result<Option<String>> {
    if path.is_symlink() {
        return Ok(Some(fs::read_link(path)?.to_string_lossy().into_owned()));
    }
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_found_at_any_depth_and_only_under_src() {
        let root = tempfile::tempdir().unwrap();
        for path in ["crates/a/src/lib.rs", "crates/a/src/b/c.rs", "crates/a/src/b/c.txt", "crates/a/tests/it.rs"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let found: Vec<_> = rust_sources(root.path()).unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(found, ["crates/a/src/b/c.rs", "crates/a/src/lib.rs"]);
    }

    #[test]
    fn without_git_there_is_nothing_tracked() {
        let root = tempfile::tempdir().unwrap();
        assert!(tracked_by_git(root.path()).unwrap().is_none());
    }
}
