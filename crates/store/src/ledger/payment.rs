//! Payments: the journal of what was asked of a processor, and what it said.
//!
//! A payment is called what its task is called; its booking, if it has one, is called the same.

use crate::Answer;
use sabir_proto::{TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentStatus {
    /// A processor is asked for the money; it may have said yes.
    Authorizing,
    /// The money is promised, and the booking made.
    Authorized,
    /// The money is ours.
    Captured,
    /// It shall not be, and the processor may not know yet.
    Voiding,
    /// It is not, and the processor knows.
    Failed,
}

impl PaymentStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Authorizing, Self::Authorized, Self::Captured, Self::Voiding, Self::Failed];

    /// In a word, as it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authorizing => "authorizing",
            Self::Authorized => "authorized",
            Self::Captured => "captured",
            Self::Voiding => "voiding",
            Self::Failed => "failed",
        }
    }

    /// The status of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == text)
    }
}

/// A payment. The token it was made with is not in it, only what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The payment, and its task.
    pub id: TaskId,
    /// The key it was made with.
    pub key: String,
    /// In minor units of the currency.
    pub amount: u64,
    /// ISO 4217.
    pub currency: String,
    /// Who moves the money.
    pub processor: String,
    /// A digest of the token.
    pub token: String,
    /// What no other payment may use, unless this one fails.
    pub once: Option<String>,
    /// Something is booked with it.
    pub books: bool,
    /// Where it stands.
    pub status: PaymentStatus,
    /// What the processor calls it.
    pub reference: Option<String>,
    /// What the processor said in the end: JSON.
    pub receipt: Option<String>,
    /// Since when.
    pub created_at: Timestamp,
    /// Everything that was done, oldest first.
    pub journal: Vec<PaymentEntry>,
}

impl Payment {
    /// The payment after a move; nothing where it does not stand where it was seen.
    pub(crate) fn moved(mut self, step: &PaymentStep) -> Option<Self> {
        let PaymentStep::Move { from, to, at, why, reference, receipt } = step else { return None };
        if self.status != *from {
            return None;
        }
        self.status = *to;
        self.reference = reference.clone().or(self.reference);
        self.receipt = receipt.clone().or(self.receipt);
        self.journal.push(PaymentEntry { at: at.millis(), to: *to, why: why.clone() });
        Some(self)
    }
}

/// One line of a payment's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentEntry {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// Where the payment went.
    pub to: PaymentStatus,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// What a step does to a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentStep {
    /// Opens the payment of the step's task.
    Open {
        /// The payment; its id and journal are made here.
        payment: Payment,
        /// What all payments of the key in this currency may come to on one day of UTC, this one included.
        day_max: Option<u64>,
    },
    /// Moves it from where it was seen.
    Move {
        /// Where it was seen.
        from: PaymentStatus,
        /// Where it goes.
        to: PaymentStatus,
        /// When.
        at: Timestamp,
        /// Why, where there is more to say.
        why: Option<String>,
        /// What the processor calls it, once that is known.
        reference: Option<String>,
        /// What the processor said.
        receipt: Option<String>,
    },
}

/// Payments. What changes them is [`crate::Effect::Pay`].
pub trait Payments: Send + Sync + 'static {
    /// A payment.
    fn payment(&self, id: TaskId) -> Answer<Option<Payment>>;

    /// Payments, the latest first; only those that are not at an end, if that is wanted.
    fn payments(&self, open: bool, limit: usize) -> Answer<Vec<Payment>>;
}
