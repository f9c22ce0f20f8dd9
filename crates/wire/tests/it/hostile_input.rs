//! Any input is answered: none causes a panic, none takes for ever, and every refusal has a text.
//!
//! | Module | What is there |
//! |---|---|
//! | here | every reader, and what it must do with any input |
//! | `crafted_inputs` | deep, long, contradictory, of another dialect |
//! | `damaged_captures` | every capture cut short and with bytes changed, and noise |
//!
//! `tests/hostile/` keeps inputs that once found a defect, one a file; each goes through every reader.

mod crafted_inputs;
mod damaged_captures;

use crate::mint;
use sabir_proto::{Fault, WireEvent};
use sabir_wire::{
    AnswerKind, Dialect, EndpointPath, Facts, Losses, TextKind, card, convert, decode_request, read_answer, read_error,
    read_event, read_push_payload,
};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest text of a refusal, in bytes. It goes to a peer and into a log, so it must not repeat its input.
const TEXT_BYTES_MAX: usize = 8192;

const ANSWER_KINDS: [AnswerKind; 7] = [
    AnswerKind::Send,
    AnswerKind::Task,
    AnswerKind::Tasks,
    AnswerKind::Push,
    AnswerKind::Pushes,
    AnswerKind::Deletion,
    AnswerKind::Card,
];

/// Checks that a refusal has a text, and not too long a one.
#[track_caller]
fn check_text(fault: &Fault) {
    let words = fault.to_string();
    assert!(!words.trim().is_empty(), "a refusal without words: {fault:?}");
    assert!(words.len() <= TEXT_BYTES_MAX, "a refusal of {} bytes: {}", words.len(), &words[..200]);
    if let Fault::InvalidParams(wrong) = fault {
        assert!(!wrong.is_empty() && wrong.iter().all(|w| !w.description.is_empty()), "{fault:?}");
    }
    assert!(!matches!(fault, Fault::Internal(_)), "what a peer sends is not our fault: {fault:?}");
}

/// The facts of every endpoint, version and header that a request may have.
fn all_facts() -> Vec<Facts<'static>> {
    let mut doors = Vec::new();
    for entry in [EndpointPath::Root, EndpointPath::A2a, EndpointPath::Native] {
        for version in [None, Some("1.0"), Some("0.3"), Some("0.2"), Some("0.1"), Some("nonsense")] {
            for xpr_headers in [false, true] {
                doors.push(Facts { endpoint: entry, version, xpr_headers });
            }
        }
    }
    doors
}

/// Checks that a server answers any body.
fn serve(body: &[u8]) {
    for facts in all_facts() {
        let refusal = match decode_request(&facts, body, &mut mint) {
            Ok(heard) => {
                assert!(heard.responder.dialect() != Dialect::V1 || facts.version == Some("1.0"));
                let refusal = heard.responder.refuse(&Fault::Unavailable("later".into()));
                let _ = heard.as_v01();
                refusal
            }
            Err(unheard) => {
                check_text(&unheard.fault);
                unheard.responder.refuse(&unheard.fault)
            }
        };
        let text = std::str::from_utf8(&refusal.body).expect("an answer is text");
        let json = if refusal.is_stream {
            assert!(text.ends_with("\n\n"));
            text.trim_end().strip_prefix("data: ").expect("an event")
        } else {
            text
        };
        // The id is echoed as it came, and may be a number that no type can hold.
        let answer: BTreeMap<&str, &RawValue> = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"));
        let error: serde_json::Value = serde_json::from_str(answer["error"].get()).unwrap();
        assert!(error["code"].is_i64() && error["message"].is_string(), "{json}");
    }
}

/// Checks that a client can read any text as an answer, event, error or webhook of any dialect.
fn read(text: &str) {
    for dialect in Dialect::ALL {
        let losses = &mut Losses::new();
        for asked in ANSWER_KINDS {
            if let Err(fault) = read_answer(dialect, asked, text, &mut mint, losses) {
                check_text(&fault);
            }
        }
        if let Err(fault) = read_event(dialect, text, &mut mint, losses) {
            check_text(&fault);
        }
        match read_push_payload(dialect, text, &mut mint, losses) {
            Ok(WireEvent::Task(task)) => drop(serde_json::to_string(&task).unwrap()),
            Ok(_) => {}
            Err(fault) => check_text(&fault),
        }
        // An error keeps the text of its server, at any length.
        let _ = read_error(dialect, text).code();
    }
}

/// Converts a text from every dialect to every other.
fn translate(text: &str) {
    match TextKind::of(text) {
        Ok(_) => {}
        Err(fault) => check_text(&fault),
    }
    for from in Dialect::ALL {
        for to in Dialect::ALL {
            for kind in TextKind::ALL {
                let mut losses = Losses::new();
                match convert(from, to, kind, text, &mut mint, &mut losses) {
                    Ok(told) => told.lines().for_each(|line| {
                        serde_json::from_str::<serde::de::IgnoredAny>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
                    }),
                    Err(fault) => check_text(&fault),
                }
                assert!(losses.notes().len() <= sabir_wire::LOSSES_MAX);
            }
        }
    }
}

/// Fails if a run takes too long. The bound is for work that grows with the square of its input or worse, not for slow
/// machines: all of it takes seconds.
fn bounded(what: impl FnOnce()) {
    const TOTAL: Duration = Duration::from_mins(5);
    let start = Instant::now();
    what();
    assert!(start.elapsed() < TOTAL, "took {:?}", start.elapsed());
}

/// Runs every reader on these bytes.
fn all(bytes: &[u8]) {
    serve(bytes);
    if let Err(fault) = card::read(bytes) {
        check_text(&fault);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        read(text);
        translate(text);
    }
}

#[test]
fn what_was_interesting_once_stays_harmless() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
    let mut count = 0;
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        all(&std::fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "nothing was kept");
}
