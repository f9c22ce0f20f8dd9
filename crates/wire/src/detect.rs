//! Detects the dialect of a request. No other module guesses a dialect.
//!
//! This is about JSON-RPC, where all dialects share their endpoints; elsewhere the path or the content type decides.
//! The method names the family: methods of 1.0 are in capitals, those of all other dialects have a slash. A version
//! that is sent must belong to the family of its method. Within the older family these decide, in this order:
//!
//! 1. the version,
//! 2. a method that only one dialect has,
//! 3. `xpr:` members or `X-XPR-*` headers,
//! 4. parts tagged by `type` rather than `kind`,
//! 5. the path,
//! 6. the dialect in which the task was made: the binding looks it up, see [`Detection::Likely`],
//! 7. and a request without any of these is 0.3, as the specification asks.

use crate::Dialect;
use crate::version;
use sabir_proto::Fault;

/// The endpoint that a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointPath {
    /// `/`, the endpoint of all dialects.
    #[default]
    Root,
    /// `/a2a`, the endpoint of XPR.
    A2a,
    /// `/_agent-native/a2a`, the endpoint of agent-native.
    Native,
}

/// The headers that only clients of XPR send.
pub const XPR_HEADERS: [&str; 2] = ["x-xpr-account", "x-xpr-signature"];

/// What the server knows of a request before it reads the body.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// The endpoint that the request came to.
    pub endpoint: EndpointPath,
    /// The A2A version that it names, if it names one.
    pub version: Option<&'a str>,
    /// Whether it has `X-XPR-*` headers.
    pub xpr_headers: bool,
}

impl Facts<'_> {
    /// The dialect of an answer while only the path and the version are known.
    pub fn guess(&self) -> Dialect {
        match version::dialect_of_version(self.version) {
            Ok(Some(dialect)) => dialect,
            Ok(None) | Err(_) => match self.endpoint {
                EndpointPath::Native => Dialect::Native,
                // Clients of XPR use only this path, and read no body of a status other than 200.
                EndpointPath::A2a => Dialect::Xpr,
                // An error of 1.0 has all members of the other dialects, so clients of each can read it.
                EndpointPath::Root => Dialect::V1,
            },
        }
    }
}

/// Marks in the parameters that point at one dialect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent marks")]
pub(crate) struct DialectMarks {
    /// Whether parts are tagged by `kind`, or the message has an id.
    pub(crate) kind_parts: bool,
    /// Whether parts are tagged by `type`.
    pub(crate) type_parts: bool,
    /// Whether there are members whose name begins with `xpr:`.
    pub(crate) xpr: bool,
    /// Whether there are the members `async` or `idempotencyKey`.
    pub(crate) native: bool,
}

/// The detected dialect, and how certain it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detection {
    /// The request says so.
    Certain(Dialect),
    /// The request has no mark. If its task was made in another dialect, it is that one.
    Likely(Dialect),
}

impl Detection {
    pub(crate) const fn dialect(self) -> Dialect {
        match self {
            Self::Certain(dialect) | Self::Likely(dialect) => dialect,
        }
    }
}

/// Whether an object has `xpr:` members, itself or in its `metadata`. Text that mentions them does not count.
pub(crate) fn has_xpr_members(object: &str) -> bool {
    // Hardly any request has one, and then nothing is parsed.
    if !object.contains("\"xpr:") {
        return false;
    }
    let value: serde_json::Value = serde_json::from_str(object).unwrap_or_default();
    let marked = |v: &serde_json::Value| v.as_object().is_some_and(|o| o.keys().any(|k| k.starts_with("xpr:")));
    marked(&value) || marked(&value["metadata"])
}

