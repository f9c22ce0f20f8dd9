//! A2A 0.3 as gRPC: converts between the messages of package `a2a.v1` and the canonical types.
//!
//! | Module or item | What is there |
//! |---|---|
//! | [`request`] | the requests: read as a [`Call`](sabir_proto::Call) by servers, written by clients |
//! | [`reply`] | their replies, events and cards included: written by servers, `read_…` by clients |
//! | [`status`], [`read_status`] | a fault as a gRPC status, with its details as in 1.0, and back |
//!
//! A fault names a member as the 0.3 peer knows it (`message.content[0]`, `name`). A loss names it as 1.0 does
//! (`message.parts[0].filename`), because it is about a canonical member that the peer does not see. The losses of
//! writing are the same for gRPC and REST; `loss_recorder` notes them.
//!
//! The messages are those of the release, with fields that later SDKs added: `Part.metadata`, `FilePart.name` and
//! `AgentCard.icon_url`. A reader of the release skips them.
//!
//! `file_with_bytes` holds the bytes of the file, as its type says. Some peers put other bytes there;
//! [`files`](super::files) knows which. The code that serves such a peer calls it after reading and before writing.

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
