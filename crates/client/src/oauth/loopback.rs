//! The loopback redirect (RFC 8252 §7.3): receives the answer from the browser.
//!
//! The listener accepts one answer on 127.0.0.1 only, for a bounded time and with a bounded request size. Other
//! programs on this machine can connect too, and browsers ask for icons. So only the first request for our path counts,
//! and its content counts only with the `state` that we sent.

use super::OAuthError;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

/// The largest request. Codes of a few kilobytes exist, and browsers add headers.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// How long one connection may take to send its request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// The number of connections that are accepted before the login is given up as under attack.
const CONNECTIONS_MAX: usize = 32;
const PATH: &str = "/callback";

/// A listener for the redirect of the browser.
pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
}

impl Loopback {
    /// Starts to listen; port 0 lets the system choose, which RFC 8252 asks servers to allow.
    pub(super) async fn bind(port: u16) -> Result<Self, OAuthError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(OAuthError::Listen)?;
        let port = listener.local_addr().map_err(OAuthError::Listen)?.port();
        Ok(Self { listener, port })
    }

    /// The redirect URI that the authorization server sends the browser to.
    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the browser. `check` judges the answer: its result decides what the user reads, and is returned.
    pub(super) async fn wait<T>(
        self,
        patience: Duration,
        check: impl Fn(&Url) -> Result<T, OAuthError>,
    ) -> Result<T, OAuthError> {
        timeout(patience, self.answer_one(check)).await.map_err(|_| OAuthError::TimedOut(patience))?
    }

    async fn answer_one<T>(self, check: impl Fn(&Url) -> Result<T, OAuthError>) -> Result<T, OAuthError> {
        for _ in 0..CONNECTIONS_MAX {
            let (mut stream, _) = self.listener.accept().await.map_err(OAuthError::Listen)?;
            // A connection that stalls or breaks is not the browser that we wait for.
            let Ok(Some(target)) = timeout(REQUEST_TIME_MAX, read_target(&mut stream)).await else { continue };
            match Url::parse(&format!("http://127.0.0.1{target}")) {
                Ok(url) if url.path() == PATH => {
                    let result = check(&url);
                    let (status, text) = match &result {
                        Ok(_) => ("200 OK", "Logged in. You can close this window."),
                        Err(_) => ("400 Bad Request", "The login did not succeed. The terminal says why."),
                    };
                    respond(&mut stream, status, text).await;
                    return result;
                }
                _ => respond(&mut stream, "404 Not Found", "Nothing here.").await,
            }
        }
        Err(OAuthError::Redirect("too many requests that were not the browser's return"))
    }
}

/// The target of a GET request, after its head is read; `None` for anything else.
async fn read_target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let length = stream.read(&mut chunk).await.ok().filter(|length| *length > 0)?;
        head.extend_from_slice(&chunk[..length]);
        if head.len() > REQUEST_BYTES_MAX {
            return None;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    (method == "GET" && target.starts_with('/')).then(|| target.to_owned())
}

async fn respond(stream: &mut TcpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    // The page is a courtesy: if it cannot be delivered, the login is still complete.
    let _ = timeout(REQUEST_TIME_MAX, async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn visit(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap_or_default();
        answer
    }

    fn query(url: &Url) -> Result<String, OAuthError> {
        url.query().map(str::to_owned).ok_or(OAuthError::Redirect("no query"))
    }

    #[tokio::test]
    async fn the_first_request_for_our_path_is_the_answer_and_others_are_not() {
        let loopback = Loopback::bind(0).await.unwrap();
        let port = loopback.port;
        assert_eq!(loopback.redirect_uri(), format!("http://127.0.0.1:{port}/callback"));
        let browser = async {
            assert!(visit(port, "GET /favicon.ico HTTP/1.1\r\nHost: x\r\n\r\n").await.starts_with("HTTP/1.1 404"));
            assert_eq!(visit(port, "POST /callback?code=evil HTTP/1.1\r\n\r\n").await, "");
            assert_eq!(visit(port, &format!("GET /{} HTTP/1.1\r\n", "x".repeat(REQUEST_BYTES_MAX))).await, "");
            visit(port, "GET /callback?code=c&state=s HTTP/1.1\r\nHost: x\r\n\r\n").await
        };
        let (result, page) = tokio::join!(loopback.wait(Duration::from_secs(20), query), browser);
        assert_eq!(result.unwrap(), "code=c&state=s");
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("no-store"), "{page}");
    }

    #[tokio::test]
    async fn a_bad_answer_is_told_to_the_browser_and_ends_the_wait() {
        let loopback = Loopback::bind(0).await.unwrap();
        let port = loopback.port;
        let browser = visit(port, "GET /callback HTTP/1.1\r\n\r\n");
        let (result, page) = tokio::join!(loopback.wait(Duration::from_secs(20), query), browser);
        assert!(matches!(result, Err(OAuthError::Redirect(_))));
        assert!(page.starts_with("HTTP/1.1 400"), "{page}");
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let loopback = Loopback::bind(0).await.unwrap();
        let result = loopback.wait(Duration::from_millis(20), query).await;
        assert!(matches!(result, Err(OAuthError::TimedOut(_))));
    }
}
