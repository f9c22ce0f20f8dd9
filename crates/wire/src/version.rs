//! `A2A-Version`: which dialect a request asks for.

use sabir_proto::Fault;

/// The header, and the query parameter that may stand in for it.
pub const HEADER: &str = "a2a-version";

/// Checks that a request is 1.x. `None` means the caller sent nothing, which the specification reads as 0.3.
pub fn require_v1(value: Option<&str>) -> Result<(), Fault> {
    let text = value.unwrap_or("").trim();
    // Patch digits carry no meaning; a later minor of 1 is understood as far as 1.0 goes (the Python SDK does the same).
    let mut numbers = text.split('.').map(str::parse::<u16>);
    match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(1)), Some(Ok(_)), None | Some(Ok(_)), None) => Ok(()),
        _ if text.is_empty() => Err(Fault::VersionNotSupported(
            "no A2A-Version was sent, which means 0.3; this is a 1.0 operation, send the header A2A-Version: 1.0"
                .into(),
        )),
        _ => {
            let shown: String = text.chars().filter(|c| !c.is_control()).take(32).collect();
            Err(Fault::VersionNotSupported(format!("version {shown} is not supported here; send A2A-Version: 1.0")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_point_something_is_spoken_and_nothing_else() {
        for good in ["1.0", "1.0.1", " 1.0 ", "1.7"] {
            assert!(require_v1(Some(good)).is_ok(), "{good}");
        }
        for bad in [
            None,
            Some(""),
            Some("0.3"),
            Some("1"),
            Some("2.0"),
            Some("1.0.0.0"),
            Some("1.x"),
            Some("v1.0"),
            Some("1.0,1.0"),
        ] {
            assert!(require_v1(bad).is_err(), "{bad:?}");
        }
    }
}
