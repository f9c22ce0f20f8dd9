//! Promises about API keys: found by their texts, valid for their term, and never changed without an audit entry.

use super::{GuardFixture, ann, at, changes};
use crate::wait::wait;
use sabir_proto::Timestamp;
use sabir_store::{ApiKey, ChangeError, KeyFingerprint, KeyId, KeyStatus, KeyTerms, RETIRING_MAX};

fn id(text: &str) -> KeyId {
    KeyId::parse(text).expect("a legal id")
}

fn terms(owner: &str) -> KeyTerms {
    KeyTerms { owner: owner.into(), ..KeyTerms::default() }
}

/// Creates a key whose id is its text.
fn create(bench: &dyn GuardFixture, text: &str, ms: i64) -> ApiKey {
    wait(bench.store().create(id(text), KeyFingerprint::of(text), terms("o"), ann(ms))).expect("a key is created")
}

fn standing(bench: &dyn GuardFixture, text: &str, now: Timestamp) -> KeyStatus {
    bench.store().find(&KeyFingerprint::hash_of(text), now).expect("keys can be found")
}

/// The id of the key for which a text is valid.
fn opens(bench: &dyn GuardFixture, text: &str, ms: i64) -> Option<String> {
    match standing(bench, text, at(ms)) {
        KeyStatus::Valid(key) => Some(key.id.to_string()),
        KeyStatus::Unknown | KeyStatus::Expired(_) | KeyStatus::Revoked(_) => None,
    }
}

fn list(bench: &dyn GuardFixture) -> Vec<ApiKey> {
    wait(bench.store().list()).expect("keys can be listed")
}

pub(super) fn a_key_is_found_by_its_text_and_by_nothing_else(bench: &mut dyn GuardFixture) {
    assert_eq!(standing(bench, "one", at(0)), KeyStatus::Unknown);
    create(bench, "one", 0);
    create(bench, "two", 0);
    for _ in 0..2 {
        assert_eq!(opens(bench, "one", 1).as_deref(), Some("one"));
        assert_eq!(opens(bench, "two", 1).as_deref(), Some("two"));
        for wrong in ["", "on", "One", "one ", &KeyFingerprint::hash_of("one").to_string()] {
            assert_eq!(standing(bench, wrong, at(1)), KeyStatus::Unknown, "{wrong}");
        }
        bench.reopen();
    }
}

pub(super) fn a_key_is_kept_with_all_its_terms(bench: &mut dyn GuardFixture) {
    let text = "agnt_live_0123456789abcdef0123456789abcdef";
    let terms = KeyTerms {
        owner: "Ö & Co".into(),
        name: Some("it's \"quoted\"".into()),
        tier: Some("pro".into()),
        scopes: vec!["query".into(), "book,ing".into()],
        agents: vec!["echo".into()],
        require_signature: true,
        relay: true,
        customer: Some("cus_1".into()),
        expires_at: Some(at(9000)),
    };
    let made = wait(bench.store().create(id("k-1"), KeyFingerprint::of(text), terms.clone(), ann(7))).expect("created");
    let expected = ApiKey {
        id: id("k-1"),
        fingerprint: KeyFingerprint { hash: KeyFingerprint::hash_of(text), prefix: "agnt_live_0123".into() },
        terms,
        created_at: at(7),
        revoked_at: None,
        last_used_at: None,
        retiring: Vec::new(),
    };
    assert_eq!(made, expected);
    for _ in 0..2 {
        assert_eq!(list(bench), std::slice::from_ref(&expected));
        assert_eq!(standing(bench, text, at(8)), KeyStatus::Valid(expected.clone().into()));
        bench.reopen();
    }
}

pub(super) fn a_key_is_valid_until_it_expires(bench: &mut dyn GuardFixture) {
    let terms = KeyTerms { expires_at: Some(at(1000)), ..terms("o") };
    wait(bench.store().create(id("k"), KeyFingerprint::of("text"), terms, ann(0))).expect("created");
    assert!(matches!(standing(bench, "text", at(999)), KeyStatus::Valid(_)));
    for late in [1000, 1001, i64::from(i32::MAX)] {
        assert!(matches!(standing(bench, "text", at(late)), KeyStatus::Expired(key) if key.id == id("k")));
    }
}

