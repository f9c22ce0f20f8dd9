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
mod loss_recorder;
mod message;
mod name;
mod push;
mod security;
mod task;

pub use error::{read_status, status};

pub(super) use card::{Interfaces, ReducedCard, true_or_unset};
pub(super) use error::code_in_v03;
pub(super) use loss_recorder::{LossRecorder, NumberEncoding};
pub(super) use name::{push_name, read_push_in_reply, task_name};
pub(super) use request::{create_push_call, list_not_supported};