/// The dialects that have a method, likeliest first. Empty if none has it.
pub(crate) fn dialects_with_method(method: &str) -> &'static [Dialect] {
    use Dialect::{Native, V01, V1, V02, V03, Xpr};
    match method {
        "SendMessage"
        | "SendStreamingMessage"
        | "GetTask"
        | "ListTasks"
        | "CancelTask"
        | "SubscribeToTask"
        | "CreateTaskPushNotificationConfig"
        | "GetTaskPushNotificationConfig"
        | "ListTaskPushNotificationConfigs"
        | "DeleteTaskPushNotificationConfig"
        | "GetExtendedAgentCard" => &[V1],
        "message/send" => &[V03, V02, Native, Xpr],
        "message/stream" => &[V03, V02, Native],
        "tasks/get" | "tasks/cancel" => &[V03, V02, V01, Native, Xpr],
        "tasks/resubscribe" => &[V03, V02, V01],
        "tasks/pushNotificationConfig/set"
        | "tasks/pushNotificationConfig/get"
        | "tasks/pushNotificationConfig/list"
        | "tasks/pushNotificationConfig/delete"
        | "agent/getAuthenticatedExtendedCard" => &[V03, V02],
        "tasks/send" | "tasks/sendSubscribe" | "tasks/pushNotification/set" | "tasks/pushNotification/get" => &[V01],
        "actions/invoke" => &[Native],
        _ => &[],
    }
}

/// Detects the family of a method before its parameters are read. An error comes with the dialect of its answer.
pub(crate) fn detect_family(facts: &Facts<'_>, method: &str) -> Result<Option<Dialect>, (Dialect, Fault)> {
    let able = dialects_with_method(method);
    let asked = version::dialect_of_version(facts.version);
    if able == [Dialect::V1] {
        return version::require_v1(facts.version).map(|()| Some(Dialect::V1)).map_err(|fault| (Dialect::V1, fault));
    }
    match asked {
        // The method is unknown in every dialect. Only a caller that asked for 1.0 gets the error in the form of 1.0.
        _ if able.is_empty() => {
            let fault = Fault::MethodNotFound(method.chars().take(64).collect());
            let told_in = match asked {
                Ok(Some(dialect)) => dialect,
                Ok(None) | Err(_) if facts.endpoint == EndpointPath::Native => Dialect::Native,
                Ok(None) | Err(_) if facts.xpr_headers || facts.endpoint == EndpointPath::A2a => Dialect::Xpr,
                Ok(None) | Err(_) => Dialect::V03,
            };
            Err((told_in, fault))
        }
        Ok(Some(Dialect::V1)) => {
            let problem = format!("{method} is a method of A2A before 1.0; leave out A2A-Version, or send 0.3");
            Err((Dialect::V03, Fault::VersionNotSupported(problem)))
        }
        Ok(Some(dialect)) if able.contains(&dialect) => Ok(Some(dialect)),
        Ok(Some(dialect)) => Err((dialect, Fault::MethodNotFound(method.into()))),
        Ok(None) => Ok(None),
        Err(fault) => Err((Dialect::V03, fault)),
    }
}

