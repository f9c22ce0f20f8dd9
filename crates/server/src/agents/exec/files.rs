//! How a file that a command left in `A2A_OUT_DIR` becomes an artifact.
//!
//! Only regular files are taken. A link could name any file that the server can read, so each file is opened relative
//! to the private directory, without following links, and the opened file is checked. A file that cannot be delivered
//! fails the turn, because a result without one of its parts would look complete.

use super::events::STDOUT;
use super::work_directory::OUT;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sabir_engine::Failure;
use sabir_proto::id_limits::ID_BYTES_MAX;
use sabir_proto::{Artifact, ArtifactId, Content, Json, Part};
use std::collections::HashSet;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Files of one turn. Each is an event; a command with more files should make an archive.
const FILES_MAX: usize = 64;
/// Bytes of one file. It becomes one event, a third larger in JSON.
const FILE_BYTES_MAX: usize = 8 << 20;
/// Bytes of all files of one turn, which are in memory at once.
const FILES_BYTES_MAX: usize = 16 << 20;

/// Media types by extension; what is not here is `application/octet-stream`.
const MEDIA_TYPES: [(&str, &str); 26] = [
    ("avif", "image/avif"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("zip", "application/zip"),
];

/// The files of a turn as artifacts, by name. Does blocking I/O.
pub(super) fn collect(room: BorrowedFd<'_>) -> Result<Vec<Artifact>, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(room, OUT, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => {
            return Err(Failure(format!("$A2A_OUT_DIR is not the directory it was: {}", io::Error::from(error))));
        }
    };
    let mut ids = HashSet::from([STDOUT.to_owned()]);
    let mut artifacts = Vec::new();
    let mut left = FILES_BYTES_MAX;
    for name in names(&directory)? {
        let shown = display_name(&name);
        let bytes = read(&directory, &name).map_err(|problem| Failure(format!("$A2A_OUT_DIR/{shown} {problem}")))?;
        left = left.checked_sub(bytes.len()).ok_or_else(|| {
            Failure(format!("the files in $A2A_OUT_DIR have more than {FILES_BYTES_MAX} bytes together"))
        })?;
        let id = unique_id(&shown, &mut ids);
        let id = ArtifactId::parse(&id).map_err(|e| Failure(format!("$A2A_OUT_DIR/{shown}: the name {e}")))?;
        artifacts.push(Artifact::new(id, vec![part(shown, bytes)]));
    }
    Ok(artifacts)
}

/// The names of all entries, in order.
fn names(directory: &OwnedFd) -> Result<Vec<CString>, Failure> {
    let unreadable = |e: Errno| Failure(format!("$A2A_OUT_DIR cannot be read: {}", io::Error::from(e)));
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        if names.len() == FILES_MAX {
            return Err(Failure(format!("there are more than {FILES_MAX} files in $A2A_OUT_DIR")));
        }
        names.push(entry.file_name().to_owned());
    }
    names.sort();
    Ok(names)
}

/// Reads one file. The error text continues after the name of the file.
fn read(directory: &OwnedFd, name: &CString) -> Result<Vec<u8>, String> {
    // Without waiting: to open a named pipe would block until another process writes to it.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let unreadable = |e: io::Error| format!("cannot be read: {e}");
    let irregular = || String::from("is not a regular file; only those can become artifacts");
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        // A link, or a socket.
        Err(Errno::LOOP | Errno::NXIO) => return Err(irregular()),
        Err(error) => return Err(unreadable(error.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|e| unreadable(e.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(irregular());
    }
    let mut bytes = Vec::new();
    File::from(file).take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("has more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

fn part(filename: String, bytes: Vec<u8>) -> Part {
    let extension = Path::new(&filename).extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    let (content, media_type) = match (extension.as_deref(), std::str::from_utf8(&bytes)) {
        (None | Some("txt" | "md"), Ok(text)) => (Content::Text(text.to_owned()), "text/plain"),
        (Some("json"), Ok(text)) if let Ok(json) = Json::parse(text) => (Content::Data(json), "application/json"),
        (extension, _) => (Content::Raw(bytes), media_type(extension)),
    };
    Part { content, metadata: None, filename: Some(filename), media_type: Some(media_type.into()) }
}

fn media_type(extension: Option<&str>) -> &'static str {
    let known = MEDIA_TYPES.iter().find(|(name, _)| Some(*name) == extension);
    known.map_or("application/octet-stream", |(_, media_type)| media_type)
}

/// A file's name as text that is legal as an id and harmless in a message.
fn display_name(name: &CString) -> String {
    let mut text: String = name.to_string_lossy().chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    // Leaves room for a number. Names have at most 255 bytes, but a name that is not UTF-8 grows when it becomes text.
    text.truncate(text.floor_char_boundary(ID_BYTES_MAX - 8));
    text
}

/// A distinct id for every file, also where two names became the same text.
fn unique_id(name: &str, taken: &mut HashSet<String>) -> String {
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let mut free = std::iter::once(name.to_owned()).chain(numbered).filter(|id| !taken.contains(id));
    let id = free.next().unwrap_or_default();
    taken.insert(id.clone());
    id
}
