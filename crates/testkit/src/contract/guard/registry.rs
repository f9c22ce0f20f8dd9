//! Promises about the registry: added agents, and their observed cards.

use super::{GuardFixture, ann, at, changes};
use crate::wait::wait;
use sabir_proto::AgentName;
use sabir_store::{
    CARDS_KEPT, CardChange, CardObservation, CardState, ChangeError, PinnedInterface, RegisteredAgent, StoredCard,
};

fn name(text: &str) -> AgentName {
    AgentName::parse(text).expect("a legal name")
}

fn agent(text: &str) -> RegisteredAgent {
    RegisteredAgent {
        name: name(text),
        url: format!("https://{text}.example"),
        profile: None,
        settings: r#"{"bearer":"env:TOKEN"}"#.into(),
        enabled: true,
        added_at: at(0),
    }
}

fn card(of: &str, digest: &str, standing: CardState) -> CardObservation {
    CardObservation {
        agent: name(of),
        at: at(7),
        url: Some("https://a.example/.well-known/agent-card.json".into()),
        card: format!("{{\"name\":{digest:?}}}"),
        digest: digest.into(),
        pin: PinnedInterface {
            binding: "JSONRPC".into(),
            address: "https://a.example/rpc".into(),
            version: "1.0".into(),
            signer: None,
        },
        changes: vec!["skills".into(), "url".into()],
        state: standing,
    }
}

fn notice(bench: &dyn GuardFixture, card: CardObservation) -> CardChange {
    wait(bench.store().observe_card(card)).expect("a card is noticed")
}

fn standings(bench: &dyn GuardFixture, of: &str) -> Vec<(u64, String, &'static str)> {
    let cards: Vec<StoredCard> = wait(bench.store().cards(name(of))).expect("a list");
    cards.into_iter().map(|kept| (kept.number, kept.observation.digest, kept.observation.state.name())).collect()
}

pub(super) fn an_agent_is_kept_as_it_was_added(bench: &mut dyn GuardFixture) {
    let (mut one, two) = (agent("b"), RegisteredAgent { enabled: false, ..agent("a") });
    one.profile = Some("foundry".into());
    let shown = card("b", "d1", CardState::Used);
    wait(bench.store().register_agent(one.clone(), Some(shown.clone()), ann(0))).expect("added");
    wait(bench.store().register_agent(two.clone(), None, ann(0))).expect("added");
    for _ in 0..2 {
        assert_eq!(wait(bench.store().registered_agents()), Ok(vec![two.clone(), one.clone()]));
        let kept = StoredCard { number: 1, observation: shown.clone() };
        assert_eq!(wait(bench.store().cards(name("b"))), Ok(vec![kept.clone()]));
        assert_eq!(wait(bench.store().used_cards()), Ok(vec![kept]));
        assert_eq!(wait(bench.store().cards(name("a"))), Ok(Vec::new()));
        bench.reopen();
    }
}

pub(super) fn a_name_is_taken_once(bench: &mut dyn GuardFixture) {
    // A card of a configured agent that had this name before.
    notice(bench, card("a", "d0", CardState::Used));
    wait(bench.store().register_agent(agent("a"), Some(card("a", "d1", CardState::Used)), ann(0))).expect("added");
    assert_eq!(standings(bench, "a"), [(1, "d1".to_owned(), "used")]);
    let other = RegisteredAgent { url: "https://evil.example".into(), ..agent("a") };
    let refused = wait(bench.store().register_agent(other, Some(card("a", "d2", CardState::Used)), ann(1)));
    assert_eq!(refused, Err(ChangeError::AgentTaken(name("a"))));
    assert_eq!(wait(bench.store().registered_agents()), Ok(vec![agent("a")]));
    assert_eq!(standings(bench, "a"), [(1, "d1".to_owned(), "used")]);
}

pub(super) fn an_agent_comes_and_goes(bench: &mut dyn GuardFixture) {
    wait(bench.store().register_agent(agent("a"), Some(card("a", "d1", CardState::Used)), ann(0))).expect("added");
    let off = wait(bench.store().enable_agent(name("a"), false, ann(1))).expect("disabled");
    assert!(!off.enabled);
    bench.reopen();
    assert_eq!(wait(bench.store().registered_agents()), Ok(vec![off]));
    assert!(wait(bench.store().enable_agent(name("a"), true, ann(2))).expect("enabled").enabled);
    assert_eq!(wait(bench.store().remove_agent(name("a"), ann(3))), Ok(agent("a")));
    assert_eq!(wait(bench.store().registered_agents()), Ok(Vec::new()));
    assert_eq!(wait(bench.store().cards(name("a"))), Ok(Vec::new()));
    let nobody = Err(ChangeError::NoSuchAgent(name("a")));
    assert_eq!(wait(bench.store().remove_agent(name("a"), ann(4))), nobody);
    assert_eq!(wait(bench.store().enable_agent(name("a"), true, ann(4))), nobody);
}

