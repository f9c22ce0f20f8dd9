//! The vectors, and the laws.

use super::analysis::{EdgeKind, Workflow, WorkflowAgent, WorkflowEdge};
use super::*;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct LatticeVectors {
    handoff: Vec<HandoffCase>,
    graphs: Vec<GraphCase>,
}

#[derive(Deserialize)]
struct HandoffCase {
    id: String,
    caps_target: Vec<String>,
    scope_origin: Vec<String>,
    required: Vec<String>,
    allowed: Vec<String>,
    missing: Vec<String>,
    handoff: bool,
}

#[derive(Deserialize)]
struct GraphCase {
    id: String,
    start: String,
    start_scope: BTreeSet<String>,
    caps: BTreeMap<String, Vec<String>>,
    edges: Vec<EdgeCase>,
    allow: BTreeMap<String, BTreeSet<String>>,
    effective: BTreeMap<String, Vec<String>>,
    violations: Vec<ViolationCase>,
    handoff_cycles: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct EdgeCase {
    from: String,
    to: String,
    kind: EdgeKind,
}

#[derive(Deserialize)]
struct ViolationCase {
    agent: String,
    disallowed: Vec<String>,
}

fn vectors() -> LatticeVectors {
    serde_json::from_str(include_str!("../../../tests/vectors/lattice.json")).unwrap()
}

#[test]
fn the_nine_handoffs_of_the_vectors_are_judged_as_they_say() {
    let cases = vectors().handoff;
    assert_eq!(cases.len(), 9);
    for case in cases {
        let (target, scope) = (Capabilities::named(case.caps_target), Capabilities::named(case.scope_origin));
        let verdict = check(case.required.iter().map(String::as_str), &target, &scope);
        assert_eq!(verdict.allowed, case.allowed, "{}", case.id);
        assert_eq!(verdict.missing, case.missing, "{}", case.id);
        assert_eq!(verdict.passes(), case.handoff, "{}", case.id);
    }
}

#[test]
fn the_five_graphs_of_the_vectors_come_to_what_they_say() {
    let graphs = vectors().graphs;
    assert_eq!(graphs.len(), 5);
    for case in graphs {
        let vertex = |(name, caps): (String, Vec<String>)| {
            let allow = case.allow.get(&name).cloned();
            (name, WorkflowAgent { caps: Capabilities::named(caps), allow, ..WorkflowAgent::default() })
        };
        let agents = case.caps.into_iter().map(vertex).collect();
        let edge = |e: EdgeCase| WorkflowEdge { from: e.from, to: e.to, kind: e.kind, required: BTreeSet::new() };
        let edges = case.edges.into_iter().map(edge).collect();
        let report = Workflow { entry: case.start, scope: case.start_scope, agents, edges }.analyse().unwrap();
        assert_eq!(report.effective, case.effective, "{}", case.id);
        assert_eq!(report.handoff_cycles, case.handoff_cycles, "{}", case.id);
        assert_eq!(report.violations.len(), case.violations.len(), "{}", case.id);
        for (found, wanted) in report.violations.iter().zip(&case.violations) {
            assert_eq!((&found.agent, &found.disallowed), (&wanted.agent, &wanted.disallowed), "{}", case.id);
            for path in found.paths.values() {
                assert_eq!(path.last(), Some(&wanted.agent), "{}", case.id);
            }
        }
    }
}

fn workflow(
    entry: &str,
    scope: &[&str],
    agents: &[(&str, &[&str])],
    edges: &[(&str, &str, EdgeKind, &[&str])],
) -> Workflow {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    let agent = |(name, caps): &(&str, &[&str])| {
        let caps = Capabilities::named(caps.iter().copied());
        ((*name).to_owned(), WorkflowAgent { caps, signed: true, ..WorkflowAgent::default() })
    };
    let edge = |(from, to, kind, required): &(&str, &str, EdgeKind, &[&str])| WorkflowEdge {
        from: (*from).to_owned(),
        to: (*to).to_owned(),
        kind: *kind,
        required: words(required),
    };
    Workflow {
        entry: entry.to_owned(),
        scope: words(scope),
        agents: agents.iter().map(agent).collect(),
        edges: edges.iter().map(edge).collect(),
    }
}

/// Two paths to `t`, each with one of two capabilities, and edges from there that need one, both, or a third.
#[test]
fn dead_and_risky_edges_are_told_apart() {
    use EdgeKind::{Delegation, Handoff};
    let agents: &[(&str, &[&str])] =
        &[("o", &["a", "b"]), ("l", &["a"]), ("r", &["b"]), ("t", &["a", "b"]), ("x", &["a", "b", "c"]), ("y", &["b"])];
    let edges: &[(&str, &str, EdgeKind, &[&str])] = &[
        ("o", "l", Delegation, &[]),
        ("o", "r", Delegation, &[]),
        ("l", "t", Handoff, &["a"]),
        ("r", "t", Handoff, &["b"]),
        ("t", "x", Handoff, &["a"]),
        ("t", "x", Handoff, &["a", "b"]),
        ("t", "x", Delegation, &["c"]),
    ];
    let report = workflow("o", &["a", "b"], agents, edges).analyse().unwrap();
    let shown = |list: &[analysis::EdgeShortfall]| {
        list.iter()
            .map(|l| (l.edge.required.iter().cloned().collect::<Vec<_>>().join("+"), l.missing.join("+")))
            .collect::<Vec<_>>()
    };
    // No single path brings both, though each arrives on some path.
    assert_eq!(shown(&report.dead_edges), [("a+b".into(), "a+b".into()), ("c".into(), "c".into())]);
    assert_eq!(shown(&report.risky_edges), [("a".into(), "a".into())]);
    assert_eq!(report.unreachable, ["y"]);
    assert!(report.has_violations() && report.has_warnings());
}

#[test]
fn what_nothing_needs_is_shown_where_everything_is_said() {
    let agents: &[(&str, &[&str])] = &[("o", &["a", "b"]), ("s", &["a", "b"])];
    let quiet = workflow("o", &["a", "b"], agents, &[("o", "s", EdgeKind::Delegation, &[])]).analyse().unwrap();
    assert!(quiet.over_provisioned.is_empty() && !quiet.has_violations() && !quiet.has_warnings(), "{quiet:?}");
    let said = workflow("o", &["a", "b"], agents, &[("o", "s", EdgeKind::Delegation, &["a"])]).analyse().unwrap();
    assert_eq!(said.over_provisioned["s"], ["b"]);
    assert!(!said.over_provisioned.contains_key("o"), "what it does itself is not said");
}

#[test]
fn a_card_across_organisations_is_to_be_signed() {
    let agents: &[(&str, &[&str])] = &[("o", &["a"]), ("s", &["a"])];
    let mut flow = workflow("o", &["a"], agents, &[("o", "s", EdgeKind::Handoff, &["a"])]);
    flow.agents.get_mut("s").unwrap().signed = false;
    assert!(flow.analyse().unwrap().unsigned.is_empty(), "within one house nobody needs to vouch");
    flow.agents.get_mut("s").unwrap().organisation = Some("other.example".into());
    let report = flow.analyse().unwrap();
    assert_eq!(report.unsigned, [analysis::UnsignedCard { agent: "s".into(), from: "o".into() }]);
    flow.agents.get_mut("s").unwrap().signed = true;
    assert!(flow.analyse().unwrap().unsigned.is_empty());
}

#[test]
fn a_longer_way_is_shown_as_the_witness_and_agents_must_be_known() {
    use EdgeKind::Handoff;
    let agents: &[(&str, &[&str])] = &[("o", &["a", "w"]), ("m", &["a", "w"]), ("s", &["a", "w"])];
    let mut flow = workflow("o", &["a", "w"], agents, &[("o", "m", Handoff, &["a"]), ("m", "s", Handoff, &["w"])]);
    flow.agents.get_mut("s").unwrap().allow = Some(BTreeSet::from(["a".to_owned()]));
    let report = flow.analyse().unwrap();
    assert_eq!(report.violations[0].paths["w"], ["o", "m", "s"]);
    flow.edges[0].to = "nobody".into();
    assert_eq!(flow.analyse().unwrap_err().name, "nobody");
}

#[test]
fn cycles_of_one_and_of_three_are_found() {
    use EdgeKind::{Delegation, Handoff};
    let agents: &[(&str, &[&str])] = &[("a", &["x"]), ("b", &["x"]), ("c", &["x"]), ("d", &["x"])];
    let edges: &[(&str, &str, EdgeKind, &[&str])] = &[
        ("a", "b", Handoff, &[]),
        ("b", "c", Handoff, &[]),
        ("c", "a", Handoff, &[]),
        ("c", "d", Handoff, &[]),
        ("d", "d", Handoff, &[]),
        ("d", "a", Delegation, &[]),
    ];
    let report = workflow("a", &["x"], agents, edges).analyse().unwrap();
    assert_eq!(report.handoff_cycles, [vec!["a", "b", "c"], vec!["d"]]);
}

fn card(json: &str) -> AgentCard {
    serde_json::from_str(json).unwrap()
}

#[test]
fn a_skill_is_named_by_the_extension_then_by_tags_then_by_its_id() {
    let card = card(
        r#"{"name":"n","description":"d","version":"1","supportedInterfaces":[],
        "capabilities":{"extensions":[{"uri":"urn:sabir:ext:handoff:v1",
            "params":{"capabilities":{"s1":["billing.refund","billing.lookup"]}}}]},
        "defaultInputModes":["text/plain"],"defaultOutputModes":["Text/Plain","application/json"],
        "skills":[{"id":"s1","name":"","description":"","tags":["cap:ignored"]},
            {"id":"s2","name":"","description":"","tags":["money","cap:travel.book"],"inputModes":["image/png"]},
            {"id":"search","name":"","description":"","tags":["cap:"]}]}"#,
    );
    let caps = Capabilities::of_card(&card);
    assert_eq!(caps.names().collect::<Vec<_>>(), ["billing.lookup", "billing.refund", "search", "travel.book"]);
    assert_eq!(caps.media("travel.book").unwrap().input, Modes::of(["image/png"]));
    assert_eq!(caps.media("search").unwrap().output, Modes::of(["application/json", "text/plain"]));
}

