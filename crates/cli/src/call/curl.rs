//! `--curl`: a request as a command of curl or grpcurl. Credentials are named, never written.

use super::observer::shown;
use crate::output::{Output, compact};
use crate::redact::REDACTED;
use crate::render::shell;
use http::{HeaderMap, Method};

/// The variable a person would put a hidden header into.
fn variable_name(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    match name.as_str() {
        "AUTHORIZATION" => "A2ACLI_BEARER".to_owned(),
        "X_API_KEY" | "API_KEY" => "A2ACLI_API_KEY".to_owned(),
        _ => name,
    }
}

/// One command, on one line.
pub(super) fn curl_command(
    method: &Method,
    url: &str,
    headers: &HeaderMap,
    body: Option<&str>,
    out: &Output,
) -> String {
    let grpc = headers.get("content-type").is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
        || url.contains("/lf.a2a.v1.")
        || url.contains("/a2a.v1.");
    let mut words: Vec<String> = vec![if grpc { "grpcurl" } else { "curl" }.to_owned()];
    if !grpc && *method != Method::GET {
        words.extend(["-X".to_owned(), method.to_string()]);
    }
    for (name, value) in headers {
        let value = shown(name, value, out);
        // Double quotes, so that the shell puts the value in.
        let line = match value.strip_suffix(REDACTED) {
            Some(before) => format!("\"{name}: {before}${}\"", variable_name(name.as_str())),
            None => shell(&format!("{name}: {value}")),
        };
        words.extend(["-H".to_owned(), line]);
    }
    if let Some(body) = body {
        let body = out.redactor.body(body);
        let text = if body.starts_with('{') { compact(&body) } else { body };
        words.extend([if grpc { "-d" } else { "--data-raw" }.to_owned(), shell(&text)]);
    }
    let url = out.redactor.url(url);
    if grpc {
        let plain = url.starts_with("http://");
        let (host, method) = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).unwrap_or((&url, ""));
        if plain {
            words.insert(1, "-plaintext".to_owned());
        }
        words.extend([shell(host), shell(method)]);
    } else {
        words.push(shell(&url));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_credential_is_named_and_not_written() {
        let out = Output::plain(std::sync::Arc::default());
        let mut headers = HeaderMap::new();
        let mut token = HeaderValue::from_static("Bearer very-secret");
        token.set_sensitive(true);
        headers.insert("authorization", token);
        headers.insert("a2a-version", HeaderValue::from_static("1.0"));
        let line = curl_command(&Method::POST, "https://a.example/rpc", &headers, Some("{\"a\": \"it's\"}"), &out);
        assert_eq!(
            line,
            "curl -X POST -H \"authorization: Bearer $A2ACLI_BEARER\" -H 'a2a-version: 1.0' \
             --data-raw '{\"a\":\"it'\\''s\"}' https://a.example/rpc"
        );
        let line =
            curl_command(&Method::POST, "http://h:1/lf.a2a.v1.A2AService/GetTask", &HeaderMap::new(), Some("{}"), &out);
        assert_eq!(line, "grpcurl -plaintext -d '{}' h:1 lf.a2a.v1.A2AService/GetTask");
    }
}
