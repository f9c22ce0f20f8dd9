//! Lists: newest status first, in pages that fit together, with filters that are all applied.

use crate::http_client::Request;
use crate::rpc_client::{DESK_PATH, PARAMS, ProtocolError, answer_params, message, send_params, state};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::{Value, json};

fn ids(list: &Value) -> Vec<String> {
    list["tasks"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap().to_owned()).collect()
}

/// All pages of a walk.
fn walk(sabir: &TestServer, at: &str, mut params: Value) -> Vec<Value> {
    let mut pages = Vec::new();
    loop {
        let page = sabir.result(at, "ListTasks", &params);
        params["pageToken"] = page["nextPageToken"].clone();
        pages.push(page);
        if params["pageToken"] == "" {
            return pages;
        }
        assert!(pages.len() < 100, "a walk that never ends");
    }
}

fn walked(sabir: &TestServer, at: &str, params: Value) -> Vec<String> {
    walk(sabir, at, params).iter().flat_map(ids).collect()
}

#[test]
fn an_empty_list_has_all_its_members() {
    let sabir = TestServer::start(AGENTS);
    let expected = json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0});
    assert_eq!(sabir.result("/", "ListTasks", &json!({})), expected);
    assert_eq!(sabir.ask(&Request::get("/tasks")).json(), expected);
    sabir.send("/", &send_params("x"));
    let expected = json!({"tasks": [], "nextPageToken": "", "pageSize": 7, "totalSize": 0});
    let list = sabir.result("/", "ListTasks", &json!({"contextId": "nobody's", "pageSize": 7}));
    assert_eq!(list, expected);
}

#[test]
fn pages_fit_together_newest_first() {
    let sabir = TestServer::start(AGENTS);
    let mut sent: Vec<String> =
        (0..23).map(|n| sabir.send("/", &send_params(&n.to_string()))["id"].as_str().unwrap().to_owned()).collect();
    sent.reverse();
    for size in [1, 2, 5, 22, 23, 24, 100] {
        let pages = walk(&sabir, "/", json!({"pageSize": size}));
        assert_eq!(pages.iter().flat_map(ids).collect::<Vec<_>>(), sent, "{size}");
        assert_eq!(pages.len(), 23_usize.div_ceil(size));
        for page in &pages {
            assert_eq!((&page["pageSize"], &page["totalSize"]), (&json!(size), &json!(23)));
        }
    }
    assert_eq!(ids(&sabir.result("/", "ListTasks", &json!({}))), sent, "fifty are on a page unless asked otherwise");
    // HTTP+JSON pages alike, and their tokens are the same.
    let mut token = String::new();
    let mut seen = Vec::new();
    loop {
        let page = sabir.ask(&Request::get(&format!("/tasks?pageSize=10&pageToken={token}"))).json();
        seen.extend(ids(&page));
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, sent);
}

#[test]
fn the_order_is_that_of_the_last_status() {
    let sabir = TestServer::start(AGENTS);
    let first = sabir.send(DESK_PATH, &send_params("book"));
    let second = sabir.send(DESK_PATH, &send_params("quick"));
    let order = |sabir: &TestServer| ids(&sabir.result(DESK_PATH, "ListTasks", &json!({})));
    assert_eq!(order(&sabir), [second["id"].as_str().unwrap(), first["id"].as_str().unwrap()]);
    sabir.send(DESK_PATH, &answer_params(&first, "Monday"));
    assert_eq!(order(&sabir), [first["id"].as_str().unwrap(), second["id"].as_str().unwrap()]);
    let list = sabir.result(DESK_PATH, "ListTasks", &json!({}));
    let stamps: Vec<&str> =
        list["tasks"].as_array().unwrap().iter().map(|t| t["status"]["timestamp"].as_str().unwrap()).collect();
    assert!(stamps[0] >= stamps[1] && stamps.iter().all(|s| s.len() == 24 && s.ends_with('Z')), "{stamps:?}");
}

