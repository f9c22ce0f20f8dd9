//! The permit: a call that was allowed, and by whom it was made.
//!
//! It holds the call itself, so that nobody can ask for one thing and do another; it is made in one place, by the guard,
//! after every check; and it cannot be copied. Whoever owns the engine takes nothing else, so a forgotten check is a
//! program that does not compile:
//!
//! ```compile_fail,E0451
//! use sabir_guard::Permit;
//! use sabir_proto::{Call, Caller, Tenant};
//!
//! let call = Call::ExtendedCard { tenant: Tenant::none() };
//! let permit = Permit { call, caller: Caller::anonymous() };
//! ```
//!
//! ```compile_fail,E0599
//! let permit = sabir_guard::Permit::new();
//! ```
//!
//! ```compile_fail,E0277
//! fn make<T: Default>() -> T {
//!     T::default()
//! }
//! let permit: sabir_guard::Permit = make();
//! ```
//!
//! ```compile_fail,E0277
//! fn copy<T: Clone>(one: &T) -> T {
//!     one.clone()
//! }
//! fn twice(permit: &sabir_guard::Permit) -> sabir_guard::Permit {
//!     copy::<sabir_guard::Permit>(permit)
//! }
//! ```
//!
//! ```compile_fail,E0451
//! // Nor is there a way round, from a caller that was recognised to one that may do everything.
//! fn promote(admitted: sabir_guard::Admitted, call: sabir_proto::Call) -> sabir_guard::Cleared {
//!     sabir_guard::Cleared { admitted }
//! }
//! ```

use crate::identity::Identity;
use sabir_proto::{Call, Caller};

/// Somebody who is known and has not come too often; what is wanted has not been looked at.
#[derive(Debug)]
pub struct Admitted {
    pub(crate) identity: Identity,
    /// Under which rules.
    pub(crate) at: usize,
}

impl Admitted {
    /// Who it is.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }
}

/// Somebody who may have what is wanted, as far as the guard is asked.
#[derive(Debug)]
pub struct Cleared {
    pub(crate) admitted: Admitted,
}

/// A call that may be served.
#[derive(Debug)]
pub struct Permit {
    pub(crate) call: Call,
    pub(crate) caller: Caller,
}

impl Permit {
    /// The call.
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// Who made it.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Both, to be served.
    pub fn into_parts(self) -> (Call, Caller) {
        (self.call, self.caller)
    }
}
