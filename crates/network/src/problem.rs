//! Refusals of the guard, the ledger and the engine as problems of the network.

use sabir_gateway::{Problem, ProblemCode};
use sabir_guard::Refusal;
use sabir_guard::authn::Scheme;
use sabir_proto::{Fault, NamedRefusal};
use sabir_store::LedgerError;
use std::time::Duration;

/// The problem for a refusal of the guard.
pub fn of_guard(refusal: &Refusal) -> Problem {
    let code = match (refusal.reason, &refusal.fault) {
        ("from_not_bound" | "from_other" | "from_no_relay", _) => ProblemCode::AgentMismatch,
        ("payload_reserved", _) => ProblemCode::InvalidPayload,
        (reason, Fault::Forbidden(_)) if reason.starts_with("tier") => ProblemCode::TierRequired,
        (_, Fault::Unauthenticated(_)) if refusal.scheme == Some(Scheme::Agnt) => ProblemCode::InvalidSignature,
        (_, Fault::Unauthenticated(_)) => ProblemCode::Unauthorized,
        (_, Fault::Forbidden(_)) => ProblemCode::ScopeRequired,
        (_, Fault::RateLimited { .. }) => ProblemCode::RateLimited,
        _ => ProblemCode::Internal,
    };
    with_delay(Problem::new(code, refusal.fault.to_string()), &refusal.fault)
}

/// The problem for a fault of the engine.
pub fn of_fault(fault: &Fault) -> Problem {
    let code = match fault {
        Fault::Refused(refusal) => return of_named(refusal),
        Fault::RetryConflict => ProblemCode::IdempotencyConflict,
        Fault::InvalidParams(_) | Fault::ContentTypeNotSupported(_) => ProblemCode::InvalidPayload,
        Fault::Unauthenticated(_) => ProblemCode::Unauthorized,
        Fault::Forbidden(_) => ProblemCode::ScopeRequired,
        Fault::RateLimited { .. } => ProblemCode::RateLimited,
        Fault::Unavailable(words) if words == sabir_engine::STILL_ACCEPTING => ProblemCode::InProgress,
        _ => ProblemCode::Internal,
    };
    let message = match code {
        ProblemCode::IdempotencyConflict => {
            "this sender has sent something else with this intent and timestamp; send it with a timestamp of its own"
                .into()
        }
        _ => fault.to_string(),
    };
    let problem = Problem::new(code, message);
    if code == ProblemCode::InProgress {
        return problem.with_retry_after(Duration::from_secs(1));
    }
    with_delay(problem, fault)
}

fn with_delay(problem: Problem, fault: &Fault) -> Problem {
    match fault.retry_after() {
        Some(seconds) => problem.with_retry_after(Duration::from_secs(seconds)),
        None => problem,
    }
}

/// The problem for a refusal with a name: one of the ledger, or one that another network has sent.
fn of_named(refusal: &NamedRefusal) -> Problem {
    let ledger = LedgerError::ALL.into_iter().find(|error| error.reason() == refusal.reason);
    let code = match ledger {
        Some(error) => code_of(error),
        None => ProblemCode::parse(&refusal.reason, 0).unwrap_or(ProblemCode::Internal),
    };
    let NamedRefusal { message, retry_after, details, .. } = refusal.clone();
    Problem { code, message, retry_after, details }
}

const fn code_of(error: LedgerError) -> ProblemCode {
    match error {
        LedgerError::NoVenue => ProblemCode::VenueNotFound,
        LedgerError::NoSlot => ProblemCode::SlotUnavailable,
        LedgerError::BookingMoved | LedgerError::PaymentMoved => ProblemCode::InProgress,
        LedgerError::PaymentUsed => ProblemCode::PaymentDeclined,
        LedgerError::PaymentLimit => ProblemCode::PaymentLimitExceeded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_their_codes() {
        let refused = |reason| Fault::Refused(Box::new(NamedRefusal::new(reason, "m")));
        for (fault, code) in [
            (refused("no_venue"), ProblemCode::VenueNotFound),
            (refused("no_slot"), ProblemCode::SlotUnavailable),
            (refused("booking_moved"), ProblemCode::InProgress),
            (refused("payment_moved"), ProblemCode::InProgress),
            (refused("payment_used"), ProblemCode::PaymentDeclined),
            (refused("payment_limit"), ProblemCode::PaymentLimitExceeded),
            (refused("loop_detected"), ProblemCode::LoopDetected),
            (refused("a reason of another extension"), ProblemCode::Internal),
            (Fault::RetryConflict, ProblemCode::IdempotencyConflict),
            (Fault::invalid("a", "b"), ProblemCode::InvalidPayload),
            (Fault::Unavailable(sabir_engine::STILL_ACCEPTING.into()), ProblemCode::InProgress),
            (Fault::Unavailable("disk full".into()), ProblemCode::Internal),
            (Fault::Internal("ref".into()), ProblemCode::Internal),
        ] {
            assert_eq!(of_fault(&fault).code, code, "{fault:?}");
        }
        let shed = of_fault(&Fault::Shed { words: "w".into(), retry_after: 3 });
        assert_eq!(shed.retry_after, Some(Duration::from_secs(3)));
    }

    #[test]
    fn no_reason_of_the_ledger_is_the_name_of_a_problem() {
        for error in LedgerError::ALL {
            assert_eq!(ProblemCode::parse(error.reason(), 0), None, "{error}");
        }
    }

    #[test]
    fn refusals_of_the_guard_have_their_codes() {
        let forbidden = || Fault::Forbidden("m".into());
        let unauthenticated = || Fault::Unauthenticated("m".into());
        for (scheme, reason, fault, code) in [
            (Scheme::ApiKey, "from_not_bound", forbidden(), "agent_mismatch"),
            (Scheme::Agnt, "from_other", forbidden(), "agent_mismatch"),
            (Scheme::ApiKey, "from_no_relay", forbidden(), "agent_mismatch"),
            (Scheme::Agnt, "payload_reserved", forbidden(), "invalid_payload"),
            (Scheme::ApiKey, "tier_free", forbidden(), "tier_required"),
            (Scheme::ApiKey, "scope_intent", forbidden(), "scope_required"),
            (Scheme::Agnt, "bad_sig", unauthenticated(), "invalid_signature"),
            (Scheme::ApiKey, "unknown_key", unauthenticated(), "unauthorized"),
            (Scheme::ApiKey, "day", Fault::RateLimited { words: "w".into(), retry_after: 9 }, "rate_limited"),
            (Scheme::ApiKey, "x", Fault::AuthUnavailable { words: "w".into(), retry_after: Some(9) }, "internal"),
        ] {
            let refusal = Refusal { scheme: Some(scheme), reason, fault };
            let problem = of_guard(&refusal);
            assert_eq!(problem.code.name(), code, "{reason}");
            let delay = refusal.fault.retry_after().map(Duration::from_secs);
            assert_eq!(problem.retry_after, delay, "{reason}");
        }
    }
}
