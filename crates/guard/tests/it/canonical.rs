//! The texts that AGNT signs are canonical as its vectors say.

use sabir_proto::canon::python::CanonicalObject;
use serde::Deserialize;

#[derive(Deserialize)]
struct CanonicalVectors {
    cases: Vec<CanonicalCase>,
}

#[derive(Deserialize)]
struct CanonicalCase {
    id: String,
    input_hex: String,
    canonical_hex: Option<String>,
    strict: String,
}

#[test]
fn every_text_of_the_vectors_has_its_canonical_form_or_is_refused() {
    let vectors: CanonicalVectors = serde_json::from_str(include_str!("../vectors/agnt-canonical.json")).unwrap();
    let byte = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes = |hex: &str| -> Vec<u8> { (0..hex.len()).step_by(2).map(|at| byte(hex, at)).collect() };
    assert_eq!(vectors.cases.len(), 60);
    let mut accepted = 0;
    for CanonicalCase { id, input_hex, canonical_hex, strict } in vectors.cases {
        // Every vector is valid UTF-8; lone surrogates are written as escapes.
        let ours = CanonicalObject::read(&String::from_utf8(bytes(&input_hex)).unwrap());
        if strict == "reject" {
            assert!(ours.is_err(), "{id} is accepted");
            continue;
        }
        accepted += 1;
        let expected = String::from_utf8(bytes(&canonical_hex.unwrap())).unwrap();
        assert_eq!(ours.unwrap().canonical(), expected, "{id}");
    }
    assert_eq!(accepted, 44);
}
