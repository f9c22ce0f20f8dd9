//! Cards that were fetched before: kept for as long as their server allows, then asked for by ETag.
//!
//! The cache is a convenience and treated as one: what cannot be read or written is fetched, and nothing fails.

use http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Url;

/// A card is asked for anew after this long, whatever its server says.
const AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Where cards are kept.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    directory: PathBuf,
}

/// A card as it was kept.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    url: String,
    etag: Option<String>,
    fresh_until: u64,
    pub(crate) server: Option<String>,
    pub(crate) body: String,
}

impl Cache {
    pub(crate) const fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn file(&self, url: &Url) -> PathBuf {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, url.as_str().as_bytes());
        let mut name = String::with_capacity(37);
        for byte in &digest.as_ref()[..16] {
            let _ = write!(name, "{byte:02x}");
        }
        self.directory.join(name + ".json")
    }

    /// What is kept of a URL.
    pub(crate) fn find(&self, url: &Url) -> Option<Kept> {
        let kept: Kept = serde_json::from_slice(&std::fs::read(self.file(url)).ok()?).ok()?;
        (kept.url == url.as_str()).then_some(kept)
    }

    /// Keeps a card, if its server allows it.
    pub(crate) fn keep(&self, url: &Url, headers: &HeaderMap, body: &str) {
        let control = headers.get(header::CACHE_CONTROL).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let directives = || control.split(',').map(str::trim);
        if directives().any(|d| d.eq_ignore_ascii_case("no-store") || d.eq_ignore_ascii_case("private")) {
            return;
        }
        let age = directives()
            .find_map(|d| d.strip_prefix("max-age=")?.parse().ok())
            .map_or(Duration::ZERO, Duration::from_secs);
        let stale = directives().any(|d| d.eq_ignore_ascii_case("no-cache"));
        let age = if stale { Duration::ZERO } else { age.min(AGE_MAX) };
        let etag = headers.get(header::ETAG).and_then(|v| v.to_str().ok()).map(str::to_owned);
        if etag.is_none() && age.is_zero() {
            return;
        }
        let (fresh_until, server) = (now() + age.as_secs(), server(headers));
        let kept = Kept { url: url.to_string(), etag, fresh_until, server, body: body.into() };
        let _ = self.write(&self.file(url), &kept);
    }

    /// Written beside and renamed, so that two processes never see half a card.
    fn write(&self, file: &Path, kept: &Kept) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let draft = file.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&draft, serde_json::to_vec(kept)?)?;
        std::fs::rename(&draft, file)
    }
}

impl Kept {
    /// Whether it may be used without asking.
    pub(crate) fn is_fresh(&self) -> bool {
        now() < self.fresh_until
    }

    /// The header that asks whether it still holds.
    pub(crate) fn condition(&self) -> Option<HeaderValue> {
        self.etag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok())
    }
}

/// What the program that answered calls itself.
pub(crate) fn server(headers: &HeaderMap) -> Option<String> {
    headers.get(header::SERVER).and_then(|v| v.to_str().ok()).map(str::to_owned)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
