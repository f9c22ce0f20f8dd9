//! Captures that are cut short or have bytes changed; and noise.

use super::{all, bounded, check_text, read, serve};
use crate::fixtures::INDEX;
use crate::mint;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use prost::Message;
use sabir_wire::pb::{a2a_v03, lf_a2a_v1};
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::{
    AnswerKind, Dialect, Losses, TextKind, card, convert, decode_request, read_answer, read_error, read_event, v1, v03,
};

/// Numbers that look random and are the same in every run.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, sides: usize) -> usize {
        // SplitMix64; a capture has far fewer than 2^32 bytes.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 32).unwrap() % sides.max(1)
    }
}

/// Damages a capture in several ways.
fn damaged(bytes: &[u8], dice: &mut SplitMix) -> Vec<Vec<u8>> {
    let mut out = vec![bytes.to_vec()];
    if bytes.is_empty() {
        return out;
    }
    for _ in 0..2 {
        out.push(bytes[..dice.below(bytes.len())].to_vec());
    }
    for _ in 0..3 {
        let mut flipped = bytes.to_vec();
        for _ in 0..=dice.below(3) {
            let at = dice.below(flipped.len());
            flipped[at] ^= 1 << dice.below(8);
        }
        out.push(flipped);
    }
    // One range of bytes is repeated, another is left out.
    let (from, to) = (dice.below(bytes.len()), dice.below(bytes.len()));
    let (from, to) = (from.min(to), from.max(to));
    out.push([&bytes[..to], &bytes[from..]].concat());
    out.push([&bytes[..from], &bytes[to..]].concat());
    out
}

/// Runs the readers of one dialect, which is enough for its captures.
fn read_all(dialect: Dialect, bytes: &[u8]) {
    for facts in super::all_facts().into_iter().step_by(5) {
        if let Err(unheard) = decode_request(&facts, bytes, &mut mint) {
            check_text(&unheard.fault);
        }
    }
    card::read(bytes).err().iter().for_each(check_text);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = TextKind::of(text);
    let losses = &mut Losses::new();
    for asked in [AnswerKind::Send, AnswerKind::Task, AnswerKind::Push, AnswerKind::Pushes] {
        read_answer(dialect, asked, text, &mut mint, losses).err().iter().for_each(check_text);
    }
    read_event(dialect, text, &mut mint, losses).err().iter().for_each(check_text);
    let _ = read_error(dialect, text);
    for kind in TextKind::ALL {
        for to in [Dialect::V1, Dialect::Native] {
            convert(dialect, to, kind, text, &mut mint, losses).err().iter().for_each(check_text);
        }
    }
}

#[test]
fn damaged_captures_are_refused_or_read() {
    bounded(damaged_captures);
}

fn damaged_captures() {
    let mut dice = SplitMix(1);
    for entry in INDEX.iter().filter(|entry| !["bin", "headers"].contains(&entry.ending())) {
        let dialect =
            entry.json_rpc().unwrap_or(if entry.dialect.starts_with("v1") { Dialect::V1 } else { Dialect::V03 });
        for bytes in damaged(&entry.bytes(), &mut dice) {
            read_all(dialect, &bytes);
            // An event of a stream is the result within it.
            if let Ok(serde_json::Value::Object(answer)) = serde_json::from_slice(&bytes)
                && let Some(result) = answer.get("result")
            {
                read_all(dialect, result.to_string().as_bytes());
            }
            rest(&bytes);
        }
    }
}

fn rest(bytes: &[u8]) {
    use v03::rest::{self, PathOperation};
    let losses = &mut Losses::new();
    for route in
        [PathOperation::Send, PathOperation::Stream, PathOperation::Cancel("t"), PathOperation::CreatePush("t")]
    {
        rest::read_call(route, "", bytes, FileEncoding::NamedBase64, &mut mint, losses)
            .err()
            .iter()
            .for_each(check_text);
    }
    let _ = rest::read_event(bytes, FileEncoding::NamedBase64, &mut mint, losses);
    let _ = rest::read_error(500, bytes);
    use v1::http::{self, PathOperation as Path};
    for route in [Path::Send, Path::Stream, Path::Cancel("t"), Path::CreatePush("t")] {
        http::read_call(route, None, "", bytes).err().iter().for_each(check_text);
    }
}

#[test]
fn damaged_protobuf_is_refused_or_read() {
    let mut dice = SplitMix(2);
    for entry in INDEX.iter().filter(|entry| entry.ending() == "bin") {
        for bytes in damaged(&entry.bytes(), &mut dice) {
            protobuf(&bytes);
        }
    }
}

fn protobuf(bytes: &[u8]) {
    let losses = &mut Losses::new();
    macro_rules! poke {
        ($($message:ty => $read:expr),* $(,)?) => { $(
            if let Ok(message) = <$message>::decode(bytes) {
                let outcome: Result<_, sabir_proto::Fault> = $read(message);
                outcome.map(drop).err().iter().for_each(check_text);
            }
        )* };
    }
    use v1::grpc::{reply, request};
    use v03::grpc::{reply as old_reply, request as old};
    poke!(
        lf_a2a_v1::SendMessageRequest => request::send,
        lf_a2a_v1::ListTasksRequest => request::list_tasks,
        lf_a2a_v1::TaskPushNotificationConfig => request::create_push,
        lf_a2a_v1::Task => reply::read_task,
        lf_a2a_v1::SendMessageResponse => reply::read_sent,
        lf_a2a_v1::StreamResponse => reply::read_event,
        lf_a2a_v1::AgentCard => reply::read_card,
        a2a_v03::SendMessageRequest => |m| old::send(m, losses),
        a2a_v03::CreateTaskPushNotificationConfigRequest => |m| old::create_push(m, losses),
        a2a_v03::Task => |m| old_reply::read_task(m, losses),
        a2a_v03::StreamResponse => |m| old_reply::read_event(m, losses),
        a2a_v03::AgentCard => |m| old_reply::read_card(m, losses),
    );
}

#[test]
fn noise_is_refused() {
    let bytes = vec(any::<u8>(), 0..200);
    let text = "\\PC{0,80}";
    let config = Config { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(3), ..Config::default() };
    let outcome = TestRunner::new(config).run(&(bytes, text, crate::any::object()), |(bytes, text, object)| {
        serve(&bytes);
        protobuf(&bytes);
        serve(text.as_bytes());
        read(&text);
        if let Some(object) = object {
            all(object.as_str().as_bytes());
        }
        Ok(())
    });
    outcome.unwrap();
}