pub(super) fn a_revoked_key_stays_revoked(bench: &mut dyn GuardFixture) {
    create(bench, "k", 0);
    create(bench, "other", 0);
    wait(bench.store().rotate(id("k"), KeyFingerprint::of("k2"), at(9000), ann(1))).expect("rotated");
    let revoked = wait(bench.store().revoke(id("k"), ann(5))).expect("revoked");
    assert_eq!(revoked.revoked_at, Some(at(5)));
    let again = wait(bench.store().revoke(id("k"), ann(8))).expect("once more is no harm");
    assert_eq!(again, revoked, "it was revoked when it was");
    let refused = wait(bench.store().rotate(id("k"), KeyFingerprint::of("k3"), at(9000), ann(9)));
    assert_eq!(refused, Err(ChangeError::Revoked(id("k"))));
    for _ in 0..2 {
        for text in ["k", "k2"] {
            // Also after the clock went back: a revocation does not depend on the time.
            for ms in [0, 6] {
                assert!(
                    matches!(standing(bench, text, at(ms)), KeyStatus::Revoked(key) if key.id == id("k")),
                    "{text}"
                );
            }
        }
        assert_eq!(standing(bench, "k3", at(9)), KeyStatus::Unknown);
        let by_id = bench.store().get(&id("k")).expect("it can be asked").expect("it is still there");
        assert_eq!((by_id.revoked_at, by_id.fingerprint.clone()), (Some(at(5)), KeyFingerprint::of("k2")));
        assert_eq!(bench.store().get(&id("x")), Ok(None));
        assert_eq!(opens(bench, "other", 9).as_deref(), Some("other"));
        bench.reopen();
    }
    assert_eq!(wait(bench.store().revoke(id("x"), ann(9))), Err(ChangeError::NoSuchKey(id("x"))));
}

pub(super) fn a_rotated_key_has_two_texts_for_a_while(bench: &mut dyn GuardFixture) {
    create(bench, "old", 0);
    let key = wait(bench.store().rotate(id("old"), KeyFingerprint::of("new"), at(1000), ann(100))).expect("rotated");
    assert_eq!((key.fingerprint, key.retiring.len()), (KeyFingerprint::of("new"), 1));
    for _ in 0..2 {
        assert_eq!(opens(bench, "old", 999).as_deref(), Some("old"));
        assert_eq!(opens(bench, "new", 999).as_deref(), Some("old"), "the key is the same");
        assert!(matches!(standing(bench, "old", at(1000)), KeyStatus::Expired(_)));
        assert_eq!(opens(bench, "new", 5000).as_deref(), Some("old"));
        bench.reopen();
    }
    // Without a grace time the old text is invalid at once.
    wait(bench.store().rotate(id("old"), KeyFingerprint::of("newer"), at(2000), ann(2000))).expect("rotated");
    assert_eq!(standing(bench, "new", at(2000)), KeyStatus::Unknown);
    assert_eq!(opens(bench, "newer", 2000).as_deref(), Some("old"));
    assert_eq!(
        wait(bench.store().rotate(id("x"), KeyFingerprint::of("y"), at(1), ann(0))),
        Err(ChangeError::NoSuchKey(id("x")))
    );
}

pub(super) fn a_rotated_key_takes_its_terms_along(bench: &mut dyn GuardFixture) {
    let terms = KeyTerms { expires_at: Some(at(1000)), scopes: vec!["query".into()], ..terms("o") };
    wait(bench.store().create(id("k"), KeyFingerprint::of("old"), terms.clone(), ann(0))).expect("created");
    wait(bench.store().rotate(id("k"), KeyFingerprint::of("new"), at(9000), ann(1))).expect("rotated");
    bench.reopen();
    let kept = &list(bench)[0];
    assert_eq!((&kept.terms, kept.created_at), (&terms, at(0)));
    for text in ["old", "new"] {
        assert!(matches!(standing(bench, text, at(1000)), KeyStatus::Expired(_)), "{text} outlives the key");
    }
}

