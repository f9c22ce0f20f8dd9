//! `sabir lattice check`: what a workflow can come to, for people, for scripts and for CI.

use crate::command_runner::CommandDirectory;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/examples/workflow.toml")
}

/// Runs the check on a workflow and gives the report.
#[track_caller]
fn checked(workflow: &str, more: &[&str], code: i32) -> Value {
    let desk = CommandDirectory::new();
    std::fs::write(desk.path("workflow.toml"), workflow).unwrap();
    let mut arguments = vec!["lattice", "check", "workflow.toml", "-o", "json"];
    arguments.extend(more);
    let ran = desk.run(&arguments);
    assert_eq!(ran.code, code, "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_example_of_the_guide_is_clean() {
    let path = example();
    let ran = CommandDirectory::new().run(&["lattice", "check", path.to_str().unwrap(), "-o", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["clean"], true);
    assert_eq!(report["effective"]["billing"], json!(["billing.lookup", "billing.refund"]), "from its card");
    assert_eq!(report["effective"]["travel"], json!(["travel.search"]));
    let guide = std::fs::read_to_string(path.with_file_name("../lattice.md")).unwrap();
    let shown = std::fs::read_to_string(&path).unwrap();
    assert!(guide.contains(shown.trim()), "the guide shows another example than the one that is run");
}

const LEAKY: &str = r#"
entry = "o"
scope = ["read", "write"]
[agents.o]
capabilities = ["read", "write"]
[agents.s]
capabilities = ["read", "write"]
allow = ["read"]
[agents.alone]
capabilities = ["read"]
[[edges]]
from = "o"
to = "s"
kind = "delegation"
"#;

#[test]
fn a_violation_is_shown_with_its_way_and_ends_with_one() {
    let report = checked(LEAKY, &[], 1);
    assert_eq!(report["violations"], json!([{"agent": "s", "disallowed": ["write"], "paths": {"write": ["o", "s"]}}]));
    assert_eq!((&report["clean"], &report["unreachable"]), (&json!(false), &json!(["alone"])));
    let desk = CommandDirectory::new();
    std::fs::write(desk.path("w.toml"), LEAKY).unwrap();
    let ran = desk.run(&["lattice", "check", "w.toml"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("Violation: s can obtain write, by way of o → s"), "{}", ran.stdout);
}

#[test]
fn warnings_count_only_where_they_are_asked_to() {
    let quiet = LEAKY.replace("allow = [\"read\"]", "");
    assert_eq!(checked(&quiet, &[], 0)["clean"], true);
    assert_eq!(checked(&quiet, &["--strict"], 1)["unreachable"], json!(["alone"]));
}

#[test]
fn cycles_dead_edges_and_unsigned_cards_are_wrong() {
    let workflow = r#"
        entry = "a"
        scope = ["x"]
        [agents.a]
        capabilities = ["x", "y"]
        [agents.b]
        capabilities = ["x", "y"]
        organisation = "elsewhere"
        [[edges]]
        from = "a"
        to = "b"
        kind = "handoff"
        required = ["y"]
        [[edges]]
        from = "b"
        to = "a"
        kind = "handoff"
    "#;
    let report = checked(workflow, &[], 1);
    assert_eq!(report["handoff_cycles"], json!([["a", "b"]]));
    assert_eq!(report["dead_edges"][0]["missing"], json!(["y"]));
    assert_eq!(report["dead_edges"][0]["kind"], "handoff");
    assert_eq!(report["unsigned"], json!([{"agent": "b", "from": "a"}]));
}

#[test]
fn a_file_that_is_no_workflow_is_refused_by_name() {
    let desk = CommandDirectory::new();
    for (text, said) in [
        ("entry = 1", "invalid type"),
        ("entry = \"x\"\nscope = []\n[agents.a]\n", "names the agent \"x\""),
        ("entry = \"a\"\nscope = [\"b.*\"]\n[agents.a]\n", "stands for no capability"),
        ("entry = \"a\"\nscope = [\"*\"]\n[agents.a]\n", "no name of a capability"),
        ("entry = \"a\"\nscope = []\n[agents.a]\ncard = \"none.json\"\n", "none.json"),
        ("entry = \"a\"\nscope = []\nsurprise = 1\n[agents.a]\n", "surprise"),
    ] {
        std::fs::write(desk.path("w.toml"), text).unwrap();
        let ran = desk.run(&["lattice", "check", "w.toml"]);
        assert_eq!(ran.code, 2, "{text}: {ran:?}");
        assert!(ran.stderr.contains(said) && ran.stdout.is_empty(), "{text}: {}", ran.stderr);
    }
    assert_eq!(desk.run(&["lattice", "check", "absent.toml"]).code, 2);
}
