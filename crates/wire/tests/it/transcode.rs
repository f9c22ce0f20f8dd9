//! Transcoding from the log to 0.3 writes the same bytes as converting through the canonical types.

use crate::{any, cases, mint};
use proptest::prelude::*;
use sabir_proto::{Event, FrozenEvent, FrozenTask, Reply, SendReply, Seq, Task, View};
use sabir_wire::{Dialect, Losses, Responder, TextKind, convert};

/// Converts through the canonical types.
fn converted(kind: TextKind, json: &str) -> (String, Losses) {
    let mut losses = Losses::new();
    let text = convert(Dialect::V1, Dialect::V03, kind, json, &mut mint, &mut losses).unwrap();
    (text, losses)
}

fn responder() -> Responder {
    Responder::new(Dialect::V03, Some("1".into()))
}

fn answered(task: &Task, view: View) -> (String, Losses) {
    let mut losses = Losses::new();
    let reply: Reply<()> = Reply::Sent(SendReply::Task(FrozenTask::freeze(task), view));
    let text = String::from_utf8(responder().answer(&reply, &mut losses).unwrap()).unwrap();
    (text, losses)
}

/// The result within its JSON-RPC response.
fn wrapped(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn tasks(task in any::task(0), keep in 0_u32..4) {
        let frozen = FrozenTask::freeze(&task);
        for view in [View::WHOLE, View::with_history(Some(keep)), View { history: None, artifacts: false }] {
            let mut shown = br#"{"task":"#.to_vec();
            frozen.write(view, &mut shown);
            shown.push(b'}');
            let (long, lost) = converted(TextKind::Reply, std::str::from_utf8(&shown).unwrap());
            let (short, lost_too) = answered(&task, view);
            prop_assert_eq!((short, lost_too), (wrapped(&long), lost));
        }
    }

    #[test]
    fn events(event in any::event(0), last in any::<bool>()) {
        if matches!(event, Event::Message(_)) {
            return Ok(());
        }
        let frozen = FrozenEvent::freeze(Seq(7), &event);
        let (mut out, mut losses) = (Vec::new(), Losses::new());
        responder().stream_encoder().encode(&frozen, last, &mut losses, &mut out);
        let told = String::from_utf8(out).unwrap();
        let (mut long, lost) = converted(TextKind::Event, std::str::from_utf8(&frozen.json).unwrap());
        // Offline, the state tells whether an event is the last.
        if let Event::StatusUpdate(_) = event {
            for given in ["true", "false"] {
                long = long.replace(&format!(r#","final":{given}"#), &format!(r#","final":{last}"#));
            }
        }
        prop_assert_eq!(told, format!("id: 7\ndata: {}\n\n", wrapped(&long)));
        prop_assert_eq!(losses, lost);
    }
}
