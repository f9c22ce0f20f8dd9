//! Reads a text that a command takes from a file or from standard input, up to a limit.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads the file, or standard input where the path is `-`. The error is a sentence that names which of the two, and why.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let is_stdin = path.as_os_str() == "-";
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |error: std::io::Error| format!("cannot read {name}: {error}");
    let source: Box<dyn Read> =
        if is_stdin { Box::new(std::io::stdin()) } else { Box::new(File::open(path).map_err(failed)?) };
    let mut text = String::new();
    source.take(bytes_max + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > bytes_max {
        return Err(format!("cannot read {name}: it is over the limit of {bytes_max} bytes"));
    }
    Ok(text)
}
