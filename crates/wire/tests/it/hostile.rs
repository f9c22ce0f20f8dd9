//! Whatever arrives is answered: no input makes us panic, none takes for ever, and what is refused is refused with words.
//!
//! | Room | What is there |
//! |---|---|
//! | here | everything that reads, and what is asked of it |
//! | `made` | inputs made on purpose: deep, long, contradictory, of another dialect |
//! | `damaged` | every capture cut short and with bytes changed, and noise |
//!
//! `tests/hostile/` keeps inputs that were interesting, one a file; each goes through everything.

mod damaged;
mod made;

use crate::mint;
use sabir_proto::{Fault, TheirEvent};
use sabir_wire::{
    Asked, Dialect, Entry, Facts, Kind, Losses, card, convert, hear, read_answer, read_error, read_event,
    read_push_payload,
};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest text of a refusal, in bytes. It is told to a peer and written to a log, so it does not repeat what it got.
const WORDS_MAX: usize = 8192;

const ASKED: [Asked; 7] =
    [Asked::Send, Asked::Task, Asked::Tasks, Asked::Push, Asked::Pushes, Asked::Deletion, Asked::Card];

/// A refusal says something, and not too much.
#[track_caller]
fn worded(fault: &Fault) {
    let words = fault.to_string();
    assert!(!words.trim().is_empty(), "a refusal without words: {fault:?}");
    assert!(words.len() <= WORDS_MAX, "a refusal of {} bytes: {}", words.len(), &words[..200]);
    if let Fault::InvalidParams(wrong) = fault {
        assert!(!wrong.is_empty() && wrong.iter().all(|w| !w.description.is_empty()), "{fault:?}");
    }
    assert!(!matches!(fault, Fault::Internal(_)), "what a peer sends is not our fault: {fault:?}");
}

/// Everywhere a request may come to.
fn doors() -> Vec<Facts<'static>> {
    let mut doors = Vec::new();
    for entry in [Entry::Root, Entry::A2a, Entry::Native] {
        for version in [None, Some("1.0"), Some("0.3"), Some("0.2"), Some("0.1"), Some("nonsense")] {
            for xpr_headers in [false, true] {
                doors.push(Facts { entry, version, xpr_headers });
            }
        }
    }
    doors
}

/// A server hears it, and answers, whatever it is.
fn heard(body: &[u8]) {
    for facts in doors() {
        let refusal = match hear(&facts, body, &mut mint) {
            Ok(heard) => {
                assert!(heard.voice.dialect() != Dialect::V1 || facts.version == Some("1.0"));
                let refusal = heard.voice.refuse(&Fault::Unavailable("later".into()));
                let _ = heard.as_v01();
                refusal
            }
            Err(unheard) => {
                worded(&unheard.fault);
                unheard.voice.refuse(&unheard.fault)
            }
        };
        let text = std::str::from_utf8(&refusal.body).expect("an answer is text");
        let json = if refusal.is_stream {
            assert!(text.ends_with("\n\n"));
            text.trim_end().strip_prefix("data: ").expect("an event")
        } else {
            text
        };
        // The id is echoed as it came, and may be a number that nobody can hold.
        let answer: BTreeMap<&str, &RawValue> = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"));
        let error: serde_json::Value = serde_json::from_str(answer["error"].get()).unwrap();
        assert!(error["code"].is_i64() && error["message"].is_string(), "{json}");
    }
}

/// A client reads it, as any answer, event, error or webhook of any dialect.
fn read(text: &str) {
    for dialect in Dialect::ALL {
        let losses = &mut Losses::new();
        for asked in ASKED {
            if let Err(fault) = read_answer(dialect, asked, text, &mut mint, losses) {
                worded(&fault);
            }
        }
        if let Err(fault) = read_event(dialect, text, &mut mint, losses) {
            worded(&fault);
        }
        match read_push_payload(dialect, text, &mut mint, losses) {
            Ok(TheirEvent::Task(task)) => drop(serde_json::to_string(&task).unwrap()),
            Ok(_) => {}
            Err(fault) => worded(&fault),
        }
        // An error keeps the words of its server, however many they are.
        let _ = read_error(dialect, text).code();
    }
}

/// It is translated, from anything to anything.
fn converted(text: &str) {
    match Kind::of(text) {
        Ok(_) => {}
        Err(fault) => worded(&fault),
    }
    for from in Dialect::ALL {
        for to in Dialect::ALL {
            for kind in Kind::ALL {
                let mut losses = Losses::new();
                match convert(from, to, kind, text, &mut mint, &mut losses) {
                    Ok(told) => told.lines().for_each(|line| {
                        serde_json::from_str::<serde::de::IgnoredAny>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
                    }),
                    Err(fault) => worded(&fault),
                }
                assert!(losses.notes().len() <= sabir_wire::LOSSES_MAX);
            }
        }
    }
}

/// Runs what must come to an end. The bound is for what grows with the square of its input or worse, not for slow
/// machines: all of it takes seconds.
fn bounded(what: impl FnOnce()) {
    const TOTAL: Duration = Duration::from_mins(5);
    let start = Instant::now();
    what();
    assert!(start.elapsed() < TOTAL, "took {:?}", start.elapsed());
}

/// Everything, on these bytes.
fn all(bytes: &[u8]) {
    heard(bytes);
    if let Err(fault) = card::read(bytes) {
        worded(&fault);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        read(text);
        converted(text);
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
