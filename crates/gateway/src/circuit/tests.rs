use super::*;
use sabir_client::UnreachableCause;

const QUICK: Rules = Rules { failures: 2, ..Rules::UPSTREAM };

fn down(name: &str) -> Verdict {
    Verdict::Down(Blame::Upstream(name.into()))
}

fn advance(hub: &Hub, seconds: u64) {
    *lock(&hub.ahead) += Duration::from_secs(seconds);
}

fn fails(circuit: &Arc<Circuit>, times: u32) {
    for _ in 0..times {
        circuit.pass().unwrap().report(&down(&circuit.name));
    }
}

#[test]
fn an_upstream_that_fails_is_left_alone_and_the_others_are_not() {
    let hub = Hub::new(Metrics::default());
    let (bad, good) = (hub.circuit("bad", "bad", QUICK), hub.circuit("good", "good", QUICK));
    fails(&bad, 2);
    assert_eq!(bad.pass().unwrap_err().after, Duration::from_secs(300));
    good.pass().unwrap().report(&Verdict::Alive);
    advance(&hub, 300);
    let probe = bad.pass().unwrap();
    assert_eq!(bad.pass().unwrap_err().after, Duration::from_secs(1), "one at a time");
    drop(probe);
    bad.pass().unwrap().report(&Verdict::Alive);
    assert_eq!(bad.standing(), Standing { upstream: State::Closed, trips: 1, hub: State::Closed, refused: None });
}

#[test]
fn where_the_shared_breaker_refuses_the_probe_is_given_back() {
    let hub = Hub::with(
        Rules { failures: 3, cooldown: Duration::from_secs(900), ..Rules::HUB },
        Metrics::default(),
        WireLog::off(),
        Capacity::default(),
    );
    let [a, b, c] = ["a", "b", "c"].map(|name| hub.circuit(name, name, Rules { failures: 1, ..QUICK }));
    [&a, &b, &c].into_iter().for_each(|circuit| fails(circuit, 1));
    assert_eq!(hub.state(), State::Open);
    advance(&hub, 300);
    // Its own breaker would permit a call; the shared one refuses it, and the upstream is not blamed for that.
    assert_eq!(a.pass().unwrap_err().after, Duration::from_secs(600));
    assert_eq!(a.standing().upstream, State::HalfOpen);
    advance(&hub, 600);
    a.pass().unwrap().report(&Verdict::Alive);
    assert_eq!(a.standing(), Standing { upstream: State::Closed, trips: 1, hub: State::Closed, refused: None });
}

#[test]
fn a_probe_that_hangs_does_not_hold_up_the_others() {
    let hub = Hub::with(Rules { failures: 3, ..Rules::HUB }, Metrics::default(), WireLog::off(), Capacity::default());
    let circuits = ["a", "b", "c", "hangs", "good"].map(|name| hub.circuit(name, name, Rules::UPSTREAM));
    let [a, b, c, hangs, good] = &circuits;
    [a, b, c].into_iter().for_each(|circuit| fails(circuit, 1));
    assert_eq!(hub.state(), State::Open);
    advance(&hub, 300);
    let out = hangs.pass().unwrap();
    assert_eq!(good.pass().unwrap_err().after, Duration::from_secs(1), "one at a time");
    advance(&hub, 5);
    good.pass().unwrap().report(&Verdict::Alive);
    assert_eq!(hub.state(), State::Closed);
    drop(out);
}

#[test]
fn our_own_failures_are_nobody_elses() {
    let hub = Hub::new(Metrics::default());
    let circuit = hub.circuit("one", "one", QUICK);
    for _ in 0..5 {
        circuit.pass().unwrap().report(&Verdict::Down(Blame::Ours));
    }
    assert_eq!(circuit.standing().upstream, State::Closed);
    assert_eq!(hub.state(), State::Open);
}

#[test]
fn a_failure_is_what_says_that_they_are_down() {
    let name: Arc<str> = "one".into();
    let unreachable = |whose| {
        let (host, reason, cause) = ("h".into(), "r".into(), UnreachableCause::Other);
        Error::Unreachable { host, reason, safe: true, whose, cause, retry_after: None }
    };
    let timeout = |millis| Error::Timeout { what: "it", after: Duration::from_millis(millis) };
    let fault = |fault, transport| Error::Fault { fault, transport, retry_after: None };
    let http = |status| Some(TransportCode::Http(status));
    let refusal = |code| Fault::Peer { code, message: "x".into(), task: None };
    let (ours, theirs) = (Verdict::Down(Blame::Ours), Verdict::Down(Blame::Theirs));
    for (error, expected) in [
        (unreachable(Whose::Unknown), down("one")),
        (unreachable(Whose::Theirs), theirs.clone()),
        (unreachable(Whose::Ours), ours),
        (timeout(1000), down("one")),
        (timeout(999), Verdict::Unknown),
        (fault(Fault::Unavailable("x".into()), http(503)), theirs.clone()),
        (fault(Fault::InvalidAgentResponse("x".into()), http(500)), theirs.clone()),
        (fault(Fault::InvalidAgentResponse("x".into()), http(418)), Verdict::Alive),
        (fault(Fault::InvalidAgentResponse("html".into()), http(200)), theirs.clone()),
        (fault(Fault::InvalidAgentResponse("another task".into()), None), theirs.clone()),
        // A refusal of this request, by name, whatever the status: as the SDK for Java sends it.
        (fault(refusal(Code::InvalidParams), http(200)), Verdict::Alive),
        (fault(refusal(Code::InvalidParams), http(422)), Verdict::Alive),
        (fault(refusal(Code::InvalidParams), http(500)), Verdict::Alive),
        (fault(refusal(Code::TaskNotFound), Some(TransportCode::Grpc("INTERNAL"))), Verdict::Alive),
        (fault(refusal(Code::Internal), http(500)), theirs.clone()),
        // One caller's input, whatever number the refusal comes with.
        (fault(Fault::invalid("x", "y"), http(500)), Verdict::Alive),
        (fault(Fault::ContentTypeNotSupported("image/png".into()), http(500)), Verdict::Alive),
        (fault(Fault::MethodNotFound("x".into()), Some(TransportCode::Grpc("UNKNOWN"))), Verdict::Alive),
        (fault(Fault::Exhausted("x".into()), http(429)), Verdict::Alive),
        (fault(Fault::Unavailable("x".into()), Some(TransportCode::JsonRpc(-32603))), Verdict::Alive),
        (fault(Fault::Unavailable("x".into()), Some(TransportCode::Grpc("UNAVAILABLE"))), theirs.clone()),
        (Error::from(Refused { after: FAIR }), Verdict::Unknown),
        (Error::Usage("x".into()), Verdict::Unknown),
        (Error::AuthFailed { reason: "x".into(), transport: http(401) }, Verdict::Alive),
        (Error::TooLarge { what: "it", limit: 1 }, theirs.clone()),
        // Other callers, too, left no room.
        (Error::Crowded, Verdict::Unknown),
    ] {
        assert_eq!(verdict(&error, &name), expected, "{error:?}");
    }
}

