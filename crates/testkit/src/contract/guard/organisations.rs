//! Promises about organisations: where the secret of a domain is stored.

use super::{GuardFixture, ann, at, changes};
use crate::wait::wait;
use sabir_store::{Domain, Organisation, SecretRef};

fn domain(text: &str) -> Domain {
    Domain::parse(text).expect("a legal domain")
}

fn secret(text: &str) -> SecretRef {
    SecretRef::parse(text).expect("a reference")
}

fn add(bench: &dyn GuardFixture, name: &str, reference: &str, ms: i64) -> Option<Organisation> {
    wait(bench.store().add(domain(name), secret(reference), ann(ms))).expect("an organisation is added")
}

fn find(bench: &dyn GuardFixture, name: &str) -> Option<String> {
    bench.store().organisation(name).expect("organisations can be found").map(|o| o.secret.to_string())
}

pub(super) fn a_domain_is_found_however_it_is_spelled(bench: &mut dyn GuardFixture) {
    assert_eq!(find(bench, "example.com"), None);
    assert_eq!(add(bench, "Example.COM", "env:EXAMPLE", 0), None);
    assert_eq!(add(bench, "b.org", "file:/run/secrets/b c", 1), None);
    for _ in 0..2 {
        for name in ["example.com", "EXAMPLE.com", "Example.COM"] {
            assert_eq!(find(bench, name).as_deref(), Some("env:EXAMPLE"));
        }
        for name in ["", "example", "xexample.com", "example.com.", "b.org "] {
            assert_eq!(find(bench, name), None, "{name}");
        }
        let all = wait(bench.store().organisations()).expect("a list");
        let expected = [
            Organisation { domain: domain("b.org"), secret: secret("file:/run/secrets/b c"), added_at: at(1) },
            Organisation { domain: domain("example.com"), secret: secret("env:EXAMPLE"), added_at: at(0) },
        ];
        assert_eq!(all, expected);
        bench.reopen();
    }
}

pub(super) fn a_secret_can_be_replaced(bench: &mut dyn GuardFixture) {
    add(bench, "a.org", "env:ONE", 0);
    let old = Organisation { domain: domain("a.org"), secret: secret("env:ONE"), added_at: at(0) };
    assert_eq!(add(bench, "A.org", "env:TWO", 5), Some(old));
    assert_eq!(find(bench, "a.org").as_deref(), Some("env:TWO"));
    bench.reopen();
    let removed = wait(bench.store().remove(domain("a.ORG"), ann(6))).expect("removed");
    assert_eq!(removed.map(|o| o.secret), Some(secret("env:TWO")));
    assert_eq!(find(bench, "a.org"), None);
    assert_eq!(wait(bench.store().remove(domain("a.org"), ann(7))), Ok(None));
    assert_eq!(wait(bench.store().organisations()), Ok(Vec::new()));
}

pub(super) fn every_change_of_an_organisation_is_audited(bench: &mut dyn GuardFixture) {
    add(bench, "a.org", "env:ONE", 0);
    add(bench, "a.org", "env:TWO", 1);
    wait(bench.store().remove(domain("a.org"), ann(2))).expect("removed");
    wait(bench.store().remove(domain("a.org"), ann(3))).expect("nothing to remove");
    let expected = ["organisation.add", "organisation.add", "organisation.remove"];
    assert_eq!(changes(bench), expected.map(|what| (what.to_owned(), "organisation:a.org".to_owned())));
}