pub(super) fn of_the_cards_of_an_agent_one_is_used(bench: &mut dyn GuardFixture) {
    assert_eq!(notice(bench, card("a", "d1", CardState::Used)), CardChange::New(1));
    assert_eq!(notice(bench, card("a", "d1", CardState::Used)), CardChange::Unchanged);
    assert_eq!(notice(bench, card("b", "d1", CardState::Used)), CardChange::New(1));
    assert_eq!(notice(bench, card("a", "d2", CardState::Used)), CardChange::New(2));
    bench.reopen();
    assert_eq!(standings(bench, "a"), [(1, "d1".to_owned(), "past"), (2, "d2".to_owned(), "used")]);
    // The same content with another signer is another card.
    let mut signed = card("a", "d2", CardState::Used);
    signed.pin.signer = Some("k1".into());
    assert_eq!(notice(bench, signed.clone()), CardChange::New(3));
    assert_eq!(notice(bench, signed), CardChange::Unchanged);
    assert_eq!(standings(bench, "b"), [(1, "d1".to_owned(), "used")]);
}

pub(super) fn a_held_card_waits_to_be_approved(bench: &mut dyn GuardFixture) {
    notice(bench, card("a", "d1", CardState::Used));
    assert_eq!(wait(bench.store().approve_card(name("a"), ann(1))), Ok(None));
    assert_eq!(notice(bench, card("a", "d2", CardState::Held)), CardChange::New(2));
    assert_eq!(notice(bench, card("a", "d2", CardState::Held)), CardChange::StillHeld);
    assert_eq!(notice(bench, card("a", "d3", CardState::Held)), CardChange::New(3));
    bench.reopen();
    let before = [(1, "d1".to_owned(), "used"), (2, "d2".to_owned(), "past"), (3, "d3".to_owned(), "held")];
    assert_eq!(standings(bench, "a"), before);
    let approved = wait(bench.store().approve_card(name("a"), ann(2))).expect("approved").expect("one was held");
    assert_eq!((approved.number, approved.observation.state), (3, CardState::Used));
    let after = [(1, "d1".to_owned(), "past"), (2, "d2".to_owned(), "past"), (3, "d3".to_owned(), "used")];
    assert_eq!(standings(bench, "a"), after);
    // No card is held any more, so none needs approval.
    assert_eq!(notice(bench, card("a", "d4", CardState::Held)), CardChange::New(4));
    assert_eq!(notice(bench, card("a", "d4", CardState::Used)), CardChange::New(5));
    assert_eq!(standings(bench, "a").last(), Some(&(5, "d4".to_owned(), "used")));
}

pub(super) fn a_card_that_went_back_is_no_longer_held(bench: &mut dyn GuardFixture) {
    notice(bench, card("a", "d1", CardState::Used));
    notice(bench, card("a", "d2", CardState::Held));
    assert_eq!(notice(bench, card("a", "d1", CardState::Held)), CardChange::Unchanged);
    assert_eq!(standings(bench, "a"), [(1, "d1".to_owned(), "used"), (2, "d2".to_owned(), "past")]);
    assert_eq!(wait(bench.store().approve_card(name("a"), ann(2))), Ok(None));
}

pub(super) fn old_cards_are_forgotten_and_the_used_one_is_not(bench: &mut dyn GuardFixture) {
    notice(bench, card("a", "first", CardState::Used));
    for n in 0..CARDS_KEPT + 20 {
        notice(bench, card("a", &format!("d{n}"), CardState::Held));
    }
    let kept = standings(bench, "a");
    assert_eq!(kept.first(), Some(&(1, "first".to_owned(), "used")));
    assert_eq!(kept.len(), CARDS_KEPT + 1);
    assert_eq!(kept.last().map(|last| last.2), Some("held"));
}

pub(super) fn every_change_of_the_registry_changes_its_number(bench: &mut dyn GuardFixture) {
    let number = |bench: &dyn GuardFixture| bench.store().generation().expect("a number");
    let mut last = number(bench);
    let mut changed = |bench: &dyn GuardFixture, what: &str| {
        let now = number(bench);
        assert_ne!(now, last, "{what}");
        last = now;
    };
    wait(bench.store().register_agent(agent("a"), None, ann(0))).expect("added");
    changed(bench, "an agent came");
    wait(bench.store().enable_agent(name("a"), false, ann(1))).expect("disabled");
    changed(bench, "an agent is not served");
    wait(bench.store().remove_agent(name("a"), ann(2))).expect("removed");
    changed(bench, "an agent went");
}

pub(super) fn every_change_of_an_agent_is_audited(bench: &mut dyn GuardFixture) {
    wait(bench.store().register_agent(agent("a"), Some(card("a", "d1", CardState::Used)), ann(0))).expect("added");
    wait(bench.store().enable_agent(name("a"), false, ann(1))).expect("disabled");
    wait(bench.store().enable_agent(name("a"), false, ann(2))).expect("nothing to do");
    wait(bench.store().enable_agent(name("a"), true, ann(3))).expect("enabled");
    notice(bench, card("a", "d2", CardState::Held));
    wait(bench.store().approve_card(name("a"), ann(4))).expect("approved");
    wait(bench.store().approve_card(name("a"), ann(5))).expect("nothing to approve");
    wait(bench.store().remove_agent(name("a"), ann(6))).expect("removed");
    let expected = ["agent.add", "agent.disable", "agent.enable", "agent.approve", "agent.remove"];
    assert_eq!(changes(bench), expected.map(|what| (what.to_owned(), "agent:a".to_owned())));
}
