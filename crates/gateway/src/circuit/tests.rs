use super::*;
use sabir_client::UnreachableCause;

const QUICK: BreakerRules = BreakerRules { failures: 2, ..BreakerRules::UPSTREAM };

fn down(name: &str) -> CallOutcome {
    CallOutcome::Failed(FailureSource::UpstreamOrPath(name.into()))
}

fn advance(hub: &Hub, seconds: u64) {
    *lock(&hub.test_clock_offset) += Duration::from_secs(seconds);
}

fn fails(circuit: &Arc<Circuit>, times: u32) {
    for _ in 0..times {
        circuit.try_acquire().unwrap().report(&down(&circuit.name));
    }
}

#[test]
fn an_upstream_that_fails_is_left_alone_and_the_others_are_not() {
    let hub = Hub::new(Metrics::default());
    let (bad, good) = (hub.circuit("bad", "bad", QUICK), hub.circuit("good", "good", QUICK));
    fails(&bad, 2);
    assert_eq!(bad.try_acquire().unwrap_err().retry_after, Duration::from_secs(300));
    good.try_acquire().unwrap().report(&CallOutcome::Answered);
    advance(&hub, 300);
    let probe = bad.try_acquire().unwrap();
    assert_eq!(bad.try_acquire().unwrap_err().retry_after, Duration::from_secs(1), "one at a time");
    drop(probe);
    bad.try_acquire().unwrap().report(&CallOutcome::Answered);
    assert_eq!(
        bad.status(),
        CircuitStatus { upstream: BreakerState::Closed, trips: 1, hub: BreakerState::Closed, retry_after: None }
    );
}

#[test]
fn where_the_shared_breaker_refuses_the_probe_is_given_back() {
    let hub = Hub::with_rules(
        BreakerRules { failures: 3, cooldown: Duration::from_secs(900), ..BreakerRules::HUB },
        Metrics::default(),
        ExchangeLog::off(),
        Capacity::default(),
    );
    let [a, b, c] = ["a", "b", "c"].map(|name| hub.circuit(name, name, BreakerRules { failures: 1, ..QUICK }));
    [&a, &b, &c].into_iter().for_each(|circuit| fails(circuit, 1));
    assert_eq!(hub.state(), BreakerState::Open);
    advance(&hub, 300);
    // Its own breaker would permit a call; the shared one refuses it, and the upstream is not blamed for that.
    assert_eq!(a.try_acquire().unwrap_err().retry_after, Duration::from_secs(600));
    assert_eq!(a.status().upstream, BreakerState::HalfOpen);
    advance(&hub, 600);
    a.try_acquire().unwrap().report(&CallOutcome::Answered);
    assert_eq!(
        a.status(),
        CircuitStatus { upstream: BreakerState::Closed, trips: 1, hub: BreakerState::Closed, retry_after: None }
    );
}

#[test]
fn a_probe_that_hangs_does_not_hold_up_the_others() {
    let hub = Hub::with_rules(
        BreakerRules { failures: 3, ..BreakerRules::HUB },
        Metrics::default(),
        ExchangeLog::off(),
        Capacity::default(),
    );
    let circuits = ["a", "b", "c", "hangs", "good"].map(|name| hub.circuit(name, name, BreakerRules::UPSTREAM));
    let [a, b, c, hangs, good] = &circuits;
    [a, b, c].into_iter().for_each(|circuit| fails(circuit, 1));
    assert_eq!(hub.state(), BreakerState::Open);
    advance(&hub, 300);
    let out = hangs.try_acquire().unwrap();
    assert_eq!(good.try_acquire().unwrap_err().retry_after, Duration::from_secs(1), "one at a time");
    advance(&hub, 5);
    good.try_acquire().unwrap().report(&CallOutcome::Answered);
    assert_eq!(hub.state(), BreakerState::Closed);
    drop(out);
}

