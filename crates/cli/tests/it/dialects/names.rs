//! Names that callers give their tasks: resolved in every dialect, moved on when the task has settled, kept by agent.

use super::tongue::Tongue::{Native, Rest1, V01, V1, V03, Xpr};
use super::tongue::{ALL, CONTINUING, FOLLOWING, NAMING, say, told_state, unique};
use super::{DESK, OFFICE, office};
use crate::http::Request;
use crate::protocols::Http2;
use crate::sabir::Sabir;
use serde_json::json;

#[test]
fn a_name_is_resolved_in_every_dialect() {
    let sabir = office();
    for maker in NAMING {
        let name = unique("named");
        sabir.tell(maker, DESK, &say("quick").to(&name));
        let id = sabir.id_of(DESK, &name);
        assert_ne!(id, name, "the server has its own");
        for reader in ALL {
            let seen = sabir.look(reader, DESK, &name);
            let shown = if reader.names_tasks() { &name } else { &id };
            assert_eq!((&seen.id, &*seen.state), (shown, "completed"), "{maker:?} read by {reader:?}");
        }
    }
}

#[test]
fn a_name_is_answered_followed_and_canceled_in_every_dialect() {
    let sabir = office();
    for maker in NAMING {
        for other in CONTINUING {
            let name = unique("answered");
            sabir.tell(maker, DESK, &say("book").to(&name));
            assert_eq!(sabir.tell(other, DESK, &say("Monday").to(&name)).state, "completed", "{maker:?} {other:?}");
            assert_eq!(sabir.look(maker, DESK, &name).words(), Some("Booked."));
        }
        for other in FOLLOWING {
            let name = unique("followed");
            sabir.tell(maker, DESK, &say("book").to(&name));
            let first = sabir.watch(other, DESK, &name).next().unwrap();
            assert_eq!(told_state(other, &first).as_deref(), Some("input-required"), "{maker:?} {other:?}");
        }
        for other in ALL {
            let name = unique("canceled");
            sabir.tell(maker, DESK, &say("book").to(&name));
            assert_eq!(sabir.call_off(other, DESK, &name).unwrap().state, "canceled", "{maker:?} {other:?}");
        }
    }
}

#[test]
fn a_name_with_anything_in_it_is_found_by_its_path() {
    let sabir = office();
    for odd in ["a b", "a/b", "a/b:cancel", "ünï-✓", "50%", "a?b=c&d#e", "..", "a+b", "tasks/7", "x:subscribe", "'\"\\"]
    {
        for maker in NAMING {
            let name = format!("{}{odd}", unique("odd"));
            sabir.tell(maker, DESK, &say("book").to(&name));
            for reader in ALL {
                let seen = sabir.look(reader, DESK, &name);
                assert_eq!(seen.state, "input-required", "{reader:?} {name}");
            }
            let first = sabir.watch(Rest1, DESK, &name).next().unwrap();
            assert_eq!(told_state(Rest1, &first).as_deref(), Some("input-required"), "{name}");
            assert_eq!(sabir.call_off(Rest1, DESK, &name).unwrap().state, "canceled", "{name}");
        }
    }
}

#[test]
fn an_answer_shows_the_name_in_01_and_xpr_and_the_id_elsewhere() {
    let sabir = office();
    let name = unique("shown");
    sabir.tell(V01, DESK, &say("book").to(&name));
    let id = sabir.id_of(DESK, &name);
    assert_eq!(sabir.look(V01, DESK, &name).id, name);
    assert_eq!(sabir.look(Xpr, DESK, &name).id, name);
    // A caller that asks by the id is answered by the id.
    assert_eq!(sabir.look(V01, DESK, &id).id, id);
    assert_eq!(sabir.look(Xpr, DESK, &id).id, id);
    let frames = sabir.tell_streaming(V01, DESK, say("Monday").to(&name)).rest();
    assert!(frames.iter().all(|f| f.event()["id"] == json!(name)));
}

