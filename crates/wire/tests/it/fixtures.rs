//! Captures of other software, byte for byte: read, written again, and compared by meaning.
//!
//! `fixtures/INDEX.toml` says what each file is. The dialect and kind of an entry decide which module below takes it;
//! an entry that no module takes, and a file without an entry, fail. A difference between what we write and what was
//! captured must be one that [`allowed`] explains, and an explanation that is no longer needed fails too.
//!
//! | Module | What is there |
//! |---|---|
//! | here | the index, and which module takes which entry |
//! | `jsonrpc` | requests, replies, errors, streams and webhooks of the JSON-RPC dialects |
//! | `rest`, `grpc` | the same over HTTP paths and in protobuf |
//! | `cards` | cards |
//! | `heads` | requests without a body, and the heads of the others |
//! | `originals` | the examples of the documents the project started from |
//! | `bindings` | one peer over several bindings |
//! | `compare` | the differences in meaning |
//! | `allowed` | which differences are fine, and why |

mod allowed;
mod bindings;
mod cards;
mod compare;
mod grpc;
mod heads;
mod jsonrpc;
mod originals;
mod rest;

use crate::mint;
use sabir_wire::v03::files::FileEncoding as Files;
use sabir_wire::{Dialect, EndpointPath as Door, Facts, Losses, TextKind, convert, decode_request};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// An entry of the index: what a file is, and which software wrote it.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    pub(crate) file: String,
    pub(crate) dialect: String,
    pub(crate) kind: String,
    pub(crate) method: Option<String>,
    pub(crate) http: Option<String>,
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) message: Option<String>,
    pub(crate) grpc_status: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// The entries of `INDEX.toml`.
pub(crate) static INDEX: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Index {
        fixture: Vec<Entry>,
    }
    let text = std::fs::read_to_string(root().join("INDEX.toml")).unwrap();
    toml::from_str::<Index>(&text).unwrap_or_else(|e| panic!("{}", e.message())).fixture
});

impl Entry {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(root().join(&self.file)).unwrap_or_else(|e| panic!("{}: {e}", self.file))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap_or_else(|e| panic!("{}: {e}", self.file))
    }

    /// The extension of the file's name.
    pub(crate) fn ending(&self) -> &str {
        let name = self.file.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, ending)| ending)
    }

    /// The software that wrote the file.
    pub(crate) fn peer(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }

    /// The dialect, if it is one of those over JSON-RPC.
    pub(crate) fn json_rpc(&self) -> Option<Dialect> {
        Some(match &*self.dialect {
            "v1.0-jsonrpc" => Dialect::V1,
            "v0.3-jsonrpc" => Dialect::V03,
            "v0.2" => Dialect::V02,
            "v0.1" => Dialect::V01,
            "agent-native" => Dialect::Native,
            "xpr" => Dialect::Xpr,
            _ => return None,
        })
    }

    pub(crate) fn is_rest(&self) -> bool {
        self.dialect.ends_with("-rest")
    }

    /// The encoding of files that this peer uses in 0.3's protobuf. The index does not keep its `User-Agent`.
    pub(crate) fn files(&self) -> Files {
        let is_python = self.peer().starts_with("py-");
        if self.kind == "request" {
            Files::of_client(Some(if is_python { "python-httpx/0.28.1" } else { "node" }))
        } else {
            Files::of_server(Some(if is_python { "uvicorn" } else { "Express" }))
        }
    }

    /// What a server knows of the request before it reads the body.
    pub(crate) fn facts(&self) -> Facts<'_> {
        let path = self.http.as_deref().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        let entry = match path {
            path if path.ends_with("/_agent-native/a2a") => Door::Native,
            path if path.ends_with("/a2a") => Door::A2a,
            _ => Door::Root,
        };
        let version = self.headers.get("a2a-version").map(String::as_str);
        Facts { endpoint: entry, version, xpr_headers: self.headers.keys().any(|name| name.starts_with("x-xpr-")) }
    }
}

