//! A text from a stranger is refused, and nothing breaks.

use proptest::prelude::*;
use sabir_guard::authn::agnt::{BindingRule, EnvelopeContext, KeyDerivation, KeyRing};
use sabir_guard::authn::basic::Channel;
use sabir_guard::authn::native_jwt::{ExpiryRule, NativeTokenSettings};
use sabir_guard::authn::{agnt, api_key, basic, bearer_token, k1, mtls, native_jwt, process_token};
use sabir_guard::sign::SigningKey;
use sabir_proto::{Secret, Timestamp};

const ENVELOPE: EnvelopeContext<'static> =
    EnvelopeContext { intent: "i", to: "t", key: "k", binding: BindingRule::IfPresent, sent_at_nanos: None };

fn secret() -> Secret {
    Secret::new("a secret that nobody has guessed yet")
}

/// Texts that look like something: pieces of real credentials, in any order.
fn lookalike() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("SIG_K1_".to_owned()),
        Just("PUB_R1_".to_owned()),
        Just("eyJhbGciOiJIUzI1NiJ9".to_owned()),
        Just("eyJzdWIiOiJhIn0".to_owned()),
        Just(".".to_owned()),
        Just("Bearer ".to_owned()),
        Just("Basic ".to_owned()),
        Just("sabir_".to_owned()),
        Just("{\"_ts\":1,\"_from\":\"a\",\"_sig\":\"".to_owned()),
        Just("\"}".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----\n".to_owned()),
        Just("1700000000".to_owned()),
        "[0-9a-f]{0,70}",
        "[1-9A-HJ-NP-Za-km-z]{0,110}",
        "\\PC{0,20}",
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_is_taken_for_a_credential(
        text in lookalike(),
        other in lookalike(),
        body in proptest::collection::vec(any::<u8>(), 0..64),
        now in 0..4_000_000_000_000_i64,
    ) {
        let now = Timestamp::from_millis(now);
        let secret = secret();
        let headers = k1::XprHeaders { account: Some("alice"), timestamp: Some(&other), signature: Some(&text) };
        // A text that happens to be a signature recovers some key, which belongs to no account.
        let _ = k1::recover(headers, &body, now);
        let odd = k1::XprHeaders { account: Some(&text), timestamp: Some(&other), signature: Some(&text) };
        prop_assert!(k1::recover(odd, &body, now).is_err());

        let settings = NativeTokenSettings { secret: Some(&secret), audiences: &[], issuers: &[], expiry: ExpiryRule::Optional };
        prop_assert!(native_jwt::verify(&text, settings, |_| Some(Secret::new("another")), now).is_err());
        let _ = native_jwt::claimed_organisation(&text);
        prop_assert!(process_token::verify(&text, Some(&secret), &other, now).is_err());

        let ring = KeyRing::new(&secret, KeyDerivation::Hkdf).unwrap();
        prop_assert!(agnt::verify(&text, ENVELOPE, &ring, now).is_err());

        let users = [basic::BasicUser { name: "a".to_owned(), password: Secret::new("p") }];
        prop_assert!(basic::verify(&text, Channel::Tls, &users).is_none_or(|judged| judged.is_err()));
        prop_assert!(mtls::read(&body).is_err());
        prop_assert!(SigningKey::read(&Secret::new(text.as_str()), None).is_err());
        let _ = api_key::imprint(&text);
        let _ = bearer_token(&text);
    }

    #[test]
    fn what_we_make_we_accept(task in "\\PC{0,40}", millis in 0..4_000_000_000_000_i64, random in any::<[u8; 16]>()) {
        let now = Timestamp::from_millis(millis);
        let token = process_token::make(&secret(), &task, now);
        prop_assert_eq!(process_token::verify(token.expose(), Some(&secret()), &task, now), Ok(()));
        for kind in [api_key::KeyKind::Sabir, api_key::KeyKind::AgntLive, api_key::KeyKind::AgntTest] {
            prop_assert_eq!(api_key::KeyKind::of(api_key::key_text(kind, random).expose()), Some(kind));
        }
    }
}