#[test]
fn upstreams_that_are_switched_off_leave_the_others_alone() {
    let hub = Hub::new(Metrics::default());
    let [a, b, c, good] = ["a", "b", "c", "good"].map(|name| hub.circuit(name, name, Rules::UPSTREAM));
    let off = [&a, &b, &c];
    // Their hosts refuse the connections.
    for _ in 0..5 {
        off.into_iter().for_each(|circuit| circuit.pass().unwrap().report(&Verdict::Down(Blame::Theirs)));
    }
    assert!(off.into_iter().all(|circuit| circuit.standing().upstream == State::Open));
    assert_eq!(hub.state(), State::Closed);
    // Why these are silent is not known; but another upstream answers.
    let [d, e, f] = ["d", "e", "f"].map(|name| hub.circuit(name, name, Rules::UPSTREAM));
    for silent in [&d, &e, &f] {
        fails(silent, 1);
        good.pass().unwrap().report(&Verdict::Alive);
        fails(silent, 1);
    }
    assert_eq!(hub.state(), State::Closed);
}

#[test]
fn failures_of_every_kind_at_several_venues_open_the_breaker_of_the_network_and_an_answer_forgives_none() {
    let hub = Hub::with(Rules::NETWORK, Metrics::default(), WireLog::off(), Capacity::default());
    let [a, b, c, good] = ["a", "b", "c", "good"].map(|name| hub.circuit(name, name, Rules::UPSTREAM));
    let name: Arc<str> = "x".into();
    let unreachable = |whose| {
        let (host, reason, cause) = ("h".into(), "r".into(), UnreachableCause::Other);
        verdict(&Error::Unreachable { host, reason, safe: true, whose, cause, retry_after: None }, &name)
    };
    let status = |status| {
        let (fault, transport) = (Fault::InvalidAgentResponse("x".into()), Some(TransportCode::Http(status)));
        verdict(&Error::Fault { fault, transport, retry_after: None }, &name)
    };
    // A refused connection, statuses, silence; in between, another venue answers.
    let failures =
        [(&a, unreachable(Whose::Theirs)), (&b, status(500)), (&b, status(503)), (&b, status(502)), (&c, down("c"))];
    for (number, (venue, failure)) in failures.into_iter().enumerate() {
        assert_eq!(hub.state(), State::Closed, "after {number}");
        venue.pass().unwrap().report(&failure);
        if number < 4 {
            good.pass().unwrap().report(&Verdict::Alive);
        }
    }
    assert_eq!(hub.state(), State::Open);
    assert_eq!(good.pass().unwrap_err().after, Duration::from_secs(300));
    // A probe that fails, of whatever venue, opens it again; one that succeeds closes it with a clean slate.
    advance(&hub, 300);
    a.pass().unwrap().report(&status(500));
    assert_eq!((hub.state(), good.pass().unwrap_err().after), (State::Open, Duration::from_secs(300)));
    advance(&hub, 300);
    good.pass().unwrap().report(&Verdict::Alive);
    assert_eq!(hub.state(), State::Closed);
    a.pass().unwrap().report(&status(500));
    assert_eq!(hub.state(), State::Closed);
}

#[test]
fn one_venue_or_two_that_fail_do_not_open_the_breaker_of_the_network() {
    let hub = Hub::with(Rules::NETWORK, Metrics::default(), WireLog::off(), Capacity::default());
    let [a, b, good] = ["a", "b", "good"].map(|name| hub.circuit(name, name, Rules::UPSTREAM));
    for _ in 0..5 {
        for venue in [&a, &b] {
            venue.pass().unwrap().report(&Verdict::Down(Blame::Theirs));
        }
    }
    assert_eq!([&a, &b].map(|venue| venue.standing().upstream), [State::Open; 2]);
    assert_eq!(hub.state(), State::Closed);
    good.pass().unwrap().report(&Verdict::Alive);
}
