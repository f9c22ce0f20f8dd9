//! The lines of a report: one table of everything that is looked at, what it means when it is wrong, and what helps.
//!
//! A line has one level, so that a script that reads `warn` or `fail` knows what to do without reading on. The guide
//! `docs/guides/doctor.md` repeats the table, and a test compares.

/// What a line says when it finds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// It works, and it will hurt.
    Warn,
    /// A correct client cannot use the agent, or that operation.
    Fail,
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct CheckText {
    /// The name in JSON and in the guide, by what can be wrong.
    pub(super) id: &'static str,
    /// The name that is printed, by what is right.
    pub(super) well: &'static str,
    pub(super) level: Severity,
    /// What is wrong when it complains.
    pub(super) means: &'static str,
    /// What helps, unless the finding itself knows better.
    pub(super) fix: &'static str,
}

macro_rules! checks {
    ($($name:ident $id:literal $well:literal $level:ident $means:literal $fix:literal)*) => {
        /// Everything that is looked at, in that order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum DoctorCheck { $($name),* }

        impl DoctorCheck {
            pub(super) const ALL: &[Self] = &[$(Self::$name),*];

            pub(super) const fn row(self) -> CheckText {
                match self {
                    $(Self::$name => CheckText { id: $id, well: $well, level: Severity::$level, means: $means, fix: $fix }),*
                }
            }
        }
    };
}

