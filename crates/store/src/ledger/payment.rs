//! Payments: the journal of what was asked of a processor, and of its answers.
//!
//! A payment has the id of its task; its booking, if it has one, has the same id.

use crate::StoreFuture;
use sabir_proto::{TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// The status of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentStatus {
    /// A processor was asked to authorise the money; it may have agreed.
    Authorizing,
    /// The processor has authorised the money, and the booking is made.
    Authorized,
    /// The processor has captured the money.
    Captured,
    /// The payment is to be voided, and the processor may not know yet.
    Voiding,
    /// The payment failed, and the processor knows.
    Failed,
}

impl PaymentStatus {
    pub const ALL: [Self; 5] = [Self::Authorizing, Self::Authorized, Self::Captured, Self::Voiding, Self::Failed];

    /// The word that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authorizing => "authorizing",
            Self::Authorized => "authorized",
            Self::Captured => "captured",
            Self::Voiding => "voiding",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == text)
    }
}

/// A payment. It does not hold the token, only a digest of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The id of the payment, and of its task.
    pub id: TaskId,
    /// The id of the key that pays.
    pub key: String,
    /// The amount in minor units of the currency.
    pub amount: u64,
    /// The currency by ISO 4217.
    pub currency: String,
    /// The name of the processor that moves the money.
    pub processor: String,
    /// A digest of the token.
    pub token: String,
    /// A key that no other payment may use, unless this one fails.
    pub once: Option<String>,
    /// Whether a booking is made with it.
    pub books: bool,
    pub status: PaymentStatus,
    /// The processor's id for the payment.
    pub reference: Option<String>,
    /// The processor's receipt: JSON.
    pub receipt: Option<String>,
    /// The time at which it was opened.
    pub created_at: Timestamp,
    /// All status changes, oldest first.
    pub journal: Vec<PaymentJournalEntry>,
}

impl Payment {
    /// The payment after a move; `None` where it is not in the status that the caller saw.
    pub(crate) fn after_move(mut self, step: &PaymentStep) -> Option<Self> {
        let PaymentStep::Move { from, to, at, why, reference, receipt } = step else { return None };
        if self.status != *from {
            return None;
        }
        self.status = *to;
        self.reference = reference.clone().or(self.reference);
        self.receipt = receipt.clone().or(self.receipt);
        self.journal.push(PaymentJournalEntry { at: at.millis(), to: *to, why: why.clone() });
        Some(self)
    }
}

/// One line of a payment's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentJournalEntry {
    /// The time, in milliseconds since 1970.
    pub at: i64,
    /// The status after the move.
    pub to: PaymentStatus,
    /// The reason, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// The change that a step makes to a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentStep {
    /// Opens the payment of the step's task.
    Open {
        /// The payment; the ledger sets its id and its journal.
        payment: Payment,
        /// The maximum for all payments of the key in this currency on one UTC day, this one included.
        day_max: Option<u64>,
    },
    /// Moves the payment to another status.
    Move {
        /// The status that the caller saw.
        from: PaymentStatus,
        /// The status after the move.
        to: PaymentStatus,
        /// The time of the move.
        at: Timestamp,
        /// The reason, where there is one.
        why: Option<String>,
        /// The processor's id for the payment, once it is known.
        reference: Option<String>,
        /// The processor's receipt.
        receipt: Option<String>,
    },
}

/// The stored payments. They are changed by [`crate::LedgerEffect::Pay`].
pub trait Payments: Send + Sync + 'static {
    /// The payment of this task, if there is one.
    fn payment(&self, id: TaskId) -> StoreFuture<Option<Payment>>;

    /// Payments, the latest first; only those that have not ended, if `open` is set.
    fn payments(&self, open: bool, limit: usize) -> StoreFuture<Vec<Payment>>;
}