/// Detects which of the older dialects a request is in, once its parameters have been read.
pub(crate) fn detect_older_dialect(
    facts: &Facts<'_>,
    method: &str,
    versioned: Option<Dialect>,
    marks: DialectMarks,
) -> Detection {
    let able = dialects_with_method(method);
    let can = |dialect: Dialect| able.contains(&dialect);
    if let Some(dialect) = versioned {
        return Detection::Certain(dialect);
    }
    if let [only] = able {
        return Detection::Certain(*only);
    }
    if (marks.xpr || facts.xpr_headers) && can(Dialect::Xpr) {
        return Detection::Certain(Dialect::Xpr);
    }
    if marks.kind_parts {
        return Detection::Certain(Dialect::V03);
    }
    let by_path = match facts.endpoint {
        EndpointPath::Native => Some(Dialect::Native),
        EndpointPath::A2a => Some(Dialect::Xpr),
        EndpointPath::Root => None,
    };
    if marks.type_parts || marks.native {
        // Clients of XPR use only `/a2a`. A request with `type` tags elsewhere is agent-native, whose answers have the
        // text in both places.
        let xpr = by_path == Some(Dialect::Xpr) && !marks.native && can(Dialect::Xpr);
        return Detection::Certain(if xpr { Dialect::Xpr } else { Dialect::Native });
    }
    match by_path.filter(|d| can(*d)) {
        Some(dialect) => Detection::Certain(dialect),
        None => Detection::Likely(Dialect::V03),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(
        entry: EndpointPath,
        version: Option<&str>,
        xpr_headers: bool,
        method: &str,
        marks: DialectMarks,
    ) -> Detection {
        let facts = Facts { endpoint: entry, version, xpr_headers };
        detect_older_dialect(&facts, method, detect_family(&facts, method).unwrap(), marks)
    }

    const NONE: DialectMarks = DialectMarks { kind_parts: false, type_parts: false, xpr: false, native: false };

    #[test]
    fn the_order_of_evidence() {
        use Detection::{Certain, Likely};
        use Dialect::{Native, V01, V02, V03, Xpr};
        let typed = DialectMarks { type_parts: true, ..NONE };
        let kinded = DialectMarks { kind_parts: true, ..NONE };
        let xpr = DialectMarks { xpr: true, type_parts: true, ..NONE };
        let native = DialectMarks { native: true, type_parts: true, ..NONE };
        for (entry, version, headers, method, marks, expected) in [
            (EndpointPath::Root, None, false, "message/send", kinded, Certain(V03)),
            (EndpointPath::Root, Some("0.2.5"), false, "message/send", kinded, Certain(V02)),
            (EndpointPath::Root, Some("0.3"), false, "message/send", typed, Certain(V03)),
            (EndpointPath::A2a, None, false, "message/send", kinded, Certain(V03)),
            (EndpointPath::A2a, None, false, "message/send", typed, Certain(Xpr)),
            (EndpointPath::A2a, None, false, "message/send", native, Certain(Native)),
            (EndpointPath::Root, None, false, "message/send", typed, Certain(Native)),
            (EndpointPath::Native, None, false, "message/stream", typed, Certain(Native)),
            (EndpointPath::A2a, None, false, "message/stream", typed, Certain(Native)),
            (EndpointPath::Root, None, false, "message/send", xpr, Certain(Xpr)),
            (EndpointPath::Root, None, true, "tasks/get", NONE, Certain(Xpr)),
            (EndpointPath::A2a, None, false, "tasks/get", NONE, Certain(Xpr)),
            (EndpointPath::Native, None, false, "tasks/get", NONE, Certain(Native)),
            (EndpointPath::Root, None, false, "tasks/get", NONE, Likely(V03)),
            (EndpointPath::A2a, None, false, "tasks/resubscribe", NONE, Likely(V03)),
            (EndpointPath::Root, Some("0.1"), false, "tasks/get", NONE, Certain(V01)),
            (EndpointPath::Native, None, false, "tasks/send", typed, Certain(V01)),
            (EndpointPath::Root, None, false, "actions/invoke", NONE, Certain(Native)),
        ] {
            assert_eq!(detected(entry, version, headers, method, marks), expected, "{entry:?} {version:?} {method}");
        }
    }

    #[test]
    fn a_version_must_belong_to_the_family_of_the_method() {
        let refused = |version, method| {
            let facts = Facts { version, ..Facts::default() };
            let (dialect, fault) = detect_family(&facts, method).unwrap_err();
            (dialect, fault.code())
        };
        use sabir_proto::FaultCode::{MethodNotFound, VersionNotSupported};
        assert_eq!(refused(None, "SendMessage"), (Dialect::V1, VersionNotSupported));
        assert_eq!(refused(Some("0.3"), "SendMessage"), (Dialect::V1, VersionNotSupported));
        assert_eq!(refused(Some("1.0"), "message/send"), (Dialect::V03, VersionNotSupported));
        assert_eq!(refused(Some("0.9"), "message/send"), (Dialect::V03, VersionNotSupported));
        assert_eq!(refused(Some("nonsense"), "tasks/get"), (Dialect::V03, VersionNotSupported));
        assert_eq!(refused(Some("0.3"), "tasks/send"), (Dialect::V03, MethodNotFound));
        assert_eq!(refused(Some("0.1"), "message/send"), (Dialect::V01, MethodNotFound));
        assert_eq!(refused(Some("1.0"), "Nonsense"), (Dialect::V1, MethodNotFound));
        assert_eq!(refused(None, "Nonsense"), (Dialect::V03, MethodNotFound));
    }
}