pub(super) fn replaced_texts_are_bounded(bench: &mut dyn GuardFixture) {
    create(bench, "t0", 0);
    let rotate = |bench: &dyn GuardFixture, n: usize, ms: i64| {
        wait(bench.store().rotate(id("t0"), KeyFingerprint::of(&format!("t{n}")), at(1000), ann(ms)))
    };
    for n in 1..=RETIRING_MAX {
        rotate(bench, n, 1).expect("there is room");
    }
    assert!(matches!(rotate(bench, 9, 2), Err(ChangeError::TooMany { max: RETIRING_MAX, .. })));
    assert_eq!(opens(bench, "t0", 3).as_deref(), Some("t0"), "nobody was thrown out for it");
    assert_eq!(opens(bench, "t9", 3), None);
    let key = rotate(bench, 9, 1000).expect("the others have expired");
    assert_eq!((key.retiring.len(), opens(bench, "t9", 1000).as_deref()), (0, Some("t0")));
}

pub(super) fn ids_and_texts_are_taken_only_once(bench: &mut dyn GuardFixture) {
    create(bench, "k", 0);
    create(bench, "other", 0);
    wait(bench.store().rotate(id("k"), KeyFingerprint::of("k2"), at(9000), ann(1))).expect("rotated");
    let before = (list(bench), changes(bench));
    for (name, text) in [("k", "fresh"), ("fresh", "k"), ("fresh", "k2"), ("fresh", "other")] {
        let refused = wait(bench.store().create(id(name), KeyFingerprint::of(text), terms("o"), ann(2)));
        assert_eq!(refused, Err(ChangeError::KeyTaken), "{name} {text}");
    }
    for text in ["k", "k2", "other"] {
        let refused = wait(bench.store().rotate(id("k"), KeyFingerprint::of(text), at(9000), ann(2)));
        assert_eq!(refused, Err(ChangeError::KeyTaken), "{text}");
    }
    assert_eq!((list(bench), changes(bench)), before, "a refused change leaves no trace");
}

pub(super) fn a_use_is_shown_and_changes_nothing(bench: &mut dyn GuardFixture) {
    let made = create(bench, "k", 0);
    create(bench, "idle", 0);
    for ms in [500, 700, 600] {
        bench.store().record_use(&made.id, at(ms));
    }
    bench.store().record_use(&id("nobody"), at(1));
    let expected =
        [ApiKey { last_used_at: None, ..create_like("idle") }, ApiKey { last_used_at: Some(at(700)), ..made }];
    for _ in 0..2 {
        assert_eq!(list(bench), expected);
        bench.reopen();
    }
    assert_eq!(changes(bench).len(), 2, "a use is no change");
}

fn create_like(text: &str) -> ApiKey {
    ApiKey {
        id: id(text),
        fingerprint: KeyFingerprint::of(text),
        terms: terms("o"),
        created_at: at(0),
        revoked_at: None,
        last_used_at: None,
        retiring: Vec::new(),
    }
}

pub(super) fn every_change_of_a_key_is_audited(bench: &mut dyn GuardFixture) {
    create(bench, "k", 0);
    wait(bench.store().rotate(id("k"), KeyFingerprint::of("k2"), at(9000), ann(1))).expect("rotated");
    wait(bench.store().revoke(id("k"), ann(2))).expect("revoked");
    wait(bench.store().revoke(id("k"), ann(3))).expect("revoked already");
    let expected = ["key.create", "key.rotate", "key.revoke"].map(|what| (what.to_owned(), "key:k".to_owned()));
    assert_eq!(changes(bench), expected);
    assert_eq!(wait(bench.store().verify(None)).expect("the audit can be checked").first_break, None);
}

pub(super) fn keys_are_listed_by_age(bench: &mut dyn GuardFixture) {
    for (text, ms) in [("c", 5), ("a", 9), ("b", 5), ("d", 1)] {
        create(bench, text, ms);
    }
    wait(bench.store().revoke(id("c"), ann(10))).expect("revoked");
    bench.reopen();
    let listed: Vec<String> = list(bench).into_iter().map(|key| key.id.to_string()).collect();
    assert_eq!(listed, ["d", "b", "c", "a"]);
}
