//! Frames of event streams (SSE): written here for servers, read for clients by a [`Parser`].

mod parse;

pub use parse::{EVENT_BYTES_MAX, Frame, Parser, SseError};

use sabir_proto::Seq;

/// Writes one frame. The payload must be free of line breaks, as all our JSON is.
pub fn frame(id: Option<Seq>, payload: &[u8], out: &mut Vec<u8>) {
    open_frame(id, out);
    out.extend_from_slice(payload);
    close_frame(out);
}

/// Writes the text of a frame before its payload.
pub fn open_frame(id: Option<Seq>, out: &mut Vec<u8>) {
    if let Some(Seq(id)) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(itoa(id, &mut [0; 20]));
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
}

/// Writes the end of a frame, after its payload.
pub fn close_frame(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\n\n");
}

/// A comment that keeps proxies and clients from giving up on a quiet stream. No blank line follows it: httpx-sse,
/// which the Python SDKs use, takes a blank line for the end of an empty event, and the SDK of 0.3 gives up on that.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n";

fn itoa(mut n: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (n % 10).to_le_bytes()[0];
        n /= 10;
        if n == 0 {
            return &buffer[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_an_id_a_line_and_a_blank() {
        let mut out = Vec::new();
        frame(Some(Seq(1_000)), b"[{}]", &mut out);
        frame(None, b"1", &mut out);
        frame(Some(Seq(u64::MAX)), b"", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "id: 1000\ndata: [{}]\n\ndata: 1\n\nid: 18446744073709551615\ndata: \n\n"
        );
    }
}
