//! What is asked of whoever moves the money.

use super::Token;
use sabir_engine::BoxFuture;
use sabir_proto::TaskId;
use serde_json::Value;

/// What is to be paid, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The payment. Whatever is asked under one name is done once.
    pub id: TaskId,
    /// In minor units.
    pub amount: u64,
    /// ISO 4217, in upper case.
    pub currency: String,
    /// What it is paid with.
    pub token: Token,
}

/// Money that is promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// What the processor calls it.
    pub reference: String,
}

/// Why a processor did not do what it was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Refused {
    /// It said no, in words a caller may read; and what there is to know for programs.
    Declined(String, Option<Value>),
    /// Nobody knows. It is to be asked again under the same name.
    Unknown(String),
}

impl Refused {
    /// Plainly no.
    pub fn declined(words: impl Into<String>) -> Self {
        Self::Declined(words.into(), None)
    }
}

/// Moves money. Each method may be called again with the same payment, and does what it did.
pub trait PaymentProcessor: Send + Sync + 'static {
    /// The type of its tokens.
    fn name(&self) -> &'static str;

    /// What no other payment may be made with, if the token is such a thing.
    fn once(&self, charge: &Charge) -> Option<String>;

    /// Looks at the token, and has the money promised.
    fn promise<'a>(&'a self, charge: &'a Charge) -> BoxFuture<'a, Result<Promise, Refused>>;

    /// Takes money that was promised; gives the receipt.
    fn capture<'a>(&'a self, charge: &'a Charge, reference: &'a str) -> BoxFuture<'a, Result<Value, Refused>>;

    /// Forgets about a promise, if there is one.
    fn void<'a>(&'a self, charge: &'a Charge, reference: Option<&'a str>) -> BoxFuture<'a, Result<(), Refused>>;
}
