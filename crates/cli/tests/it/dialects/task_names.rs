//! Names that callers give their tasks: resolved in every dialect, moved on when the task has settled, kept by agent.

use super::dialect_client::DialectClient::{Native, Rest1, V01, V1, V03, Xpr};
use super::dialect_client::{ALL, CONTINUING, RESUBSCRIBING, TASK_NAMING, event_state, outgoing, unique};
use super::{DESK_PATH, OFFICE_CONFIG, office_server};
use crate::http_client::Request;
use crate::protocols::Http2;
use crate::test_server::TestServer;
use serde_json::json;

#[test]
fn a_name_is_resolved_in_every_dialect() {
    let sabir = office_server();
    for maker in TASK_NAMING {
        let name = unique("named");
        sabir.send_as(maker, DESK_PATH, &outgoing("quick").to(&name));
        let id = sabir.server_id(DESK_PATH, &name);
        assert_ne!(id, name, "the server has its own");
        for reader in ALL {
            let seen = sabir.get_as(reader, DESK_PATH, &name);
            let shown = if reader.names_tasks() { &name } else { &id };
            assert_eq!((&seen.id, &*seen.state), (shown, "completed"), "{maker:?} read by {reader:?}");
        }
    }
}

#[test]
fn a_name_is_answered_followed_and_canceled_in_every_dialect() {
    let sabir = office_server();
    for maker in TASK_NAMING {
        for other in CONTINUING {
            let name = unique("answered");
            sabir.send_as(maker, DESK_PATH, &outgoing("book").to(&name));
            assert_eq!(
                sabir.send_as(other, DESK_PATH, &outgoing("Monday").to(&name)).state,
                "completed",
                "{maker:?} {other:?}"
            );
            assert_eq!(sabir.get_as(maker, DESK_PATH, &name).status_text(), Some("Booked."));
        }
        for other in RESUBSCRIBING {
            let name = unique("followed");
            sabir.send_as(maker, DESK_PATH, &outgoing("book").to(&name));
            let first = sabir.subscribe_as(other, DESK_PATH, &name).next().unwrap();
            assert_eq!(event_state(other, &first).as_deref(), Some("input-required"), "{maker:?} {other:?}");
        }
        for other in ALL {
            let name = unique("canceled");
            sabir.send_as(maker, DESK_PATH, &outgoing("book").to(&name));
            assert_eq!(sabir.cancel_as(other, DESK_PATH, &name).unwrap().state, "canceled", "{maker:?} {other:?}");
        }
    }
}

#[test]
fn a_name_with_anything_in_it_is_found_by_its_path() {
    let sabir = office_server();
    for odd in ["a b", "a/b", "a/b:cancel", "ünï-✓", "50%", "a?b=c&d#e", "..", "a+b", "tasks/7", "x:subscribe", "'\"\\"]
    {
        for maker in TASK_NAMING {
            let name = format!("{}{odd}", unique("odd"));
            sabir.send_as(maker, DESK_PATH, &outgoing("book").to(&name));
            for reader in ALL {
                let seen = sabir.get_as(reader, DESK_PATH, &name);
                assert_eq!(seen.state, "input-required", "{reader:?} {name}");
            }
            let first = sabir.subscribe_as(Rest1, DESK_PATH, &name).next().unwrap();
            assert_eq!(event_state(Rest1, &first).as_deref(), Some("input-required"), "{name}");
            assert_eq!(sabir.cancel_as(Rest1, DESK_PATH, &name).unwrap().state, "canceled", "{name}");
        }
    }
}

#[test]
fn an_answer_shows_the_name_in_01_and_xpr_and_the_id_elsewhere() {
    let sabir = office_server();
    let name = unique("shown");
    sabir.send_as(V01, DESK_PATH, &outgoing("book").to(&name));
    let id = sabir.server_id(DESK_PATH, &name);
    assert_eq!(sabir.get_as(V01, DESK_PATH, &name).id, name);
    assert_eq!(sabir.get_as(Xpr, DESK_PATH, &name).id, name);
    // A caller that asks by the id is answered by the id.
    assert_eq!(sabir.get_as(V01, DESK_PATH, &id).id, id);
    assert_eq!(sabir.get_as(Xpr, DESK_PATH, &id).id, id);
    let frames = sabir.stream_as(V01, DESK_PATH, outgoing("Monday").to(&name)).rest();
    assert!(frames.iter().all(|f| f.event()["id"] == json!(name)));
}

