//! The `A2A-Version` of a request, and the dialect it names.

use crate::Dialect;
use sabir_proto::Fault;

/// The header, and the query parameter that may stand in for it.
pub const HEADER: &str = "a2a-version";

/// Checks that a request is 1.x. `None` means that the caller sent no version, which the specification reads as 0.3.
pub fn require_v1(value: Option<&str>) -> Result<(), Fault> {
    let text = value.unwrap_or("").trim();
    // Patch numbers have no meaning. A later minor of 1 is read as 1.0 (the Python SDK does the same).
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

/// Checks that a request is not 1.x. `None` means 0.3.
pub fn require_older(value: Option<&str>) -> Result<(), Fault> {
    match dialect_of_version(value)? {
        Some(Dialect::V1) => Err(Fault::VersionNotSupported(
            "this is an operation of A2A before 1.0; leave out A2A-Version, or send 0.3".into(),
        )),
        _ => Ok(()),
    }
}

/// The dialect of a version. `None` if the caller sent none.
pub fn dialect_of_version(value: Option<&str>) -> Result<Option<Dialect>, Fault> {
    let text = value.unwrap_or("").trim();
    if text.is_empty() {
        return Ok(None);
    }
    let mut numbers = text.split('.').map(str::parse::<u16>);
    Ok(Some(match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(1)), Some(Ok(_)), None | Some(Ok(_)), None) => Dialect::V1,
        (Some(Ok(0)), Some(Ok(3)), None | Some(Ok(_)), None) => Dialect::V03,
        (Some(Ok(0)), Some(Ok(2)), None | Some(Ok(_)), None) => Dialect::V02,
        (Some(Ok(0)), Some(Ok(1)), None | Some(Ok(_)), None) => Dialect::V01,
        _ => {
            let shown: String = text.chars().filter(|c| !c.is_control()).take(32).collect();
            return Err(Fault::VersionNotSupported(format!(
                "version {shown} is not supported here; send A2A-Version: 1.0, 0.3, 0.2 or 0.1"
            )));
        }
    }))
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