#[test]
fn a_send_to_the_name_of_a_settled_task_opens_another_in_the_same_conversation() {
    let sabir = office();
    for maker in NAMING {
        for other in NAMING {
            let name = unique("moves");
            let first = sabir.tell(maker, DESK, &say("words").to(&name));
            let first_id = sabir.id_of(DESK, &name);
            let second = sabir.tell(other, DESK, &say("quick").to(&name));
            let second_id = sabir.id_of(DESK, &name);
            assert_ne!(first_id, second_id, "{maker:?} {other:?}");
            assert_eq!((&second.id, &second.context), (&name, &first.context), "{maker:?} {other:?}");
            for reader in ALL {
                assert_eq!(sabir.look(reader, DESK, &name).words(), Some("done"), "{reader:?}: the name moved on");
                assert_eq!(
                    sabir.look(reader, DESK, &first_id).words(),
                    Some("Only words."),
                    "{reader:?}: the old task stays"
                );
            }
        }
    }
}

#[test]
fn a_caller_that_names_another_conversation_is_taken_at_its_word() {
    let sabir = office();
    for maker in NAMING {
        let name = unique("elsewhere");
        sabir.tell(maker, DESK, &say("words").to(&name).within("here"));
        let moved = sabir.tell(maker, DESK, &say("words").to(&name).within("there"));
        assert_eq!(moved.context.as_deref(), Some("there"), "{maker:?}");
        // But an unfinished task stays in its own.
        sabir.tell(maker, DESK, &say("book").to(&name));
        let reply = sabir.ask(&maker.send(DESK, &say("Monday").to(&name).within("nowhere")));
        assert_eq!(maker.read(&reply).unwrap_err(), -32602, "{maker:?}: {}", reply.text());
    }
}

#[test]
fn the_same_name_at_two_agents_is_two_tasks() {
    let sabir = office();
    for maker in NAMING {
        let name = unique("twins");
        let one = sabir.tell(maker, DESK, &say("words").to(&name));
        let two = sabir.tell(maker, "/agents/other", &say("words").to(&name));
        assert_eq!((&one.id, &two.id), (&name, &name));
        assert_ne!(sabir.id_of(DESK, &name), sabir.id_of("/agents/other", &name));
        assert_ne!(one.context, two.context, "{maker:?}");
        for reader in ALL {
            assert_eq!(sabir.look(reader, DESK, &name).words(), Some("Only words."), "{reader:?}");
            assert_eq!(sabir.look(reader, "/agents/other", &name).artifact(0).as_deref(), Some("words"), "{reader:?}");
        }
        // The root is the default agent, which has none of that name.
        for reader in ALL {
            let reply = sabir.ask(&reader.get("", &name));
            assert_eq!(reader.read(&reply).unwrap_err(), reader.number(-32001), "{reader:?}");
        }
    }
}

#[test]
fn a_name_survives_a_kill_and_a_restart() {
    let sabir = Sabir::start(OFFICE);
    sabir.tell(V01, DESK, &say("book").to("kept"));
    sabir.tell(Xpr, DESK, &say("words").to("settled"));
    sabir.tell(V01, "/agents/other", &say("x").to("kept"));
    let ids = [sabir.id_of(DESK, "kept"), sabir.id_of(DESK, "settled"), sabir.id_of("/agents/other", "kept")];
    let sabir = Sabir::at(&sabir.kill());
    assert_eq!([sabir.id_of(DESK, "kept"), sabir.id_of(DESK, "settled"), sabir.id_of("/agents/other", "kept")], ids);
    for reader in ALL {
        assert_eq!(sabir.look(reader, DESK, "kept").state, "input-required", "{reader:?}");
        assert_eq!(sabir.look(reader, DESK, "settled").state, "completed", "{reader:?}");
    }
    // Nothing but the name tells that it is 0.1.
    let bare = sabir.ask(&V03.rpc(DESK, "tasks/get", &json!({"id": "kept"}))).json();
    assert_eq!(bare["result"]["id"], "kept", "{bare}");
    assert!(bare["result"].get("kind").is_none() && bare["result"]["sessionId"].is_string(), "{bare}");
    assert_eq!(sabir.tell(V01, DESK, &say("Monday").to("kept")).words(), Some("Booked."));
    let sabir = Sabir::at(&sabir.stop());
    assert_eq!(sabir.look(V01, DESK, "kept").words(), Some("Booked."));
    assert_eq!(sabir.id_of(DESK, "kept"), ids[0]);
}