#[test]
fn a_send_to_the_name_of_a_settled_task_opens_another_in_the_same_conversation() {
    let sabir = office_server();
    for maker in TASK_NAMING {
        for other in TASK_NAMING {
            let name = unique("moves");
            let first = sabir.send_as(maker, DESK_PATH, &outgoing("words").to(&name));
            let first_id = sabir.server_id(DESK_PATH, &name);
            let second = sabir.send_as(other, DESK_PATH, &outgoing("quick").to(&name));
            let second_id = sabir.server_id(DESK_PATH, &name);
            assert_ne!(first_id, second_id, "{maker:?} {other:?}");
            assert_eq!((&second.id, &second.context), (&name, &first.context), "{maker:?} {other:?}");
            for reader in ALL {
                assert_eq!(
                    sabir.get_as(reader, DESK_PATH, &name).status_text(),
                    Some("done"),
                    "{reader:?}: the name moved on"
                );
                assert_eq!(
                    sabir.get_as(reader, DESK_PATH, &first_id).status_text(),
                    Some("Only words."),
                    "{reader:?}: the old task stays"
                );
            }
        }
    }
}

#[test]
fn a_caller_that_names_another_conversation_is_taken_at_its_word() {
    let sabir = office_server();
    for maker in TASK_NAMING {
        let name = unique("elsewhere");
        sabir.send_as(maker, DESK_PATH, &outgoing("words").to(&name).within("here"));
        let moved = sabir.send_as(maker, DESK_PATH, &outgoing("words").to(&name).within("there"));
        assert_eq!(moved.context.as_deref(), Some("there"), "{maker:?}");
        // But an unfinished task stays in its own.
        sabir.send_as(maker, DESK_PATH, &outgoing("book").to(&name));
        let reply = sabir.ask(&maker.send(DESK_PATH, &outgoing("Monday").to(&name).within("nowhere")));
        assert_eq!(maker.read(&reply).unwrap_err(), -32602, "{maker:?}: {}", reply.text());
    }
}

#[test]
fn the_same_name_at_two_agents_is_two_tasks() {
    let sabir = office_server();
    for maker in TASK_NAMING {
        let name = unique("twins");
        let one = sabir.send_as(maker, DESK_PATH, &outgoing("words").to(&name));
        let two = sabir.send_as(maker, "/agents/other", &outgoing("words").to(&name));
        assert_eq!((&one.id, &two.id), (&name, &name));
        assert_ne!(sabir.server_id(DESK_PATH, &name), sabir.server_id("/agents/other", &name));
        assert_ne!(one.context, two.context, "{maker:?}");
        for reader in ALL {
            assert_eq!(sabir.get_as(reader, DESK_PATH, &name).status_text(), Some("Only words."), "{reader:?}");
            assert_eq!(
                sabir.get_as(reader, "/agents/other", &name).artifact(0).as_deref(),
                Some("words"),
                "{reader:?}"
            );
        }
        // The root is the default agent, which has none of that name.
        for reader in ALL {
            let reply = sabir.ask(&reader.get("", &name));
            assert_eq!(reader.read(&reply).unwrap_err(), reader.error_number(-32001), "{reader:?}");
        }
    }
}

#[test]
fn a_name_survives_a_kill_and_a_restart() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    sabir.send_as(V01, DESK_PATH, &outgoing("book").to("kept"));
    sabir.send_as(Xpr, DESK_PATH, &outgoing("words").to("settled"));
    sabir.send_as(V01, "/agents/other", &outgoing("x").to("kept"));
    let ids = [
        sabir.server_id(DESK_PATH, "kept"),
        sabir.server_id(DESK_PATH, "settled"),
        sabir.server_id("/agents/other", "kept"),
    ];
    let sabir = TestServer::start_at(&sabir.kill());
    assert_eq!(
        [
            sabir.server_id(DESK_PATH, "kept"),
            sabir.server_id(DESK_PATH, "settled"),
            sabir.server_id("/agents/other", "kept")
        ],
        ids
    );
    for reader in ALL {
        assert_eq!(sabir.get_as(reader, DESK_PATH, "kept").state, "input-required", "{reader:?}");
        assert_eq!(sabir.get_as(reader, DESK_PATH, "settled").state, "completed", "{reader:?}");
    }
    // Nothing but the name tells that it is 0.1.
    let bare = sabir.ask(&V03.rpc(DESK_PATH, "tasks/get", &json!({"id": "kept"}))).json();
    assert_eq!(bare["result"]["id"], "kept", "{bare}");
    assert!(bare["result"].get("kind").is_none() && bare["result"]["sessionId"].is_string(), "{bare}");
    assert_eq!(sabir.send_as(V01, DESK_PATH, &outgoing("Monday").to("kept")).status_text(), Some("Booked."));
    let sabir = TestServer::start_at(&sabir.stop());
    assert_eq!(sabir.get_as(V01, DESK_PATH, "kept").status_text(), Some("Booked."));
    assert_eq!(sabir.server_id(DESK_PATH, "kept"), ids[0]);
}

