//! The permit: a call that was allowed, and the identity of its caller.
//!
//! A permit holds the call itself, so that a caller cannot ask for one thing and do another; only the guard makes it,
//! after every check; and it cannot be copied. The way to the engine takes nothing else, so a forgotten check is a
//! program that does not compile:
//!
//! ```compile_fail,E0451
//! use sabir_guard::{Identity, Permit};
//! use sabir_proto::Call;
//!
//! fn forge(call: Call, identity: Identity) -> Permit {
//!     Permit { call, identity }
//! }
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
//! Nor is there a way round, from a caller that was recognised to one that may do everything, or from no caller to one:
//!
//! ```compile_fail,E0451
//! fn promote(admitted: sabir_guard::Admitted) -> sabir_guard::Cleared {
//!     sabir_guard::Cleared { admitted }
//! }
//! ```
//!
//! ```compile_fail,E0451
//! fn pretend(identity: sabir_guard::Identity, rules: sabir_guard::policy::RulesId) -> sabir_guard::Admitted {
//!     sabir_guard::Admitted { identity, rules, uncounted: false }
//! }
//! ```
//!
//! ```compile_fail,E0624
//! let identity = sabir_guard::Identity::anonymous();
//! ```
//!
//! The intended use does compile. The names above are right, and only what is forbidden is wrong with them:
//!
//! ```
//! use sabir_guard::fetch::Fetch;
//! use sabir_guard::policy::Rules;
//! use sabir_guard::{Admitted, Cleared, Guard, Identity, Permit, Refusal, RequestEvidence};
//! use sabir_proto::Call;
//!
//! async fn ask<F: Fetch>(
//!     guard: &Guard,
//!     rules: &Rules<F>,
//!     evidence: RequestEvidence<'_>,
//!     call: Call,
//! ) -> Result<(Call, Identity), Refusal> {
//!     let admitted: Admitted = guard.admit(rules, &evidence).await?;
//!     let cleared: Cleared = guard.clear(rules, admitted, &call, evidence.now).await?;
//!     let permit: Permit = guard.permit(rules, cleared, call, evidence.now).await?;
//!     Ok(permit.into_parts())
//! }
//! ```

use crate::identity::Identity;
use crate::policy::RulesId;
use sabir_proto::{Call, Caller};

/// A caller that is authenticated and within its rate limit; what it wants has not been looked at.
#[derive(Debug)]
pub struct Admitted {
    pub(crate) identity: Identity,
    /// The rules under which it was admitted.
    pub(crate) rules: RulesId,
    /// Whether the request could not be counted.
    pub(crate) uncounted: bool,
}

impl Admitted {
    /// The identity of the caller.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }
}

/// A caller that may have what it wants, as far as the guard is asked.
#[derive(Debug)]
pub struct Cleared {
    pub(crate) admitted: Admitted,
}

impl Cleared {
    /// The identity of the caller.
    pub const fn identity(&self) -> &Identity {
        self.admitted.identity()
    }
}

/// A call that may be served.
#[derive(Debug)]
pub struct Permit {
    pub(crate) call: Call,
    pub(crate) identity: Identity,
}

impl Permit {
    /// The call that is allowed.
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// The caller that made the call.
    pub const fn caller(&self) -> &Caller {
        self.identity.caller()
    }

    /// Whether names that the caller has chosen are kept for it: see [`Identity::keeps_guessable_names`].
    pub const fn keeps_guessable_names(&self) -> bool {
        self.identity.keeps_guessable_names()
    }

    /// The call to serve, and the identity of its caller.
    pub fn into_parts(self) -> (Call, Identity) {
        (self.call, self.identity)
    }
}
