//! Payments, alone or with a booking: a saga in which every step is a commit of its task.
//!
//! | Step | Commit | Request to the processor |
//! |---|---|---|
//! | 1 | payment `authorizing`; the booking holds its slot | |
//! | 2 | | authorise the money |
//! | 3 | payment `authorized`; the booking is made, metered and reported to subscribers | |
//! | 4 | | capture the money |
//! | 5 | payment `captured`, with its receipt | |
//!
//! Whatever the processor refuses ends with the slot freed and the authorisation voided: `voiding`, then `failed`. A
//! crash anywhere leaves the payment where its last commit put it, and the turn goes on from there with the same id,
//! under which the processor does everything once. Where the processor's result is unknown it is asked again, and the
//! result is never guessed.

mod crypto;
mod holds;
mod processor;
mod request;
mod saga;
mod stripe;
mod test_processor;
mod x402;

pub use crypto::Crypto;
pub use holds::release_holds;
pub use processor::{Authorization, Charge, PaymentProcessor, ProcessorError};
pub use request::{CaptureMode, PaymentRequest, PaymentToken};
pub(crate) use saga::{BookingNotification, Purchase};
pub use stripe::{STRIPE_VERSION, Stripe};
pub use test_processor::TestProcessor;
pub use x402::X402;

use sabir_gateway::{Problem, ProblemCode};
use std::sync::Arc;
use std::time::Duration;

/// How long a slot is held for a payment.
pub const HOLD_TIME: Duration = Duration::from_secs(600);
/// How long a processor that does not answer is asked for an authorisation. Less than a slot is held.
pub const AUTHORIZE_TIME_MAX: Duration = Duration::from_secs(120);
/// How long it is asked to capture or to void the money.
pub const CAPTURE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// The first pause between two requests.
pub const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause between two requests.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The limits that an operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaymentCaps {
    /// The maximum of one payment, in minor units.
    pub payment_max: Option<u64>,
    /// The maximum of all payments of one key in one currency on one UTC day.
    pub day_max: Option<u64>,
}

/// Takes payments through processors, within the operator's limits.
#[derive(Clone, Default)]
pub struct PaymentService {
    processors: Vec<Arc<dyn PaymentProcessor>>,
    caps: PaymentCaps,
}

impl std::fmt::Debug for PaymentService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.processors.iter().map(|processor| processor.name()).collect();
        f.debug_struct("Cashier").field("processors", &names).field("caps", &self.caps).finish()
    }
}

impl PaymentService {
    /// A service with these processors and these limits.
    pub fn new(processors: Vec<Arc<dyn PaymentProcessor>>, caps: PaymentCaps) -> Self {
        Self { processors, caps }
    }

    /// Whether it has any processor.
    pub fn is_enabled(&self) -> bool {
        !self.processors.is_empty()
    }

    fn processor(&self, name: &str) -> Result<&dyn PaymentProcessor, Problem> {
        let found = self.processors.iter().find(|processor| processor.name() == name);
        found.map(|processor| &**processor).ok_or_else(|| {
            let taken: Vec<_> = self.processors.iter().map(|processor| processor.name()).collect();
            let words = format!("payments by {name} are not taken here; there is: {}", taken.join(", "));
            Problem::new(ProblemCode::PaymentDeclined, words)
        })
    }
}