#[test]
fn our_own_failures_are_nobody_elses() {
    let hub = Hub::new(Metrics::default());
    let circuit = hub.circuit("one", "one", QUICK);
    for _ in 0..5 {
        circuit.try_acquire().unwrap().report(&CallOutcome::Failed(FailureSource::LocalNetwork));
    }
    assert_eq!(circuit.status().upstream, BreakerState::Closed);
    assert_eq!(hub.state(), BreakerState::Open);
}

#[test]
fn a_failure_is_what_says_that_they_are_down() {
    let name: Arc<str> = "one".into();
    let unreachable = |whose| {
        let (host, reason, cause) = ("h".into(), "r".into(), UnreachableCause::Other);
        Error::Unreachable { host, reason, safe: true, side: whose, cause, retry_after: None }
    };
    let timeout = |millis| Error::Timeout { what: "it", after: Duration::from_millis(millis) };
    let fault = |fault, transport| Error::Fault { fault, transport, retry_after: None };
    let http = |status| Some(TransportCode::Http(status));
    let refusal = |code| Fault::Peer { code, message: "x".into(), task: None };
    let (ours, theirs) =
        (CallOutcome::Failed(FailureSource::LocalNetwork), CallOutcome::Failed(FailureSource::UpstreamAlone));
    for (error, expected) in [
        (unreachable(FailureSide::Unknown), down("one")),
        (unreachable(FailureSide::Peer), theirs.clone()),
        (unreachable(FailureSide::Local), ours),
        (timeout(1000), down("one")),
        (timeout(999), CallOutcome::Unknown),
        (fault(Fault::Unavailable("x".into()), http(503)), theirs.clone()),
        (fault(Fault::InvalidAgentResponse("x".into()), http(500)), theirs.clone()),
        (fault(Fault::InvalidAgentResponse("x".into()), http(418)), CallOutcome::Answered),
        (fault(Fault::InvalidAgentResponse("html".into()), http(200)), theirs.clone()),
        (fault(Fault::InvalidAgentResponse("another task".into()), None), theirs.clone()),
        // A refusal of this request, by name, whatever the status: as the SDK for Java sends it.
        (fault(refusal(FaultCode::InvalidParams), http(200)), CallOutcome::Answered),
        (fault(refusal(FaultCode::InvalidParams), http(422)), CallOutcome::Answered),
        (fault(refusal(FaultCode::InvalidParams), http(500)), CallOutcome::Answered),
        (fault(refusal(FaultCode::TaskNotFound), Some(TransportCode::Grpc("INTERNAL"))), CallOutcome::Answered),
        (fault(refusal(FaultCode::Internal), http(500)), theirs.clone()),
        // One caller's input, whatever number the refusal comes with.
        (fault(Fault::invalid("x", "y"), http(500)), CallOutcome::Answered),
        (fault(Fault::ContentTypeNotSupported("image/png".into()), http(500)), CallOutcome::Answered),
        (fault(Fault::MethodNotFound("x".into()), Some(TransportCode::Grpc("UNKNOWN"))), CallOutcome::Answered),
        (fault(Fault::Exhausted("x".into()), http(429)), CallOutcome::Answered),
        (fault(Fault::Unavailable("x".into()), Some(TransportCode::JsonRpc(-32603))), CallOutcome::Answered),
        (fault(Fault::Unavailable("x".into()), Some(TransportCode::Grpc("UNAVAILABLE"))), theirs.clone()),
        (Error::from(BreakerRefusal { retry_after: ANSWER_TIME_MIN }), CallOutcome::Unknown),
        (Error::Usage("x".into()), CallOutcome::Unknown),
        (Error::AuthFailed { reason: "x".into(), transport: http(401) }, CallOutcome::Answered),
        (Error::TooLarge { what: "it", limit: 1 }, theirs.clone()),
        // Other callers, too, left no room.
        (Error::CapacityExceeded, CallOutcome::Unknown),
    ] {
        assert_eq!(outcome_of(&error, &name), expected, "{error:?}");
    }
}