checks! {
    Dns "dns" "host name resolves" Fail "the name does not resolve"
        "correct the name, or publish it in DNS"
    Tcp "tcp" "connections taken" Fail "nothing accepts connections at the address"
        "start the agent, or open the port for the outside"
    TlsHandshake "tls.handshake" "TLS spoken" Fail "no TLS, although the URL says https"
        "serve TLS on this port, or give the URL with http"
    TlsTrust "tls.trust" "certificate trusted" Fail "no authority that is trusted here has signed the certificate"
        "use a certificate of a public authority with its whole chain, or name your own with --ca-cert"
    TlsName "tls.name" "certificate for host" Fail "the certificate is for another host"
        "get a certificate for this name, or call the agent by the name in it"
    TlsExpired "tls.expired" "certificate in date" Fail "the certificate is not valid today"
        "renew the certificate"
    HttpAnswer "http.answer" "HTTP answered" Fail "connections are accepted and nothing comes back, or a proxy finds no server behind it"
        "look whether the agent hangs, and whether it speaks HTTP on this port"
    CardMissing "card.missing" "card found" Fail "there is no public agent card"
        "serve the card at /.well-known/agent-card.json without asking for credentials"
    CardPath "card.path" "card at today's path" Warn "the card is only where it was before 0.3"
        "also serve /.well-known/agent-card.json"
    CardRedirect "card.redirect" "card at this origin" Fail "the card is redirected to another origin, which clients do not follow"
        "serve the card itself at this origin"
    CardType "card.type" "card not a web page" Fail "a web page in the place of the card"
        "let /.well-known/ pass to the agent, without login page or single-page fallback"
    CardJson "card.json" "card is JSON" Fail "the card is not JSON"
        "serve the whole card as JSON; look for a proxy that cuts or rewrites it"
    CardSize "card.size" "card size" Fail "the card is larger than clients take"
        "keep the card below 1 MiB; put long texts behind documentationUrl"
    CardRequired "card.required" "card complete" Fail "members are missing that every card must have"
        "add them"
    CardLint "card.lint" "card by the rules" Warn "the card departs from the rules of its version"
        "correct what is listed; sabir card get --validate shows all of it"
    CardSchemes "card.schemes" "schemes defined" Fail "the card requires security schemes that it does not define"
        "define them in securitySchemes, or take the requirement out"
    CardUrl "card.url" "addresses callable" Fail "the address of an interface cannot be called from outside"
        "put the public URL of the agent there"
    CardInterfaces "card.interfaces" "interface usable" Fail "the card offers no binding and version that clients speak"
        "offer JSONRPC, HTTP+JSON or GRPC, with the protocolVersion it speaks"
    CardSignature "card.signature" "signature holds" Fail "the signature does not fit the card"
        "sign the card again after each change, over its canonical form"
    CardCache "card.cache" "card cacheable" Warn "the card has neither ETag nor Cache-Control, so that it is fetched in full each time"
        "send an ETag and Cache-Control: max-age"
    InterfaceReach "interface.reach" "interface reached" Fail "an interface of the card is not there"
        "take the interface off the card, or start it"
    AuthUndeclared "auth.undeclared" "scheme declared" Fail "credentials are demanded and the card declares no scheme"
        "declare the scheme in securitySchemes and securityRequirements"
    AuthChallenge "auth.challenge" "challenge sent" Warn "credentials are demanded without WWW-Authenticate"
        "answer 401 with a WWW-Authenticate header that names the scheme"
    AuthIgnored "auth.ignored" "credentials checked" Warn "the card requires credentials and every caller is served"
        "check credentials before each call, or take the requirement off the card"
    AuthRefused "auth.refused" "credential accepted" Fail "the credential that was given is not accepted"
        "look whether it has expired and is meant for this agent"
    RpcVersion "rpc.version" "version as declared" Fail "another version is spoken than the card declares"
        "declare the protocolVersion that is spoken, or put a translating hub before the agent"
    RpcJson "rpc.json" "answers are JSON" Fail "answers are not JSON"
        "look for a proxy that answers in place of the agent"
    RpcId "rpc.id" "ids match" Fail "answers carry the id of another request"
        "answer with the id of the request"
    RpcContent "rpc.content" "content type" Warn "answers have the wrong content type"
        "send Content-Type: application/json"
    RpcError "rpc.error" "unknown task refused" Warn "an unknown task gets the wrong error"
        "answer TaskNotFoundError: -32001, or NOT_FOUND over gRPC, and keep stack traces to yourself"
    RpcUnversioned "rpc.unversioned" "versions checked" Warn "an unknown version is served"
        "refuse other values of A2A-Version with VersionNotSupportedError (-32009)"
    RestPath "rest.path" "paths as declared" Fail "the operations are not at the paths of the declared version"
        "serve POST /message:send below the declared URL; /v1/… was 0.3"
    RestError "rest.error" "error shape" Warn "errors have no shape that clients know"
        "answer errors as google.rpc.Status, with an ErrorInfo of the domain a2a-protocol.org"
    SendRefused "send.refused" "text accepted" Warn "a plain text message is refused"
        "accept text/plain, or say in defaultInputModes what is accepted instead"
    RpcShape "rpc.shape" "answer readable" Fail "the answer to a message cannot be read"
        "answer SendMessage with exactly one of task and message"
    RpcState "rpc.state" "states as declared" Fail "states are of another version"
        "write states as the declared version does: TASK_STATE_COMPLETED in 1.0, completed in 0.3"
    SendWait "send.wait" "send waits" Warn "a message that should be waited for is answered before the task is done"
        "without returnImmediately, answer when the task has settled or waits for input or credentials"
    GetLost "get.lost" "task kept" Fail "a task cannot be read after it was made"
        "keep tasks, at least for some hours after they have settled"
    ListMissing "list.missing" "tasks listed" Warn "tasks cannot be listed"
        "implement ListTasks, which 1.0 requires"
    StreamDeclared "stream.declared" "streaming works" Fail "the card declares streaming and the agent refuses it"
        "set capabilities.streaming to false, or implement SendStreamingMessage"
    StreamContent "stream.content" "stream content type" Fail "the answer to a streaming request is no stream"
        "answer with text/event-stream; look for a proxy that buffers"
    StreamFirst "stream.first" "task comes first" Warn "the stream begins with something else than the task"
        "send the task first, so that clients know its id"
    StreamSilence "stream.silence" "no long silence" Warn "no bytes for longer than proxies bear"
        "send a comment (`: keep-alive`) every 15 seconds while nothing else is to be said"
    StreamCut "stream.cut" "stream unbroken" Fail "the connection breaks in the middle of the stream"
        "look for crashes and for timeouts of proxies; end streams in good order"
    StreamEnd "stream.end" "stream to the end" Fail "the stream ends before its task"
        "keep the stream open until the task has settled or waits for input or credentials"
    StreamEndless "stream.endless" "stream closed" Warn "the stream stays open after its task has ended"
        "close the stream after the final event"
    SubscribeMissing "subscribe.missing" "subscribe works" Warn "a running task cannot be followed by a new stream"
        "implement SubscribeToTask, so that clients can go on after a lost connection"
    CancelMissing "cancel.missing" "cancel works" Warn "there is no cancel"
        "implement CancelTask; tasks that cannot be cancelled are refused with TaskNotCancelableError"
    CancelIgnored "cancel.ignored" "cancel stops work" Fail "a cancelled task works on"
        "stop the work, and keep the state canceled"
    PushDeclared "push.declared" "push works" Fail "the card declares push notifications and the agent refuses them"
        "set capabilities.pushNotifications to false, or implement the configurations"
    PushSilent "push.silent" "webhook called" Fail "a registered webhook is never called"
        "deliver events to the configured URL"
    PushToken "push.token" "webhook token sent" Warn "webhooks are called without the token they were registered with"
        "send the token as X-A2A-Notification-Token"
}

/// The table as Markdown, for the guide.
#[cfg(test)]
fn table() -> String {
    let mut text = String::from("| Line | Level | What is wrong | What helps |\n| --- | --- | --- | --- |\n");
    for check in DoctorCheck::ALL {
        let CheckText { id, level, means, fix, .. } = check.row();
        let level = match level {
            Severity::Warn => "warn",
            Severity::Fail => "fail",
        };
        text += &format!("| `{id}` | {level} | {means} | {fix} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_line_has_a_name_of_its_own_a_meaning_and_a_fix() {
        let mut seen = HashSet::new();
        for check in DoctorCheck::ALL {
            let CheckText { id, well, means, fix, .. } = check.row();
            assert!(seen.insert(id) && seen.insert(well), "{id} twice");
            assert!(well.len() <= super::super::report::NAME_COLUMNS, "{well} breaks the alignment");
            for text in [means, fix] {
                assert!(!text.is_empty() && !text.ends_with('.') && !text.contains('|'), "{id}: {text}");
            }
        }
    }

    #[test]
    fn the_guide_has_the_same_table() {
        let guide = include_str!("../../../../docs/guides/doctor.md");
        assert!(guide.contains(&table()), "docs/guides/doctor.md should have\n{}", table());
    }
}
