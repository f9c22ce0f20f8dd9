//! The cache of fetched cards: kept for as long as their server allows, then revalidated by ETag.
//!
//! The cache is optional: if it cannot be read or written, the card is fetched and nothing fails.

use http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Url;

/// A card is fetched again after this long, whatever its server allows.
const AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory of cached cards.
#[derive(Debug, Clone)]
pub(crate) struct CardCache {
    directory: PathBuf,
    /// What else the cached card depends on: our protocol version and the certificate authorities we trust.
    variant_key: String,
}

/// A card as it is stored in the cache.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CachedCard {
    url: String,
    etag: Option<String>,
    fresh_until: u64,
    pub(crate) server: Option<String>,
    pub(crate) body: String,
}

impl CardCache {
    /// A cache for a client of this version that trusts these authorities. `None` where every certificate is accepted:
    /// a card from an unverified server must not be believed later.
    pub(crate) fn new(directory: PathBuf, version: &str, tls: &crate::Tls) -> Option<Self> {
        if tls.insecure {
            return None;
        }
        let trusted = tls.ca.as_deref().map(|pem| hex(pem, 8)).unwrap_or_default();
        Some(Self { directory, variant_key: format!("{version} {trusted}") })
    }

    fn file(&self, url: &Url) -> PathBuf {
        self.directory.join(hex(format!("{} {url}", self.variant_key).as_bytes(), 16) + ".json")
    }

    /// The cached card of a URL.
    pub(crate) fn find(&self, url: &Url) -> Option<CachedCard> {
        let kept: CachedCard = serde_json::from_slice(&std::fs::read(self.file(url)).ok()?).ok()?;
        (kept.url == url.as_str()).then_some(kept)
    }

    /// Stores a card, if its server allows it. `old` is the cached card that the server says is still current.
    pub(crate) fn store(&self, url: &Url, headers: &HeaderMap, body: &str, old: Option<&CachedCard>) {
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
        let etag = etag.or_else(|| old?.etag.clone());
        if etag.is_none() && age.is_zero() {
            return;
        }
        let (fresh_until, server) = (now() + age.as_secs(), server_name(headers).or_else(|| old?.server.clone()));
        let kept = CachedCard { url: url.to_string(), etag, fresh_until, server, body: body.into() };
        let _ = self.write(&self.file(url), &kept);
    }

    /// Writes a temporary file and renames it, so that another process never reads half a card.
    fn write(&self, file: &Path, kept: &CachedCard) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let draft = file.with_extension(format!("{}.tmp", uuid::Uuid::now_v7().simple()));
        std::fs::write(&draft, serde_json::to_vec(kept)?)?;
        std::fs::rename(&draft, file)
    }
}

impl CachedCard {
    /// Whether the card may be used without asking the server.
    pub(crate) fn is_fresh(&self) -> bool {
        now() < self.fresh_until
    }

    /// The `If-None-Match` value that asks the server whether the card is still current.
    pub(crate) fn condition(&self) -> Option<HeaderValue> {
        self.etag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok())
    }
}

/// The beginning of a digest, as text.
fn hex(bytes: &[u8], length: usize) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref()[..length].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The name of the program that answered: the framework it names, or else its `Server` header.
pub(crate) fn server_name(headers: &HeaderMap) -> Option<String> {
    let said = headers.get("x-powered-by").or_else(|| headers.get(header::SERVER));
    said.and_then(|v| v.to_str().ok()).map(str::to_owned)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
