//! The token store: keeps the tokens of logins for later calls.
//!
//! There is one small file per (card origin, scheme, client id), readable by its owner only, in its own directory. File
//! names are hashes, because origins and scheme names come from untrusted cards. A file is replaced as a whole, so a
//! reader sees the old document or the new one. A lock per file protects renewals: servers that rotate refresh tokens
//! treat a second use of the old one as theft and revoke everything.
//!
//! **Warning.** The tokens are not encrypted. Anyone who can read the user's files can also read the user's keys; a
//! passphrase for unattended use would be stored beside them.

use crate::oauth::Token;
use crate::secret::Secret;
use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::future::Future;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest token file that is read.
const FILE_BYTES_MAX: u64 = 512 * 1024;
/// The number of files of a directory that are listed.
const FILES_MAX: usize = 1000;
/// The pause between two attempts to get the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const FORMAT: u32 = 1;

/// Identifies a token: agent, scheme and client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenKey {
    /// Scheme, host and port of the card URL: the token is only for this agent.
    pub origin: String,
    /// The name of the security scheme in the card.
    pub scheme: String,
    /// The id of the client that the token was issued to.
    pub client_id: String,
}

/// A token with the data that is needed to renew it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Identifies the token.
    pub key: TokenKey,
    /// The access token and the refresh token.
    pub token: Token,
    /// The flow that issued the token, in the card's words: `deviceCode`, `clientCredentials`, `openIdConnect`.
    pub flow: String,
    /// The `tokenUrl` of the card.
    pub token_url: String,
    /// The `refreshUrl`, if the card has one.
    pub refresh_url: Option<String>,
}

impl StoredToken {
    /// The URL at which the token is renewed.
    pub fn renewal_url(&self) -> &str {
        self.refresh_url.as_deref().unwrap_or(&self.token_url)
    }
}

/// Why a token cannot be loaded or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenStoreError {
    /// The file system reports an error.
    #[error("cannot use {path}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        cause: io::Error,
    },
    /// The file is not a token document. A new login replaces it; removing it helps too.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// The file that is damaged.
        path: PathBuf,
        /// What is wrong, without quoting values that may be secrets.
        why: String,
    },
    /// Other users can read or replace the file, so they may know the token or have written it.
    #[error("{path} is open to other users (mode {mode:03o}); `chmod go-rwx` it, or log in again")]
    Exposed {
        /// The file or directory.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// Another process holds the lock of this token for too long.
    #[error("{path} is locked by another process")]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
}

/// A token that can be used now.
#[derive(Debug)]
pub struct UsableToken {
    /// The token with its data.
    pub stored: StoredToken,
    /// The error of saving a renewed token, if it failed; the next call then needs a login.
    pub unsaved: Option<TokenStoreError>,
}

/// Why a stored token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsableTokenError<E> {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] TokenStoreError),
    /// The renewal failed.
    #[error("the token could not be renewed")]
    Renewal(#[source] E),
}

/// A directory of token files.
#[derive(Debug, Clone)]
pub struct TokenStore {
    dir: PathBuf,
}

impl TokenStore {
    /// A store in this directory, which is created with the first token.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The file of a key's token.
    pub fn path(&self, key: &TokenKey) -> PathBuf {
        self.dir.join(format!("{}.json", file_stem(key)))
    }

    /// Saves a token, replacing an earlier one, and returns its file.
    pub fn save(&self, stored: &StoredToken) -> Result<PathBuf, TokenStoreError> {
        make_private(&self.dir).map_err(|cause| TokenStoreError::Io { path: self.dir.clone(), cause })?;
        let path = self.path(&stored.key);
        let text = TokenDocument::of(stored).text(&path)?;
        let temporary = self.dir.join(format!(".{}.{:016x}.tmp", file_stem(&stored.key), rand::random::<u64>()));
        let written = write_private(&temporary, &text).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|cause| {
            // The temporary file contains the token. If it cannot be removed either, the first error matters more.
            let _ = fs::remove_file(&temporary);
            TokenStoreError::Io { path: path.clone(), cause }
        })?;
        Ok(path)
    }

    /// Loads the token of a key, if there is one.
    pub fn load(&self, key: &TokenKey) -> Result<Option<StoredToken>, TokenStoreError> {
        let path = self.path(key);
        match read(&path) {
            Ok(stored) => Ok(Some(stored)),
            Err(TokenStoreError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists every token, and for each unreadable file its error. A missing directory has no tokens.
    pub fn list(&self) -> Result<Vec<Result<StoredToken, TokenStoreError>>, TokenStoreError> {
        let failed = |cause| TokenStoreError::Io { path: self.dir.clone(), cause };
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(failed(cause)),
        };
        let mut paths = Vec::new();
        for entry in entries.take(FILES_MAX) {
            let path = entry.map_err(failed)?.path();
            if path.extension() == Some(OsStr::new("json")) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths.iter().map(|path| read(path)).collect())
    }

    /// Removes a token, readable or not, with all files that may contain parts of it. Returns whether there was one.
    pub fn remove(&self, key: &TokenKey) -> Result<bool, TokenStoreError> {
        let there = remove(&self.path(key))?;
        // Removes leftovers of a crash, and the lock. A process that renews at this moment may then renew twice.
        let hidden = format!(".{}.", file_stem(key));
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&hidden) {
                remove(&entry.path())?;
            }
        }
        Ok(there)
    }

    /// A token that can be used now: the stored one, or the one that `renew` returns. If several processes find it
    /// stale at once, one renews it and the others wait for that, no longer than `patience`.
    pub async fn usable_token<E, F>(
        &self,
        key: &TokenKey,
        now: u64,
        patience: Duration,
        renew: impl FnOnce(StoredToken) -> F,
    ) -> Result<Option<UsableToken>, UsableTokenError<E>>
    where
        F: Future<Output = Result<Token, E>>,
    {
        let usable = |stored: &StoredToken| stored.token.is_fresh(now);
        let kept = |stored: StoredToken| Ok(Some(UsableToken { stored, unsaved: None }));
        match self.load(key)? {
            None => return Ok(None),
            Some(stored) if usable(&stored) => return kept(stored),
            Some(_) => {}
        }
        let _lock = self.lock(key, patience).await?;
        let stale = match self.load(key)? {
            None => return Ok(None),
            Some(stored) if usable(&stored) => return kept(stored),
            Some(stored) => stored,
        };
        let token = renew(stale.clone()).await.map_err(UsableTokenError::Renewal)?;
        let stored = StoredToken { token, ..stale };
        let unsaved = self.save(&stored).err();
        Ok(Some(UsableToken { stored, unsaved }))
    }

    /// A lock that is held until dropped. The system releases it when a process dies.
    async fn lock(&self, key: &TokenKey, patience: Duration) -> Result<File, TokenStoreError> {
        let path = self.dir.join(format!(".{}.lock", file_stem(key)));
        let failed = |cause| TokenStoreError::Io { path: path.clone(), cause };
        let mut waited = Duration::ZERO;
        loop {
            let file = private_options().create(true).truncate(false).open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if waited < patience => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                    waited += LOCK_PAUSE;
                }
                Err(TryLockError::WouldBlock) => return Err(TokenStoreError::Busy { path }),
                Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            }
        }
    }
}

