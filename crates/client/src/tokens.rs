//! The token store: what a login leaves behind for the next call.
//!
//! One small file per (card origin, scheme, client id), readable by its owner only, in a directory of its own. Names
//! are hashes, since origins and scheme names come from strangers and have no business in a path. A file is replaced as
//! a whole, so a reader sees the old document or the new one. Renewing happens under a lock per file: servers that
//! rotate refresh tokens take a second use of the old one for theft and revoke everything.
//!
//! Nothing here is encrypted. Whoever can read the user's files can also read the user's keys; a passphrase for
//! unattended use would only lie beside it.

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

/// The largest document we read.
const FILE_BYTES_MAX: u64 = 512 * 1024;
/// How many files of a directory we list.
const FILES_MAX: usize = 1000;
/// How often we look whether the lock is free.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const FORMAT: u32 = 1;

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// Scheme, host and port of the card: the token is for this agent and no other.
    pub origin: String,
    /// The name of the security scheme in the card.
    pub scheme: String,
    /// The client it was given to.
    pub client_id: String,
}

/// A token and what is needed to renew it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Whose it is.
    pub key: Key,
    /// The token.
    pub token: Token,
    /// How it was got, in the card's words: `deviceCode`, `clientCredentials`, `openIdConnect`.
    pub flow: String,
    /// `tokenUrl`
    pub token_url: String,
    /// `refreshUrl`, where the card has one.
    pub refresh_url: Option<String>,
}

impl Stored {
    /// Where it is renewed.
    pub fn renewal_url(&self) -> &str {
        self.refresh_url.as_deref().unwrap_or(&self.token_url)
    }
}

/// Why a token could not be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system says no.
    #[error("cannot use {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Not a document of ours. Log in again, which replaces it, or remove it.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without quoting what may be a secret.
        why: String,
    },
    /// Others can read or replace it, so it may be known to them or be theirs.
    #[error("{path} is open to other users (mode {mode:03o}); `chmod go-rwx` it, or log in again")]
    Exposed {
        /// Which file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else is renewing this token, and does not come to an end.
    #[error("{path} is locked by another process")]
    Busy {
        /// The lock.
        path: PathBuf,
    },
}

/// What came of asking for a token that can be used now.
#[derive(Debug)]
pub struct Fresh {
    /// The token.
    pub stored: Stored,
    /// It was renewed, and could not be kept; the next call will need a login.
    pub unsaved: Option<Error>,
}

/// Why there is no usable token although one was stored.
#[derive(Debug, thiserror::Error)]
pub enum FreshError<E> {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// Renewing failed.
    #[error("the token could not be renewed")]
    Renewal(#[source] E),
}

/// A directory of tokens.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// A store in this directory, which is made when there is something to keep.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Where the token of this key is kept.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{}.json", stem(key)))
    }

    /// Keeps a token, replacing an earlier one, and says where.
    pub fn save(&self, stored: &Stored) -> Result<PathBuf, Error> {
        make_private(&self.dir).map_err(|cause| Error::Io { path: self.dir.clone(), cause })?;
        let path = self.path(&stored.key);
        let text = Document::of(stored).text(&path)?;
        let temporary = self.dir.join(format!(".{}.{:016x}.tmp", stem(&stored.key), rand::random::<u64>()));
        let written = write_private(&temporary, &text).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|cause| {
            // It holds the token. If it cannot be removed either, the first error is the one to tell.
            let _ = fs::remove_file(&temporary);
            Error::Io { path: path.clone(), cause }
        })?;
        Ok(path)
    }

    /// The token of this key, if there is one.
    pub fn load(&self, key: &Key) -> Result<Option<Stored>, Error> {
        let path = self.path(key);
        match read(&path) {
            Ok(stored) => Ok(Some(stored)),
            Err(Error::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every token, and for each file that holds none the reason. A directory that does not exist holds nothing.
    pub fn list(&self) -> Result<Vec<Result<Stored, Error>>, Error> {
        let failed = |cause| Error::Io { path: self.dir.clone(), cause };
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

    /// Forgets a token, readable or not, with everything that may hold a part of it. Says whether there was one.
    pub fn remove(&self, key: &Key) -> Result<bool, Error> {
        let there = remove(&self.path(key))?;
        // What a crash has left, and the lock. Somebody who renews at this very moment may then do so twice.
        let hidden = format!(".{}.", stem(key));
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&hidden) {
                remove(&entry.path())?;
            }
        }
        Ok(there)
    }

    /// A token that can be used now: the stored one, or the one `renew` gets for it. Of several processes that find it
    /// stale at once, one renews and the others wait for it, no longer than `patience`.
    pub async fn fresh<E, F>(
        &self,
        key: &Key,
        now: u64,
        patience: Duration,
        renew: impl FnOnce(Stored) -> F,
    ) -> Result<Option<Fresh>, FreshError<E>>
    where
        F: Future<Output = Result<Token, E>>,
    {
        let usable = |stored: &Stored| stored.token.is_fresh(now);
        let kept = |stored: Stored| Ok(Some(Fresh { stored, unsaved: None }));
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
        let token = renew(stale.clone()).await.map_err(FreshError::Renewal)?;
        let stored = Stored { token, ..stale };
        let unsaved = self.save(&stored).err();
        Ok(Some(Fresh { stored, unsaved }))
    }

    /// Holds until dropped. The system lets go of it when a process dies, so there is nothing to clean up.
    async fn lock(&self, key: &Key, patience: Duration) -> Result<File, Error> {
        let path = self.dir.join(format!(".{}.lock", stem(key)));
        let failed = |cause| Error::Io { path: path.clone(), cause };
        let mut waited = Duration::ZERO;
        loop {
            let file = private_options().create(true).truncate(false).open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if waited < patience => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                    waited += LOCK_PAUSE;
                }
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { path }),
                Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            }
        }
    }
}

