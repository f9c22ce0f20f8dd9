//! The interface of payment processors.

use super::PaymentToken;
use sabir_engine::BoxFuture;
use sabir_proto::TaskId;
use serde_json::Value;

/// A charge: what is to be paid, and with which token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The id of the payment. A processor does each operation once under one id.
    pub id: TaskId,
    /// The amount in minor units.
    pub amount: u64,
    /// The currency by ISO 4217, in upper case.
    pub currency: String,
    /// The token it is paid with.
    pub token: PaymentToken,
}

/// An authorisation of money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// The processor's id for it.
    pub reference: String,
}

/// Why a processor did not do what it was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcessorError {
    /// The processor refused, with a reason that a caller may read, and details for programs.
    Declined(String, Option<Value>),
    /// The result is unknown. The request is to be repeated under the same id.
    Unknown(String),
}

impl ProcessorError {
    /// A refusal without details.
    pub fn declined(words: impl Into<String>) -> Self {
        Self::Declined(words.into(), None)
    }
}

/// Moves money. Each method may be called again for the same payment, with the same effect as one call.
pub trait PaymentProcessor: Send + Sync + 'static {
    /// The type of the tokens it takes.
    fn name(&self) -> &'static str;

    /// A key that no other payment may use, if the token can be used only once.
    fn single_use_key(&self, charge: &Charge) -> Option<String>;

    /// Checks the token, and has the money authorised.
    fn authorize<'a>(&'a self, charge: &'a Charge) -> BoxFuture<'a, Result<Authorization, ProcessorError>>;

    /// Captures authorised money; returns the receipt.
    fn capture<'a>(&'a self, charge: &'a Charge, reference: &'a str) -> BoxFuture<'a, Result<Value, ProcessorError>>;

    /// Voids an authorisation, if there is one.
    fn void<'a>(&'a self, charge: &'a Charge, reference: Option<&'a str>) -> BoxFuture<'a, Result<(), ProcessorError>>;
}
