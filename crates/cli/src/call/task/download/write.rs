//! Writing a part to its file: beside it first, then under its name.

use super::exists_problem;
use crate::call::{Session, report};
use crate::output::indented;
use crate::problem::{ErrorCode, Problem, Stop};
use crate::render::Node;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes parts to files in one directory.
pub(super) struct PartWriter<'a> {
    pub(super) directory: &'a Path,
    pub(super) force: bool,
    /// The largest file that is fetched, in bytes.
    pub(super) limit: u64,
}

/// A file that is not whole yet. It goes away with its owner unless it was given its name.
struct PartialFile {
    path: PathBuf,
    file: File,
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // The file is already gone if it was renamed.
        _ = fs::remove_file(&self.path);
    }
}

impl PartWriter<'_> {
    /// Saves one part to its file.
    pub(super) async fn save(&self, session: &Session, part: Node<'_>, path: &Path) -> Result<(), Stop> {
        let mut draft = self.draft(path)?;
        let failed = |error: std::io::Error| write_problem(path, &error);
        if let Some(text) = part.get("text").and_then(Node::text) {
            draft.file.write_all(text.as_bytes()).map_err(failed)?;
        } else if let Some(raw) = part.get("raw").and_then(Node::text) {
            let bytes = sabir_proto::decode_base64(&raw)
                .map_err(|wrong| report::invalid_answer(&format!("a file of the task is not base64: {wrong}")))?;
            draft.file.write_all(&bytes).map_err(failed)?;
        } else if let Some(url) = part.get("url").and_then(Node::text) {
            self.fetch(session, &url, &mut draft.file, path).await?;
        } else {
            let data = part.members().into_iter().find(|(name, _)| name == "data").map_or(part, |(_, data)| data);
            draft.file.write_all((indented(data.raw()) + "\n").as_bytes()).map_err(failed)?;
        }
        draft.file.sync_all().map_err(failed)?;
        self.move_into_place(&draft, path)
    }

    /// A new file beside the one it is to become.
    fn draft(&self, path: &Path) -> Result<PartialFile, Problem> {
        let failed = |error: std::io::Error| write_problem(path, &error);
        fs::create_dir_all(self.directory).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = self.directory.join(format!(".{name}.{}.part", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&beside).map_err(failed)?;
        Ok(PartialFile { path: beside, file })
    }

    /// Gives a draft its name. A link fails where a file exists, so no other process can slip one in between.
    fn move_into_place(&self, draft: &PartialFile, path: &Path) -> Result<(), Stop> {
        if self.force {
            return fs::rename(&draft.path, path).map_err(|error| write_problem(path, &error).into());
        }
        match fs::hard_link(&draft.path, path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists_problem(path).into()),
            // A file system without links.
            Err(_) if path.symlink_metadata().is_err() => {
                fs::rename(&draft.path, path).map_err(|error| write_problem(path, &error).into())
            }
            Err(error) => Err(write_problem(path, &error).into()),
        }
    }

    /// Fetches a file from the URL that the agent gives. Our credentials are for the agent and are not sent.
    async fn fetch(&self, session: &Session, url: &str, file: &mut File, path: &Path) -> Result<(), Stop> {
        let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(url) = parsed else {
            let shown = session.out.redactor.url(url);
            return Err(
                report::invalid_answer(&format!("a file of the task is at {shown}, which is no http address")).into()
            );
        };
        let mut download = session.client.download(&url).await.map_err(|error| session.failed(error))?;
        let mut fetched = 0;
        let mut fits = |more: u64| {
            fetched += more;
            if fetched <= self.limit { Ok(()) } else { Err(too_large_problem(path, self.limit)) }
        };
        // A file whose announced length is too large is not fetched.
        if download.length.is_some_and(|length| length > self.limit) {
            return Err(too_large_problem(path, self.limit).into());
        }
        while let Some(chunk) = download.chunk().await.map_err(|error| session.failed(error))? {
            fits(chunk.len() as u64)?;
            file.write_all(&chunk).map_err(|error| write_problem(path, &error))?;
        }
        Ok(())
    }
}

fn too_large_problem(path: &Path, limit: u64) -> Problem {
    Problem::new(ErrorCode::Vendor("SABIR_ERR_TOO_LARGE"), format!("{} is larger than {limit} bytes", path.display()))
        .hint("raise the limit: --max-bytes 10GB")
}

fn write_problem(path: &Path, error: &std::io::Error) -> Problem {
    Problem::internal(format!("cannot write {}: {error}", path.display())).hint("choose another place with --dir")
}
