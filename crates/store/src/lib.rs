//! Durable storage: the task log and what is committed with it, and the guard's data.
//!
//! The engine sees only [`TaskLog`] and [`Outbox`]; what must happen together is one [`Step`], and a step is durable
//! before its effects are visible. The guard sees [`Keys`], [`Organisations`], [`ReplayGuard`], [`Counters`] and
//! [`Audit`]; with the [`Registry`] of agents these are [`GuardStore`]. Behind both stand [`memory`] (tests, throw-away
//! servers) and [`sqlite`] (one file each, one writer, group commit).
//!
//! Absent on purpose: HTTP, dialects, the rules of the task state machine, and authorization. The store holds events
//! and snapshots, keys and terms; other crates define what they mean.

pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;

mod answer;
mod audit;
mod bell;
mod counters;
mod error;
mod hash;
mod keys;
mod kin;
mod ledger;
mod list;
mod metrics;
mod note;
mod organisations;
mod outbox;
mod pulse;
mod ranking;
mod registry;
mod replay;
mod retention;
mod step;
mod task_log;

pub use answer::Answer;
pub use audit::{
    About, Audit, Break, By, CALLER_BYTES_MAX, Entry, Known, Linked, Outcome, REFUSALS_BURST, REFUSALS_PER_SECOND,
    Record, Tampering, Verified,
};
pub use bell::Bell;
pub use counters::{CALLERS_MAX, Counters, Hit, SLOTS_MAX, Spent, Window};
pub use error::{AppendError, ChangeError, OpenError, StoreError};
pub use hash::Hash;
pub use keys::{
    ApiKey, Imprint, KEY_ID_BYTES_MAX, KEYS_MAX, KeyId, KeyTerms, Keys, PREFIX_CHARS, RETIRING_MAX, Retiring, Standing,
};
pub use kin::{Asking, Birth, Family, Kin, Relative, Toll, is_given_up};
pub use ledger::{
    Batch, BatchMark, BatchStanding, Billing, Bookable, Booked, Booking, BookingMove, BookingQuery, BookingStatus,
    DAY_MS, Fee, INTERACTIONS_WAITING_MAX, ImportError, Imported, Interaction, InteractionQuery, Ledger, NETWORKS_MAX,
    NetworkError, NetworkPut, NetworkRecord, Networks, NewBooking, NewUsage, Payment, PaymentEntry, PaymentStatus,
    PaymentStep, Payments, Refusal, SCAN_ROWS_MAX, SUBSCRIPTIONS_PER_KEY_MAX, Slot, SubscribeError, Subscriber,
    Subscription, Subscriptions, Tally, Usage, Venue, VenueListing, VenueName, VenueQuery,
};
pub use list::{Listed, Listing, PageToken, States};
pub use metrics::Metrics;
pub use note::{MORE, NOTES_MAX, Note};
pub use organisations::{
    DOMAIN_BYTES_MAX, Domain, NotAReference, ORGANISATIONS_MAX, Organisation, Organisations, SecretRef,
};
pub use outbox::{
    ATTEMPTS_KEPT, Attempt, Due, Lane, Letter, Letters, Mark, Outbox, Owed, PROBLEM_CHARS_MAX, Reading, Receiver, Rest,
};
pub use pulse::Pulse;
pub use ranking::{Described, FIELDS, Fit, Ranking};
pub use registry::{AGENTS_MAX, CARDS_KEPT, CardStanding, Enlisted, KeptCard, Notice, Noticed, Pin, Registry};
pub use replay::{MARKS_MAX, MARKS_PER_SCOPE_MAX, ReplayGuard, Seen};
pub use retention::{Bookmark, Forgotten, OLDEST_MAX, Retention};
pub use step::{Continuation, Digest, Effect, Opening, OwedCancel, Placement, RetryMark, Scope, Step};
pub use task_log::{Base, KeptRetry, Progress, Stored, TaskLog};

/// All stores of the guard in one trait.
pub trait GuardStore: Keys + Organisations + ReplayGuard + Counters + Audit + Registry {}

impl<T: Keys + Organisations + ReplayGuard + Counters + Audit + Registry> GuardStore for T {}
