//! Durable storage: the task log and what is committed with it, and the guard's data.
//!
//! The engine sees only [`TaskLog`] and [`Outbox`]; what must happen together is one [`Step`], and a step is durable
//! before its effects are visible. The guard sees [`Keys`], [`Organisations`], [`ReplayGuard`], [`Counters`] and
//! [`Audit`]; with the [`AgentRegistry`] of agents these are [`GuardStore`]. A [`Store`] has both. Behind it stands
//! `sqlite`, which no other crate can name: one file each, one writer and group commit, or a database in memory for
//! tests and throw-away servers. The URL of a store decides, in `open`. With the feature `model`, there is also the model
//! that tests compare it with.
//!
//! Absent on purpose: HTTP, dialects, the rules of the task state machine, and authorization. The store holds events
//! and snapshots, keys and terms; other crates define what they mean.

mod admin_queries;
mod agent_registry;
mod audit;
mod counters;
mod error;
mod file_lock;
mod hash;
mod keys;
mod ledger;
mod list;
mod loss_note;
mod maintenance;
mod metrics;
#[cfg(feature = "model")]
mod model;
mod open;
mod organisations;
mod outbox;
mod ranking;
mod replay;
mod retention;
mod sqlite;
mod step;
mod store;
mod store_future;
mod subtasks;
mod task_log;
mod wake_signal;
mod write_health;

pub use admin_queries::{
    AdminQueries, AgentTaskCount, AllTasksQuery, ChangePage, ChangePlace, DEAD_COUNTED_MAX, OutboxMark,
    TASK_TEXTS_SCANNED_MAX, TASKS_SCANNED_MAX, TaskSummary, TaskSummaryPage,
};
pub use agent_registry::{
    AGENTS_MAX, AgentRegistry, CARDS_KEPT, CardChange, CardObservation, CardState, PinnedInterface, RegisteredAgent,
    StoredCard,
};
pub use audit::{
    Audit, AuditActor, AuditEntry, AuditOutcome, AuditRecord, AuditSubject, CALLER_BYTES_MAX, ChainBreak,
    ChainPosition, ChainVerification, LinkedEntry, REFUSALS_BURST, REFUSALS_PER_SECOND, Tampering,
};
pub use counters::{BUCKETS_MAX, CALLERS_MAX, Counters, QuotaDecision, RateDecision, RateWindow};
pub use error::{AppendError, ChangeError, OpenError, StoreError};
pub use file_lock::FileLock;
pub use hash::Hash;
pub use keys::{
    ApiKey, KEY_ID_BYTES_MAX, KEYS_MAX, KeyFingerprint, KeyId, KeyStatus, KeyTerms, Keys, PREFIX_CHARS, RETIRING_MAX,
    RetiringSecret,
};
pub use ledger::{
    Batch, BatchStatus, BatchUpdate, Billing, BillingTotals, BookableVenue, Booking, BookingDetails, BookingQuery,
    BookingStatus, BookingTransition, DAY_MS, Fee, INTERACTIONS_WAITING_MAX, ImportCounts, ImportError, Interaction,
    InteractionQuery, Ledger, LedgerEffect, LedgerError, NETWORKS_MAX, NetworkError, NetworkPutOutcome, NetworkRecord,
    Networks, NewBooking, NewUsage, Payment, PaymentJournalEntry, PaymentStatus, PaymentStep, Payments, SCAN_ROWS_MAX,
    SUBSCRIPTIONS_PER_KEY_MAX, Slot, SubscribeError, Subscriber, Subscription, Subscriptions, Usage, Venue,
    VenueListing, VenueQuery, VenueRef,
};
pub use list::{PageToken, StateSet, StoredTaskPage, TaskListQuery};
pub use loss_note::{LOSS_NOTES_MAX, LossNote, MORE_KIND};
pub use maintenance::{
    CheckProgress, CheckReport, CopyError, CopyReport, ExistingStore, PROBLEMS_MAX, backup, check, prunable_tasks,
    restore,
};
pub use metrics::Metrics;
pub use open::{
    ByteCounting, Durability, InvalidStoreUrl, OpenOptions, StoreUrl, WriterMode, create_private_directory, open,
    open_guard, open_tasks, stored_bytes,
};
pub use organisations::{
    DOMAIN_BYTES_MAX, Domain, InvalidSecretRef, ORGANISATIONS_MAX, Organisation, Organisations, SecretRef,
};
pub use outbox::{
    ATTEMPTS_KEPT, Attempt, Delivery, DeliveryMark, DeliveryQuery, DueDeliveries, DueDelivery, DueQuery, DueRemainder,
    Lane, Outbox, PROBLEM_CHARS_MAX, PushReceiver,
};
pub use ranking::rank;
pub use ranking::{RANKING_FIELDS, RankingCandidate, RankingMatch};
pub use replay::{MARKS_MAX, MARKS_PER_SCOPE_MAX, ReplayGuard, ReplayVerdict};
pub use retention::{OLDEST_MAX, PruneCursor, PruneProgress, Retention};
pub use step::{Continuation, Digest, Effect, Opening, PendingCancel, Placement, RetryMark, Scope, Step};
pub use store::{GuardStore, Store, TaskStore, Upkeep, guard_in_memory};
pub use store_future::StoreFuture;
pub use subtasks::{ChildOf, InterruptedTask, ParentLink, SubtaskSpend, TaskTree, TaskTreeNode, ended_unsuccessfully};
pub use task_log::{StoredRetry, StoredTask, TaskLog, TaskSnapshot, TurnProgress};
pub use wake_signal::WakeSignal;
pub use write_health::WriteHealth;
