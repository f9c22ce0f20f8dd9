//! A credential with one character changed is another one.

use sabir_client::xpr::XprSigner;
use sabir_guard::authn::agnt::{BindingRule, EnvelopeContext, KeyDerivation, KeyRing};
use sabir_guard::authn::chain::AccountAuthority;
use sabir_guard::authn::k1::{self, WeightRule, XprHeaders};
use sabir_guard::authn::native_jwt::{self, ExpiryRule, NativeTokenSettings};
use sabir_guard::authn::{agnt, process_token};
use sabir_proto::canon::python::CanonicalObject;
use sabir_proto::k1::PublicKey;
use sabir_proto::{Json, Secret, Timestamp};

const NOW: i64 = 1_700_000_000;
const WIF: &str = "5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU";
const KEY: &str = "PUB_K1_8cQsMa5SoqcNNsk4zWRPiAe6sk4DqysKKjJRek4zcSJaHdesdY";

fn now() -> Timestamp {
    Timestamp::from_millis(NOW * 1000)
}

/// The text with each of its characters changed, one at a time, and with each of them left out.
fn changed(text: &str) -> impl Iterator<Item = String> + '_ {
    assert!(text.is_ascii());
    let with = |at: usize, new: &str| format!("{}{new}{}", &text[..at], &text[at + 1..]);
    (0..text.len()).flat_map(move |at| {
        let old = text.as_bytes()[at];
        let others = [b'A', b'z', b'0', b'.', old ^ 1, old ^ 0x20].into_iter().filter(move |&new| new != old);
        let printable = others.filter(u8::is_ascii_graphic).map(move |new| with(at, &char::from(new).to_string()));
        printable.chain([with(at, "")])
    })
}

#[test]
fn what_our_client_signs_our_guard_accepts_and_any_change_is_refused() {
    let signer = XprSigner::new("alice", &Secret::new(WIF)).unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"message/send"}"#;
    let [(_, account), (_, timestamp), (_, signature)] = signer.headers(body.as_bytes(), NOW);
    let authority = AccountAuthority { threshold: 1, keys: vec![(PublicKey::parse(KEY).unwrap(), 1)] };
    let judge = |account: &str, timestamp: &str, signature: &str, body: &str| {
        let headers = XprHeaders { account: Some(account), timestamp: Some(timestamp), signature: Some(signature) };
        let signed = k1::recover(headers, body.as_bytes(), now()).ok()?;
        k1::authorize(signed, &authority, WeightRule::Threshold).ok()
    };
    assert!(judge(&account, &timestamp, &signature, body).is_some());
    for other in changed(&signature) {
        assert!(judge(&account, &timestamp, &other, body).is_none(), "{other}");
    }
    for other in changed(body) {
        assert!(judge(&account, &timestamp, &signature, &other).is_none(), "{other}");
    }
    for other in changed(&account) {
        assert!(judge(&other, &timestamp, &signature, body).is_none(), "{other}");
    }
    for other in ["1700000001", "170000000", "-1700000000"] {
        assert!(judge(&account, other, &signature, body).is_none(), "{other}");
    }
}

#[test]
fn a_token_with_any_change_is_refused() {
    let secret = Secret::new("shared between the two of us");
    let token = sabir_client::native_token::NativeToken::new("ana@acme.example");
    let token = token.sign(&secret, u64::try_from(NOW).unwrap()).unwrap();
    let settings =
        NativeTokenSettings { secret: Some(&secret), audiences: &[], issuers: &[], expiry: ExpiryRule::Optional };
    let judge = |token: &str| native_jwt::verify(token, settings, |_| None, now());
    assert_eq!(judge(token.expose()).unwrap().email, "ana@acme.example");
    for other in changed(token.expose()) {
        assert!(judge(&other).is_err(), "{other}");
    }
}

#[test]
fn a_processor_token_with_any_change_is_refused() {
    let secret = Secret::new("shared with myself");
    let token = process_token::make(&secret, "task-1", now());
    for other in changed(token.expose()) {
        assert!(process_token::verify(&other, Some(&secret), "task-1", now()).is_err(), "{other}");
    }
}

#[test]
fn a_payload_with_any_change_is_refused_or_says_the_same() {
    let ring = KeyRing::new(&Secret::new("k".repeat(32)), KeyDerivation::Raw).unwrap();
    let mut payload = CanonicalObject::read(r#"{"_ts":1700000000,"_from":"a","limit":5,"q":"x y"}"#).unwrap();
    let mac = ring.sign(agnt::signed_text(&payload).as_bytes());
    payload.set("_sig", &Json::of(&mac).unwrap()).unwrap();
    let envelope =
        EnvelopeContext { intent: "i", to: "t", key: "k", binding: BindingRule::IfPresent, sent_at_nanos: None };
    let text = payload.canonical();
    let judge = |text: &str| agnt::verify(text, envelope, &ring, now());
    assert!(judge(&text).is_ok());
    for other in changed(&text) {
        assert!(judge(&other).is_err(), "{other}");
    }
}