#[test]
fn a_walk_sees_every_task_once_while_tasks_come_and_move() {
    let sabir = TestServer::start(AGENTS);
    let tasks: Vec<Value> = (0..20).map(|_| sabir.send(DESK_PATH, &send_params("book"))).collect();
    let mut expected: Vec<String> = tasks.iter().map(|t| t["id"].as_str().unwrap().to_owned()).collect();
    expected.reverse();
    let (mut seen, mut token, mut n) = (Vec::new(), json!(""), 0);
    loop {
        let page = sabir.result(DESK_PATH, "ListTasks", &json!({"pageSize": 3, "pageToken": token}));
        seen.extend(ids(&page));
        token = page["nextPageToken"].clone();
        if token == "" {
            break;
        }
        // One that was seen and one that was not go to the front; one is new.
        sabir.send(DESK_PATH, &answer_params(&tasks[n], "Monday"));
        sabir.send(DESK_PATH, &answer_params(&tasks[19 - n], "Monday"));
        sabir.send(DESK_PATH, &send_params("book"));
        n += 1;
    }
    assert_eq!(seen, expected);
}

#[test]
fn filters_are_all_applied() {
    let sabir = TestServer::start(AGENTS);
    let in_context = |text: &str, context: &str| {
        let mut params = json!({"message": message(text)});
        params["message"]["contextId"] = json!(context);
        sabir.send(DESK_PATH, &params)
    };
    let a_done = in_context("quick", "a");
    let a_open = in_context("book", "a");
    let b_open = in_context("book", "b");
    let check = |params: Value, expected: &[&Value]| {
        let list = sabir.result(DESK_PATH, "ListTasks", &params);
        let expected: Vec<&str> = expected.iter().map(|t| t["id"].as_str().unwrap()).collect();
        assert_eq!(ids(&list), expected, "{params}");
        assert_eq!(list["totalSize"], expected.len(), "{params}");
        // The same through a query.
        let query: Vec<String> =
            params.as_object().unwrap().iter().map(|(n, v)| format!("{n}={}", v.as_str().unwrap())).collect();
        let list = sabir.ask(&Request::get(&format!("/agents/desk/tasks?{}", query.join("&")))).json();
        assert_eq!(ids(&list), expected, "{params}");
    };
    check(json!({}), &[&b_open, &a_open, &a_done]);
    check(json!({"contextId": "a"}), &[&a_open, &a_done]);
    check(json!({"status": "TASK_STATE_INPUT_REQUIRED"}), &[&b_open, &a_open]);
    check(json!({"contextId": "a", "status": "TASK_STATE_INPUT_REQUIRED"}), &[&a_open]);
    check(json!({"contextId": "b", "status": "TASK_STATE_COMPLETED"}), &[]);
    check(json!({"contextId": ""}), &[&b_open, &a_open, &a_done]);
    check(json!({"status": "TASK_STATE_UNSPECIFIED"}), &[&b_open, &a_open, &a_done]);
    check(json!({"statusTimestampAfter": "1999-01-01T00:00:00Z"}), &[&b_open, &a_open, &a_done]);
    check(json!({"statusTimestampAfter": "2999-01-01T00:00:00.123456789Z"}), &[]);
    // "After" is inclusive: a task with exactly this time is one of them.
    let stamp = b_open["status"]["timestamp"].as_str().unwrap();
    let list = sabir.result(DESK_PATH, "ListTasks", &json!({"statusTimestampAfter": stamp}));
    assert!(ids(&list).contains(&b_open["id"].as_str().unwrap().to_owned()), "{list}");
    check(json!({"contextId": "b", "statusTimestampAfter": stamp}), &[&b_open]);
}

#[test]
fn filters_hold_on_every_page() {
    let sabir = TestServer::start(AGENTS);
    for n in 0..30 {
        let mut params = send_params(if n % 2 == 0 { "quick" } else { "book" });
        params["message"]["contextId"] = json!(format!("c{}", n % 3));
        sabir.send(DESK_PATH, &params);
    }
    let all = walk(&sabir, DESK_PATH, json!({"pageSize": 100}));
    let of = |context: &str, wanted: &str| -> Vec<String> {
        let tasks = all[0]["tasks"].as_array().unwrap();
        let fits = tasks.iter().filter(|t| t["contextId"] == context && state(t) == wanted);
        fits.map(|t| t["id"].as_str().unwrap().to_owned()).collect()
    };
    for context in ["c0", "c1", "c2"] {
        for wanted in ["TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED"] {
            let got = walked(&sabir, DESK_PATH, json!({"pageSize": 2, "contextId": context, "status": wanted}));
            assert_eq!((got.len(), got), (5, of(context, wanted)));
        }
    }
}

