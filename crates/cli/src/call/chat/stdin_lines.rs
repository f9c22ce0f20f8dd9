//! Reads lines of standard input on a thread, for a chat that waits for other events as well.

use crate::problem::Problem;
use std::io::{self, BufRead, Read};
use tokio::sync::mpsc;

/// The longest line, in bytes. Files are sent with `/file`.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Lines as they come. A thread of its own reads them, since reading a terminal cannot be interrupted.
pub(super) struct StdinLines {
    lines: mpsc::Receiver<io::Result<String>>,
}

impl StdinLines {
    pub(super) fn of_stdin() -> Self {
        let (sender, lines) = mpsc::channel(1);
        // This thread is never joined: it ends with its input, or with the process.
        std::thread::spawn(move || {
            let mut input = io::stdin().lock();
            while let Some(line) = read(&mut input).transpose() {
                let failed = line.is_err();
                if sender.blocking_send(line).is_err() || failed {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// The next line; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Problem> {
        match self.lines.recv().await {
            None => Ok(None),
            Some(Ok(line)) => Ok(Some(line)),
            Some(Err(error)) => Err(Problem::usage(format!("cannot read standard input: {error}"))),
        }
    }
}

fn read(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    input.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() as u64 > LINE_BYTES_MAX {
        let long = format!("a line is over the limit of {LINE_BYTES_MAX} bytes; send a file with /file");
        return Err(io::Error::new(io::ErrorKind::InvalidData, long));
    }
    String::from_utf8(line).map(Some).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_to_the_last_even_without_its_end() {
        let mut input = &b"one\n\ntwo"[..];
        let mut lines = Vec::new();
        while let Some(line) = read(&mut input).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["one\n", "\n", "two"]);
    }

    #[test]
    fn what_is_no_line_is_an_error() {
        assert!(read(&mut &b"\xff\n"[..]).is_err());
        let long = vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap() + 1];
        assert!(read(&mut &long[..]).unwrap_err().to_string().contains("/file"));
    }
}
