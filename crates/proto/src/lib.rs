//! The internal vocabulary: hand-written types of A2A 1.0.1, and the `Call` and `Reply` that every request becomes.
//!
//! Everything that comes in becomes a [`Call`]; everything that goes out is made from a [`Reply`], an [`Event`] or a
//! [`Fault`]. The JSON form of these types *is* the v1.0 wire form, which is also what the task log stores, so the hot
//! path can splice committed bytes into answers without building a tree again.
//!
//! | Term of the specification | Type |
//! |---|---|
//! | Task, TaskStatus, TaskState | [`Task`], [`TaskStatus`], [`TaskState`] |
//! | Message, Role, Part | [`Message`], [`Role`], [`Part`] and its [`Content`] |
//! | Artifact | [`Artifact`] |
//! | StreamResponse | [`Event`] |
//! | the eleven operations | [`Call`] |
//! | AgentCard and its members | [`card`] |
//! | TaskPushNotificationConfig | [`PushConfig`] |
//! | errors | [`Fault`] and its [`FaultCode`] |
//!
//! Absent on purpose: async, sockets, SQL, and every dialect but the canonical one.

#![warn(missing_docs)]

pub mod canon;
pub mod card;
pub mod digest;
pub mod direct_message;
pub mod jwks;
pub mod k1;
pub mod lenient;
pub mod transfer;

mod artifact;
mod attachment;
mod call;
mod caller;
mod event;
mod fault;
mod frozen;
mod gap;
mod id;
mod json;
mod message;
mod part;
mod push;
mod reply;
mod secret;
mod stamp;
mod task;
mod text;

pub use artifact::Artifact;
pub use attachment::CallAttachment;
pub use call::{
    CALLER_ACCOUNT, Call, CancelTask, DeletePush, GetPush, GetTask, LINEAGE, LINEAGE_HEADER, ListPush, ListTasks,
    SCOPE, SendConfiguration, SendMessage, ServiceParameters, Subscribe,
};
pub use caller::{Caller, ToolMode};
pub use card::AgentCard;
pub use event::{ArtifactUpdate, Event, StatusUpdate, WireEvent};
pub use fault::{Fault, FaultCode, FieldViolation, HandoffRefusal, NamedRefusal};
pub use frozen::{FrozenEvent, FrozenTask, View};
pub use gap::{GAP, Gap};
pub use id::{
    AgentName, ArtifactId, ContextId, IdFault, MessageId, Seq, TaskId, TaskRef, Tenant, TenantFault, id_limits,
    is_uuid_or_ulid,
};
pub use json::{JSON_DEPTH_MAX, Json, JsonFault, Object};
pub use message::{Message, Role};
pub use part::{Content, Part, decode_base64, encode_base64, first_data};
pub use push::{Authentication, PushConfig};
pub use reply::{PushPage, Reply, SendReply, TaskPage, WireReply};
pub use secret::Secret;
pub use stamp::{Stamp, Timestamp};
pub use task::{Maybe, Task, TaskState, TaskStatus, WireTask};
pub use text::NonText;
pub use transfer::{HANDOFF, HANDOFF_LITERAL, Transfer, TransferContext};
