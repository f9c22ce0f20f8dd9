//! Administration: one service for all who administer a server, and the transports to it.
//!
//! ```text
//! sabir key create …  ─ socket ─►  AdminService in the server  ─► store, engine, agents
//! sabir key create …  ─ in process, where no server runs ─► AdminService in the command
//! sabir … --server URL, a console ─ /api/v1 ─► the guard ─► AdminService in the server
//! ```
//!
//! An operation is a struct, in the file of its subject; `operation.rs` lists all of them. A transport decodes an
//! [`AdminRequest`], knows the [`Operator`], and encodes an [`AdminResponse`] or an [`AdminError`]. Every change is in the
//! audit, with the name of the operator.
//!
//! Absent on purpose: what is printed and how, and the keys of signed cards (`cards.rs`) and the files as a whole
//! (`files.rs`), which need no server.

mod agents;
pub(crate) mod api;
mod audit;
mod billing;
mod bookings;
mod cards;
mod deliveries;
mod envelopes;
mod error;
mod files;
mod inbox;
mod keys;
mod local_client;
mod operation;
mod organisations;
mod service;
mod subscriptions;
mod tasks;
mod venues;
mod webhook;

pub use agents::{
    AddAgent, AddedAgentView, AgentCardDocument, AgentHistory, AgentList, AgentOrigin, AgentView, ApproveAgent,
    DisableAgent, EnableAgent, ListAgents, PinnedInterfaceView, RefreshAgent, RefreshedAgent, RegisteredAgentView,
    RemoveAgent, ShowAgent, ShowAgentCard, ShowAgentHistory, StoredCardView, TriedInterface, parse_card_form,
};
pub use audit::{
    AUDIT_ENTRIES_MAX, AuditEntryView, AuditPage, AuditTail, ListAudit, TailAudit, VerifiedAudit, VerifyAudit,
    parse_position,
};
pub use billing::{BatchList, BatchView, CheckBilling, RunBilling, TallyView};
pub(crate) use bookings::NetworkAdmin;
pub use bookings::{BookingList, BookingView, ListBookings, MoveBooking, MoveView, ROWS_MAX, ShowBooking};
pub use cards::{CardKeys, key_set_at, key_set_of, make_key, make_withdrawal};
pub use deliveries::{
    AttemptView, DELIVERIES_MAX, DeliveryList, DeliveryState, DeliveryView, DropDelivery, ListDeliveries,
    RetryDelivery, ShowDelivery,
};
pub use envelopes::{EnvelopeList, EnvelopeView, ListEnvelopes};
pub use error::{AdminError, AdminErrorCode};
pub use files::{
    CheckProgress, CheckReport, CopyError, CopyReport, backup, check, has_store, is_store, prunable, prune, restore,
};
pub use inbox::{
    InboxPage, ListInbox, QUESTIONS_MAX, QuestionView, RepliedTask, ReplyToQuestion, ShowQuestion, WaitingTaskView,
};
pub use keys::{CreateKey, IssuedKeyView, KeyList, KeyView, ListKeys, RetiringText, RevokeKey, RotateKey};
pub use local_client::{administer, guard_file};
pub use operation::{AdminOperation, AdminRequest, AdminResponse, ApiRequest};
pub use organisations::{
    AddOrganisation, AddedOrganisation, ListOrganisations, OrganisationList, OrganisationView, RemoveOrganisation,
};
pub use sabir_store::{BookingStatus, Domain, InvalidSecretRef, SecretRef};
pub use service::{AdminService, Operator};
pub(crate) use service::{ServerAdminParts, TaskAdmin};
pub use subscriptions::{
    ListSubscriptions, RotateSubscription, Subscribe, SubscriptionList, SubscriptionView, Unsubscribe,
};
pub use tasks::{
    AgentStatistics, CancelTree, CanceledTaskView, CanceledTasks, CountTasks, ExchangeList, ListExchanges, ListTasks,
    TASKS_MAX, TaskList, TaskStatistics, TaskSummaryView,
};
pub use venues::{
    AddVenue, EnableVenue, ImportVenueFile, ImportVenues, ImportedVenues, ListVenues, SlotView, VenueList, VenueView,
};
pub use webhook::{TestWebhook, WebhookSecret, WebhookTrial};