/// The file name: only a hash of the key. The key is hashed as JSON, so that different keys have different texts.
fn file_stem(key: &TokenKey) -> String {
    let text = serde_json::json!([key.origin, key.scheme, key.client_id]).to_string();
    digest(&SHA256, text.as_bytes()).as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content of a token file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenDocument {
    format: u32,
    #[serde(flatten)]
    key: TokenKey,
    flow: String,
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// When the token expires, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(default)]
    scopes: Vec<String>,
    token_url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_url: Option<String>,
}

impl TokenDocument {
    fn of(stored: &StoredToken) -> Self {
        Self {
            format: FORMAT,
            key: stored.key.clone(),
            flow: stored.flow.clone(),
            access_token: stored.token.access.expose().to_owned(),
            refresh_token: stored.token.refresh.as_ref().map(|refresh| refresh.expose().to_owned()),
            expires: stored.token.expires,
            scopes: stored.token.scopes.clone(),
            token_url: stored.token_url.clone(),
            refresh_url: stored.refresh_url.clone(),
        }
    }

    fn text(&self, path: &Path) -> Result<Vec<u8>, TokenStoreError> {
        serde_json::to_vec_pretty(self)
            .map_err(|cause| TokenStoreError::Io { path: path.to_owned(), cause: cause.into() })
    }

    fn into_stored(self) -> StoredToken {
        let token = Token {
            access: Secret::new(self.access_token),
            refresh: self.refresh_token.map(Secret::new),
            expires: self.expires,
            scopes: self.scopes,
        };
        StoredToken { key: self.key, token, flow: self.flow, token_url: self.token_url, refresh_url: self.refresh_url }
    }
}

fn read(path: &Path) -> Result<StoredToken, TokenStoreError> {
    let failed = |cause| TokenStoreError::Io { path: path.to_owned(), cause };
    let damaged = |why: String| TokenStoreError::Damaged { path: path.to_owned(), why };
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(damaged("not a file".to_owned()));
    }
    check_private(path, &about, 0o077)?;
    if let Some(dir) = path.parent() {
        // Reading file names in the directory does no harm; replacing a file would.
        check_private(dir, &fs::metadata(dir).map_err(failed)?, 0o022)?;
    }
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(damaged(format!("more than {FILE_BYTES_MAX} bytes")));
    }
    // The parser's message quotes values, and these values are secrets.
    let document: TokenDocument = serde_json::from_slice(&text)
        .map_err(|e| damaged(format!("not a token document, at line {} column {}", e.line(), e.column())))?;
    if document.format != FORMAT {
        return Err(damaged(format!("format {} is not known", document.format)));
    }
    // A renamed file would send the token of one agent to another agent.
    if path.file_stem() != Some(OsStr::new(&file_stem(&document.key))) {
        return Err(damaged("it does not belong under this name".to_owned()));
    }
    Ok(document.into_stored())
}

fn remove(path: &Path) -> Result<bool, TokenStoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(TokenStoreError::Io { path: path.to_owned(), cause }),
    }
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = private_options().create_new(true).open(path)?;
    file.write_all(text)?;
    // Without this, a crash may leave the new file empty while the old refresh token is already invalid.
    file.sync_all()
}

#[cfg(unix)]
fn private_options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(not(unix))]
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

/// Creates the directory, or removes the access of other users.
#[cfg(unix)]
fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let permissions = fs::metadata(dir)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(dir)
}

#[cfg(unix)]
fn check_private(path: &Path, about: &fs::Metadata, forbidden: u32) -> Result<(), TokenStoreError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = about.permissions().mode() & 0o777;
    if mode & forbidden == 0 { Ok(()) } else { Err(TokenStoreError::Exposed { path: path.to_owned(), mode }) }
}

/// On other systems the user's directory is private by inheritance; there are no such permission bits.
#[cfg(not(unix))]
fn check_private(_path: &Path, _about: &fs::Metadata, _forbidden: u32) -> Result<(), Error> {
    Ok(())
}

#[cfg(test)]
mod tests;