/// The name of a file: nothing of the key but its hash. As JSON, so that no two keys have the same text.
fn stem(key: &Key) -> String {
    let text = serde_json::json!([key.origin, key.scheme, key.client_id]).to_string();
    digest(&SHA256, text.as_bytes()).as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a file holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    format: u32,
    #[serde(flatten)]
    key: Key,
    flow: String,
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(default)]
    scopes: Vec<String>,
    token_url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_url: Option<String>,
}

impl Document {
    fn of(stored: &Stored) -> Self {
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

    fn text(&self, path: &Path) -> Result<Vec<u8>, Error> {
        serde_json::to_vec_pretty(self).map_err(|cause| Error::Io { path: path.to_owned(), cause: cause.into() })
    }

    fn into_stored(self) -> Stored {
        let token = Token {
            access: Secret::new(self.access_token),
            refresh: self.refresh_token.map(Secret::new),
            expires: self.expires,
            scopes: self.scopes,
        };
        Stored { key: self.key, token, flow: self.flow, token_url: self.token_url, refresh_url: self.refresh_url }
    }
}

fn read(path: &Path) -> Result<Stored, Error> {
    let failed = |cause| Error::Io { path: path.to_owned(), cause };
    let damaged = |why: String| Error::Damaged { path: path.to_owned(), why };
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(damaged("not a file".to_owned()));
    }
    check_private(path, &about, 0o077)?;
    if let Some(dir) = path.parent() {
        // Reading the names does no harm; replacing a file would.
        check_private(dir, &fs::metadata(dir).map_err(failed)?, 0o022)?;
    }
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(damaged(format!("more than {FILE_BYTES_MAX} bytes")));
    }
    // The parser's own words quote values, and these are secrets.
    let document: Document = serde_json::from_slice(&text)
        .map_err(|e| damaged(format!("not a token document, at line {} column {}", e.line(), e.column())))?;
    if document.format != FORMAT {
        return Err(damaged(format!("format {} is not known", document.format)));
    }
    // A file under another's name would send one agent's token to another agent.
    if path.file_stem() != Some(OsStr::new(&stem(&document.key))) {
        return Err(damaged("it does not belong under this name".to_owned()));
    }
    Ok(document.into_stored())
}

fn remove(path: &Path) -> Result<bool, Error> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(Error::Io { path: path.to_owned(), cause }),
    }
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = private_options().create_new(true).open(path)?;
    file.write_all(text)?;
    // Otherwise a crash may leave the new name with no content, and the old refresh token is dead already.
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

/// Makes the directory, or closes one that is open to others: it is ours alone.
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
fn check_private(path: &Path, about: &fs::Metadata, forbidden: u32) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = about.permissions().mode() & 0o777;
    if mode & forbidden == 0 { Ok(()) } else { Err(Error::Exposed { path: path.to_owned(), mode }) }
}

/// Elsewhere the user's own directory is private by inheritance, and there are no such bits to look at.
#[cfg(not(unix))]
fn check_private(_path: &Path, _about: &fs::Metadata, _forbidden: u32) -> Result<(), Error> {
    Ok(())
}

#[cfg(test)]
mod tests;