#[test]
fn upstreams_that_are_switched_off_leave_the_others_alone() {
    let hub = Hub::new(Metrics::default());
    let [a, b, c, good] = ["a", "b", "c", "good"].map(|name| hub.circuit(name, name, BreakerRules::UPSTREAM));
    let off = [&a, &b, &c];
    // Their hosts refuse the connections.
    for _ in 0..5 {
        off.into_iter().for_each(|circuit| {
            circuit.try_acquire().unwrap().report(&CallOutcome::Failed(FailureSource::UpstreamAlone))
        });
    }
    assert!(off.into_iter().all(|circuit| circuit.status().upstream == BreakerState::Open));
    assert_eq!(hub.state(), BreakerState::Closed);
    // Why these are silent is not known; but another upstream answers.
    let [d, e, f] = ["d", "e", "f"].map(|name| hub.circuit(name, name, BreakerRules::UPSTREAM));
    for silent in [&d, &e, &f] {
        fails(silent, 1);
        good.try_acquire().unwrap().report(&CallOutcome::Answered);
        fails(silent, 1);
    }
    assert_eq!(hub.state(), BreakerState::Closed);
}

#[test]
fn failures_of_every_kind_at_several_venues_open_the_breaker_of_the_network_and_an_answer_forgives_none() {
    let hub = Hub::with_rules(BreakerRules::NETWORK, Metrics::default(), ExchangeLog::off(), Capacity::default());
    let [a, b, c, good] = ["a", "b", "c", "good"].map(|name| hub.circuit(name, name, BreakerRules::UPSTREAM));
    let name: Arc<str> = "x".into();
    let unreachable = |whose| {
        let (host, reason, cause) = ("h".into(), "r".into(), UnreachableCause::Other);
        outcome_of(&Error::Unreachable { host, reason, safe: true, side: whose, cause, retry_after: None }, &name)
    };
    let status = |status| {
        let (fault, transport) = (Fault::InvalidAgentResponse("x".into()), Some(TransportCode::Http(status)));
        outcome_of(&Error::Fault { fault, transport, retry_after: None }, &name)
    };
    // A refused connection, statuses, silence; in between, another venue answers.
    let failures = [
        (&a, unreachable(FailureSide::Peer)),
        (&b, status(500)),
        (&b, status(503)),
        (&b, status(502)),
        (&c, down("c")),
    ];
    for (number, (venue, failure)) in failures.into_iter().enumerate() {
        assert_eq!(hub.state(), BreakerState::Closed, "after {number}");
        venue.try_acquire().unwrap().report(&failure);
        if number < 4 {
            good.try_acquire().unwrap().report(&CallOutcome::Answered);
        }
    }
    assert_eq!(hub.state(), BreakerState::Open);
    assert_eq!(good.try_acquire().unwrap_err().retry_after, Duration::from_secs(300));
    // A probe that fails, of whatever venue, opens it again; one that succeeds closes it with a clean slate.
    advance(&hub, 300);
    a.try_acquire().unwrap().report(&status(500));
    assert_eq!(
        (hub.state(), good.try_acquire().unwrap_err().retry_after),
        (BreakerState::Open, Duration::from_secs(300))
    );
    advance(&hub, 300);
    good.try_acquire().unwrap().report(&CallOutcome::Answered);
    assert_eq!(hub.state(), BreakerState::Closed);
    a.try_acquire().unwrap().report(&status(500));
    assert_eq!(hub.state(), BreakerState::Closed);
}

#[test]
fn one_venue_or_two_that_fail_do_not_open_the_breaker_of_the_network() {
    let hub = Hub::with_rules(BreakerRules::NETWORK, Metrics::default(), ExchangeLog::off(), Capacity::default());
    let [a, b, good] = ["a", "b", "good"].map(|name| hub.circuit(name, name, BreakerRules::UPSTREAM));
    for _ in 0..5 {
        for venue in [&a, &b] {
            venue.try_acquire().unwrap().report(&CallOutcome::Failed(FailureSource::UpstreamAlone));
        }
    }
    assert_eq!([&a, &b].map(|venue| venue.status().upstream), [BreakerState::Open; 2]);
    assert_eq!(hub.state(), BreakerState::Closed);
    good.try_acquire().unwrap().report(&CallOutcome::Answered);
}
