//! 0.3 as gRPC: the messages of package `a2a.v1` to the vocabulary and back.
//!
//! | Room | What is there |
//! |---|---|
//! | [`request`] | what the ten methods are sent: to a [`Call`](sabir_proto::Call), and from one for whoever calls |
//! | [`reply`] | what they are answered with, events and cards included: written by servers, `read_…` by clients |
//! | [`status`], [`read_status`] | a fault as a gRPC status, with its details as in 1.0, and back |
//!
//! A fault names a member as the 0.3 peer knows it (`message.content[0]`, `name`); a loss names it as 1.0 does
//! (`message.parts[0].filename`), because a loss is about what the inside has and the peer does not see. What is lost on
//! the way out is the same for gRPC and REST and is decided in one file, `lost`.
//!
//! The messages are those of the release, with what later SDKs added to it: `Part.metadata`, `FilePart.name` and
//! `AgentCard.icon_url`. A reader that knows only the release skips them.
//!
//! `file_with_bytes` holds the bytes of the file, as its type says. Not all peers do so; [`files`](super::files) knows
//! who means what, and whoever serves them asks it after reading and before writing.

pub mod reply;
pub mod request;

mod card;
mod error;
mod lost;
mod message;
mod name;
mod push;
mod security;
mod task;

pub use error::{read_status, status};

pub(super) use card::{Interfaces, Shown, offered};
pub(super) use error::shown;
pub(super) use lost::{Lost, Numbers};
pub(super) use name::{of_push, of_task, told_push};
pub(super) use request::{create, no_list};