#[test]
fn a_capability_whose_media_types_do_not_meet_is_absent() {
    let with = |input: &[&str], output: &[&str]| {
        let mut set = Capabilities::default();
        set.add("a".into(), MediaModes { input: Modes::of(input), output: Modes::of(output) });
        set
    };
    let text = with(&["text/plain", "text/html"], &["text/plain"]);
    assert!(check(["a"], &text, &with(&["image/png"], &["text/plain"])).missing == ["a"]);
    assert!(check(["a"], &text, &with(&["text/plain"], &["image/png"])).missing == ["a"]);
    let both = text.meet(&with(&["text/html", "image/png"], &["*/*"]));
    assert_eq!(
        both.media("a").unwrap(),
        &MediaModes { input: Modes::of(["text/html"]), output: Modes::of(["text/plain"]) }
    );
    assert!(check(["a"], &text, &Capabilities::named(["a"])).passes(), "a grant by name says nothing of media types");
}

#[test]
fn wildcards_are_expanded_against_known_names_and_nothing_else() {
    let known: BTreeSet<String> =
        ["billing.refund", "billing.lookup.fast", "billing", "billings.x"].map(String::from).into();
    let expanded = expand(["billing.*", "other"], &known).unwrap();
    assert_eq!(expanded.into_iter().collect::<Vec<_>>(), ["billing.lookup.fast", "billing.refund", "other"]);
    assert_eq!(expand(["nobody.*"], &known), Err(GrantFault::Nothing("nobody.*".into())));
    for bad in ["", "*", ".*", "a.*.b", "a*", "a..b", "bill*.*"] {
        assert_eq!(expand([bad], &known), Err(GrantFault::Name(bad.into())), "{bad:?}");
    }
    // Once loaded, a wildcard is a word like any other, and covers nothing.
    let verdict =
        check(["billing.refund"], &Capabilities::named(["billing.refund"]), &Capabilities::named(["billing.*"]));
    assert!(!verdict.passes());
}

fn any_set() -> impl Strategy<Value = Capabilities> {
    let modes = || proptest::collection::vec(prop_oneof![Just("t/a"), Just("t/b"), Just("*/*")], 0..3);
    proptest::collection::vec(("[a-d]", modes(), modes()), 0..5).prop_map(|list| {
        let mut set = Capabilities::default();
        for (name, input, output) in list {
            set.add(name, MediaModes { input: Modes::of(input), output: Modes::of(output) });
        }
        set
    })
}

proptest! {
    #[test]
    fn meeting_is_commutative_associative_idempotent_and_never_widens(a in any_set(), b in any_set(), c in any_set()) {
        prop_assert_eq!(a.meet(&b), b.meet(&a));
        prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
        prop_assert_eq!(a.meet(&a), a.clone());
        prop_assert!(a.meet(&b).names().all(|name| a.has(name) && b.has(name)));
        prop_assert_eq!(a.meet(&b).meet(&a), a.meet(&b));
    }
}