/// The groups of entries, one for each module that takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FixtureGroup {
    Requests,
    Replies,
    Errors,
    Events,
    Webhooks,
    RestRequests,
    RestReplies,
    RestErrors,
    RestEvents,
    RestCards,
    Protobuf,
    GrpcErrors,
    Cards,
    Heads,
    Originals,
    Beside,
}

/// Captures that are not A2A, each with the check that no decoder takes it for A2A.
const NOT_A2A: [(&str, &str); 3] = [
    ("agent-native/agent-native-0.133.3/process-task.request.json", "a server asks itself to go on with a task"),
    ("agent-native/agent-native-0.133.3/process-task.reply.json", "and answers itself"),
    ("v0.1/pya2a-0.1.1/jwks.json", "keys to check the signatures of webhooks with"),
];

/// The group that an entry belongs to.
fn group_of(entry: &Entry) -> Option<FixtureGroup> {
    let spoken = entry.json_rpc().is_some() && !entry.file.starts_with("originals/");
    Some(match (&*entry.kind, entry.ending()) {
        (kind, _) if entry.file.starts_with("originals/") && kind != "card" => FixtureGroup::Originals,
        _ if NOT_A2A.iter().any(|(file, _)| *file == entry.file) => FixtureGroup::Beside,
        ("request", "json") if spoken => FixtureGroup::Requests,
        ("reply" | "event", "json") if spoken && entry.file.contains("event.") => FixtureGroup::Events,
        ("reply" | "push-config", "json") if spoken => FixtureGroup::Replies,
        ("error", "json" | "txt") if spoken => FixtureGroup::Errors,
        ("event", "json") | ("sse" | "error", "sse") if spoken => FixtureGroup::Events,
        ("push-payload", "json") => FixtureGroup::Webhooks,
        ("request", "json" | "http") if entry.is_rest() => FixtureGroup::RestRequests,
        ("reply" | "event", "json") if entry.is_rest() && entry.file.contains("event.") => FixtureGroup::RestEvents,
        ("reply" | "push-config", "json" | "empty") if entry.is_rest() => FixtureGroup::RestReplies,
        // The extended card of 0.3 over REST follows its protobuf.
        ("card", "json") if entry.dialect == "v0.3-rest" => FixtureGroup::RestCards,
        ("error", "json" | "txt") if entry.is_rest() => FixtureGroup::RestErrors,
        ("event", "json") | ("sse" | "error", "sse") if entry.is_rest() => FixtureGroup::RestEvents,
        ("card", "json") => FixtureGroup::Cards,
        ("protobuf", "bin") => FixtureGroup::Protobuf,
        ("error", "json") if entry.file.ends_with(".status.json") => FixtureGroup::GrpcErrors,
        (_, "headers") | ("request", "http") => FixtureGroup::Heads,
        _ => return None,
    })
}

/// Every entry of a group.
pub(crate) fn entries(of: FixtureGroup) -> impl Iterator<Item = &'static Entry> {
    INDEX.iter().filter(move |entry| group_of(entry) == Some(of))
}

#[test]
fn what_is_not_a2a_is_not_taken_for_it() {
    for entry in entries(FixtureGroup::Beside) {
        let text = entry.text();
        assert!(decode_request(&entry.facts(), text.as_bytes(), &mut mint).is_err(), "{}", entry.file);
        let told = convert(Dialect::V03, Dialect::V1, TextKind::Reply, &text, &mut mint, &mut Losses::new());
        assert!(told.is_err(), "{}", entry.file);
    }
}

#[test]
fn every_file_is_listed_and_every_entry_is_used() {
    let mut files = BTreeSet::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/"));
            }
        }
    }
    let listed: BTreeSet<_> = INDEX.iter().map(|entry| entry.file.clone()).collect();
    assert_eq!(listed.len(), INDEX.len(), "an entry is there twice");
    files.retain(|file| !["INDEX.toml", ".gitattributes"].contains(&&**file));
    assert_eq!(files, listed, "what is there, and what is listed");
    let unused: Vec<_> = INDEX.iter().filter(|entry| group_of(entry).is_none()).map(|entry| &entry.file).collect();
    assert!(unused.is_empty(), "nobody takes {unused:?}");
}