#[test]
fn many_sends_under_one_new_name_make_one_task_that_goes_on() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    let outcomes: Vec<String> = std::thread::scope(|scope| {
        let one = || {
            let reply = sabir.ask(&V01.send(DESK_PATH, &outgoing("book").to("contended")));
            V01.read(&reply).map_or_else(|code| code.to_string(), |seen| seen.state)
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(outcomes.iter().any(|o| o == "input-required" || o == "completed"), "{outcomes:?}");
    assert!(outcomes.iter().all(|o| !o.starts_with("-32603")), "{outcomes:?}");
    sabir.get_as(V01, DESK_PATH, "contended");
}

#[test]
fn a_name_that_looks_like_one_of_our_ids_is_a_name_all_the_same() {
    let sabir = office_server();
    for maker in TASK_NAMING {
        let n = unique("").trim_start_matches('-').parse::<u32>().unwrap();
        let name = format!("01980000-0000-7000-8000-{n:012x}");
        let made = sabir.send_as(maker, DESK_PATH, &outgoing("book").to(&name));
        assert_eq!((&made.id, &*made.state), (&name, "input-required"), "{maker:?}");
        for reader in ALL {
            assert_eq!(sabir.get_as(reader, DESK_PATH, &name).state, "input-required", "{maker:?} {reader:?}");
        }
        assert_eq!(sabir.send_as(V1, DESK_PATH, &outgoing("Monday").to(&name)).state, "completed", "{maker:?}");
    }
}

#[test]
fn a_name_is_not_case_folded_nor_trimmed() {
    let sabir = office_server();
    let name = unique("Case");
    sabir.send_as(V01, DESK_PATH, &outgoing("words").to(&name));
    for other in [name.to_lowercase(), name.to_uppercase(), format!("{name} "), format!(" {name}")] {
        let reply = sabir.ask(&V01.get(DESK_PATH, &other));
        assert_eq!(V01.read(&reply).unwrap_err(), -32001, "{other:?}");
    }
}

#[test]
fn agent_native_ignores_a_name_it_has_no_place_for() {
    let sabir = office_server();
    let params = json!({"id": "mine", "message": Native.message(&outgoing("words"))});
    let seen = Native.read(&sabir.ask(&Native.rpc(DESK_PATH, "message/send", &params))).unwrap();
    assert_ne!(seen.id, "mine");
    assert_eq!(sabir.ask(&Request::get(&format!("{DESK_PATH}/tasks/mine"))).status, 404);
}

/// A protobuf message of texts, by their numbers.
fn texts(fields: &[(u8, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, text) in fields {
        out.extend([number << 3 | 2, u8::try_from(text.len()).unwrap()]);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

fn mentions(message: &[u8], text: &str) -> bool {
    message.windows(text.len()).any(|w| w == text.as_bytes())
}

#[test]
fn a_name_is_resolved_over_grpc_in_both_versions() {
    let sabir = office_server();
    let host = sabir.address.to_string();
    let mut client = Http2::open(&sabir);
    for maker in TASK_NAMING {
        let name = format!("{} a/b", unique("grpc"));
        sabir.send_as(maker, "", &outgoing("hello").to(&name));
        let id = sabir.server_id("", &name);
        let newest = client.grpc(&host, "/lf.a2a.v1.A2AService/GetTask", &texts(&[(2, &name)]));
        assert!(mentions(&newest, &id) && mentions(&newest, "hello"), "{maker:?}: {newest:?}");
        let older = client.grpc(&host, "/a2a.v1.A2AService/GetTask", &texts(&[(1, &format!("tasks/{id}"))]));
        assert!(mentions(&older, &id) && mentions(&older, "hello"), "{maker:?}: {older:?}");
        // The tenant names the agent; there the same name is another task.
        sabir.send_as(maker, DESK_PATH, &outgoing("book").to(&name));
        let desk_id = sabir.server_id(DESK_PATH, &name);
        let there = client.grpc(&host, "/lf.a2a.v1.A2AService/GetTask", &texts(&[(1, "desk"), (2, &name)]));
        assert!(mentions(&there, &desk_id) && !mentions(&there, &id), "{maker:?}: {there:?}");
        let canceled = client.grpc(&host, "/lf.a2a.v1.A2AService/CancelTask", &texts(&[(1, "desk"), (2, &name)]));
        assert!(mentions(&canceled, &desk_id), "{maker:?}: {canceled:?}");
        assert_eq!(sabir.get_as(maker, DESK_PATH, &name).state, "canceled");
        let nobody = client.grpc(&host, "/lf.a2a.v1.A2AService/GetTask", &texts(&[(2, "nobody")]));
        assert!(nobody.is_empty(), "{nobody:?}");
    }
    let plain = unique("plain");
    sabir.send_as(V01, "", &outgoing("hello").to(&plain));
    let older = client.grpc(&host, "/a2a.v1.A2AService/GetTask", &texts(&[(1, &format!("tasks/{plain}"))]));
    assert!(mentions(&older, &sabir.server_id("", &plain)), "{older:?}");
}