#[test]
fn artifacts_come_only_when_asked_for() {
    let sabir = TestServer::start(AGENTS);
    sabir.send("/", &send_params("x"));
    for (params, wanted) in
        [(json!({}), false), (json!({"includeArtifacts": false}), false), (json!({"includeArtifacts": true}), true)]
    {
        let list = sabir.result("/", "ListTasks", &params);
        assert_eq!(list["tasks"][0].get("artifacts").is_some(), wanted, "{params}");
    }
    for (query, wanted) in [("", false), ("?includeArtifacts=false", false), ("?includeArtifacts=true", true)] {
        let list = sabir.ask(&Request::get(&format!("/tasks{query}"))).json();
        assert_eq!(list["tasks"][0].get("artifacts").is_some(), wanted, "{query}");
    }
    sabir.expect_rest_error(&Request::get("/tasks?includeArtifacts=yes"), PARAMS);
}

#[test]
fn a_token_nobody_gave_is_refused() {
    let sabir = shared_server();
    let tokens = ["x", "0", "-1", &"f".repeat(32), &"0".repeat(31), &"g".repeat(32), &"7".repeat(10_000), "\u{e9}"];
    for token in tokens {
        let problem = sabir.rpc_error("/", "ListTasks", &json!({"pageToken": token}));
        assert_eq!(
            (problem.code_and_reason(), &problem.fields[..]),
            ((PARAMS.0, PARAMS.2), &["pageToken".to_owned()][..]),
            "{token}"
        );
    }
    let reply = sabir.ask(&Request::get("/tasks?pageToken=x"));
    assert_eq!(ProtocolError::from_rest(&reply).fields, ["pageToken"]);
    sabir.still_serves();
}

#[test]
fn a_filter_that_cannot_be_read_is_refused() {
    let sabir = shared_server();
    for stamp in [
        "yesterday",
        "2026-01-31",
        "2026-01-31T09:30:00",
        "2026-01-31T09:30:00+01:00",
        "2026-13-01T00:00:00Z",
        "",
        "1e9",
    ] {
        let problem = sabir.rpc_error("/", "ListTasks", &json!({"statusTimestampAfter": stamp}));
        assert_eq!(problem.fields, ["statusTimestampAfter"], "{stamp}");
    }
    let reply = sabir.ask(&Request::get("/tasks?statusTimestampAfter=yesterday"));
    assert_eq!(ProtocolError::from_rest(&reply).fields, ["statusTimestampAfter"]);
    for query in ["pageSize=1&pageSize=2", "contextId=%zz", "contextId=%ff"] {
        sabir.expect_rest_error(&Request::get(&format!("/tasks?{query}")), PARAMS);
    }
    sabir.expect_rest_error(
        &Request::get(&format!("/tasks?{}", (0..100).map(|n| format!("p{n}=1&")).collect::<String>())),
        PARAMS,
    );
}

#[test]
fn everybody_sees_their_own_tasks_only() {
    let sabir = TestServer::start(AGENTS);
    let mut of_acme = send_params("x");
    of_acme["tenant"] = json!("acme");
    let (mine, theirs) = (sabir.send("/", &send_params("x")), sabir.send("/", &of_acme));
    sabir.send("/agents/mute", &send_params("x"));
    assert_eq!(ids(&sabir.result("/", "ListTasks", &json!({}))), [mine["id"].as_str().unwrap()]);
    assert_eq!(ids(&sabir.result("/", "ListTasks", &json!({"tenant": "acme"}))), [theirs["id"].as_str().unwrap()]);
    assert_eq!(ids(&sabir.ask(&Request::get("/acme/tasks")).json()), [theirs["id"].as_str().unwrap()]);
    assert_eq!(ids(&sabir.ask(&Request::get("/tasks?tenant=acme")).json()), [theirs["id"].as_str().unwrap()]);
    assert_eq!(sabir.result("/", "ListTasks", &json!({"tenant": "umbrella"}))["totalSize"], 0);
    assert_eq!(sabir.task_count(DESK_PATH), 0);
}
