//! No HTTP library at all: finds the end of each request, writes constant bytes.
use bench_floor::CARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn find(h: &[u8], n: &[u8]) -> Option<usize> {
    h.windows(n.len()).position(|w| w == n)
}

fn content_length(head: &[u8]) -> usize {
    let mut i = 0;
    while i + 16 < head.len() {
        if head[i..i + 15].eq_ignore_ascii_case(b"content-length:") {
            return head[i + 15..]
                .iter()
                .copied()
                .skip_while(|c| *c == b' ')
                .take_while(u8::is_ascii_digit)
                .fold(0, |a, c| a * 10 + (c - b'0') as usize);
        }
        i += 1;
    }
    0
}

#[tokio::main]
async fn main() {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9013".into());
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"01890000-0000-7000-8000-000000000000","contextId":"01890000-0000-7000-8000-000000000001","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-01T00:00:00.000Z"},"artifacts":[{"artifactId":"echo","parts":[{"text":"hello from the load generator, please echo this line back"}]}],"history":[{"messageId":"m-000000000000","role":"ROLE_USER","parts":[{"text":"hello from the load generator, please echo this line back"}],"contextId":"01890000-0000-7000-8000-000000000001","taskId":"01890000-0000-7000-8000-000000000000"}]}}}"#;
    let mk = |b: &str| -> &'static [u8] {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{b}", b.len())
            .into_bytes()
            .leak()
    };
    let (reply, card) = (mk(body), mk(CARD));
    let l = tokio::net::TcpListener::bind(addr).await.unwrap();
    loop {
        let Ok((mut s, _)) = l.accept().await else { continue };
        let _ = s.set_nodelay(true);
        tokio::spawn(async move {
            let mut buf = Vec::with_capacity(4096);
            loop {
                while let Some(h) = find(&buf, b"\r\n\r\n") {
                    let total = h + 4 + content_length(&buf[..h + 2]);
                    if buf.len() < total {
                        break;
                    }
                    let out = if buf.starts_with(b"GET") { card } else { reply };
                    if s.write_all(out).await.is_err() {
                        return;
                    }
                    buf.drain(..total);
                }
                match s.read_buf(&mut buf).await {
                    Ok(n) if n > 0 => {}
                    _ => return,
                }
            }
        });
    }
}