#[test]
fn many_sends_under_one_new_name_make_one_task_that_goes_on() {
    let sabir = Sabir::start(OFFICE);
    let outcomes: Vec<String> = std::thread::scope(|scope| {
        let one = || {
            let reply = sabir.ask(&V01.send(DESK, &say("book").to("contended")));
            V01.read(&reply).map_or_else(|code| code.to_string(), |seen| seen.state)
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(outcomes.iter().any(|o| o == "input-required" || o == "completed"), "{outcomes:?}");
    assert!(outcomes.iter().all(|o| !o.starts_with("-32603")), "{outcomes:?}");
    sabir.look(V01, DESK, "contended");
}

#[test]
fn a_name_that_looks_like_one_of_our_ids_is_a_name_all_the_same() {
    let sabir = office();
    for maker in NAMING {
        let n = unique("").trim_start_matches('-').parse::<u32>().unwrap();
        let name = format!("01980000-0000-7000-8000-{n:012x}");
        let made = sabir.tell(maker, DESK, &say("book").to(&name));
        assert_eq!((&made.id, &*made.state), (&name, "input-required"), "{maker:?}");
        for reader in ALL {
            assert_eq!(sabir.look(reader, DESK, &name).state, "input-required", "{maker:?} {reader:?}");
        }
        assert_eq!(sabir.tell(V1, DESK, &say("Monday").to(&name)).state, "completed", "{maker:?}");
    }
}

#[test]
fn a_name_is_not_case_folded_nor_trimmed() {
    let sabir = office();
    let name = unique("Case");
    sabir.tell(V01, DESK, &say("words").to(&name));
    for other in [name.to_lowercase(), name.to_uppercase(), format!("{name} "), format!(" {name}")] {
        let reply = sabir.ask(&V01.get(DESK, &other));
        assert_eq!(V01.read(&reply).unwrap_err(), -32001, "{other:?}");
    }
}

#[test]
fn agent_native_ignores_a_name_it_has_no_place_for() {
    let sabir = office();
    let params = json!({"id": "mine", "message": Native.message(&say("words"))});
    let seen = Native.read(&sabir.ask(&Native.rpc(DESK, "message/send", &params))).unwrap();
    assert_ne!(seen.id, "mine");
    assert_eq!(sabir.ask(&Request::get(&format!("{DESK}/tasks/mine"))).status, 404);
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
    let sabir = office();
    let host = sabir.address.to_string();
    let mut client = Http2::open(&sabir);
    for maker in NAMING {
        let name = format!("{} a/b", unique("grpc"));
        sabir.tell(maker, "", &say("hello").to(&name));
        let id = sabir.id_of("", &name);
        let newest = client.grpc(&host, "/lf.a2a.v1.A2AService/GetTask", &texts(&[(2, &name)]));
        assert!(mentions(&newest, &id) && mentions(&newest, "hello"), "{maker:?}: {newest:?}");
        let older = client.grpc(&host, "/a2a.v1.A2AService/GetTask", &texts(&[(1, &format!("tasks/{id}"))]));
        assert!(mentions(&older, &id) && mentions(&older, "hello"), "{maker:?}: {older:?}");
        // The tenant names the agent; there the same name is another task.
        sabir.tell(maker, DESK, &say("book").to(&name));
        let desk_id = sabir.id_of(DESK, &name);
        let there = client.grpc(&host, "/lf.a2a.v1.A2AService/GetTask", &texts(&[(1, "desk"), (2, &name)]));
        assert!(mentions(&there, &desk_id) && !mentions(&there, &id), "{maker:?}: {there:?}");
        let canceled = client.grpc(&host, "/lf.a2a.v1.A2AService/CancelTask", &texts(&[(1, "desk"), (2, &name)]));
        assert!(mentions(&canceled, &desk_id), "{maker:?}: {canceled:?}");
        assert_eq!(sabir.look(maker, DESK, &name).state, "canceled");
        let nobody = client.grpc(&host, "/lf.a2a.v1.A2AService/GetTask", &texts(&[(2, "nobody")]));
        assert!(nobody.is_empty(), "{nobody:?}");
    }
    let plain = unique("plain");
    sabir.tell(V01, "", &say("hello").to(&plain));
    let older = client.grpc(&host, "/a2a.v1.A2AService/GetTask", &texts(&[(1, &format!("tasks/{plain}"))]));
    assert!(mentions(&older, &sabir.id_of("", &plain)), "{older:?}");
}
