//! Leads a call to the engine: the policies in their order, then the route.
//!
//! Policies are plain functions on `Call`, so every binding uses the same code, and none costs a boxed future. Their
//! order and its reasons:
//!
//! ```text
//! (authenticate → rate) → decode → which agent → names → extensions → scope → trust → offered? → copy? → route
//! ```
//!
//! - The rate limit comes with authentication and before decoding: malformed requests are not free.
//! - Guessable names that this caller may not use are replaced before any lookup.
//! - Scope is decided locally and trust may have to ask a chain, so scope comes first.
//! - The check for a copy of a signed request comes last: a refused request may be corrected and sent again.
//! - A retry is recognised after all of them, in the engine: a caller that has lost access gets no stored answer.

use crate::app::App;
use crate::auth_setup::Rules;
use crate::authorized_stream::AuthorizedStream;
use crate::directory::ServedAgent;
use crate::engine_access::task_of_call;
use crate::exchange_log::ExchangeReport;
use crate::{guessable_names, handoff_check};
use sabir_guard::authn::Scheme;
use sabir_guard::{Admitted, Cleared, Guard, Identity, Permit, RequestEvidence};
use sabir_proto::{
    AgentCard, CALLER_ACCOUNT, Call, Caller, Fault, Message, Object, Reply, ServiceParameters, Tenant, Timestamp,
};
use sabir_store::Scope;
use sabir_wire::{Dialect, HandoffSupport, card};
use std::sync::Arc;

/// A call with its evidence and terms.
#[derive(Debug)]
pub(crate) struct CallRequest<'a> {
    /// The agent of the path; `None` at the root.
    pub(crate) path_agent: Option<&'a Arc<ServedAgent>>,
    /// The facts that authenticate the request.
    pub(crate) evidence: RequestEvidence<'a>,
    /// The caller that was admitted; `None` for a method that asks for no credential.
    pub(crate) admitted: Option<Admitted>,
    pub(crate) call: Call,
    pub(crate) terms: ServiceParameters,
    /// Where the task and the result are reported; `None` for a call that is never recorded.
    pub(crate) report: Option<&'a ExchangeReport>,
}

/// The response to a call.
#[derive(Debug)]
pub(crate) struct CallResponse {
    pub(crate) reply: Reply<AuthorizedStream>,
    /// The extensions that were active for the call.
    pub(crate) active_extensions: Vec<String>,
    /// The scope of the task that it is about.
    pub(crate) scope: Arc<Scope>,
}

impl App {
    /// Authenticates a caller at an agent, or at the root.
    pub(crate) async fn admit(
        &self,
        at: Option<&Arc<ServedAgent>>,
        evidence: &RequestEvidence<'_>,
    ) -> Result<Admitted, Fault> {
        Ok(self.guard.admit(self.rules(at), evidence).await?)
    }

    /// The rules that apply before the agent of the call is known.
    pub(crate) fn rules<'a>(&'a self, at: Option<&'a Arc<ServedAgent>>) -> &'a Rules {
        at.or_else(|| self.default_agent()).map_or(&self.root_rules, |served| &served.rules)
    }

    /// Serves one call of any binding.
    pub(crate) async fn call(&self, ask: CallRequest<'_>) -> Result<CallResponse, Fault> {
        let CallRequest { path_agent: at, evidence, admitted, mut call, mut terms, report } = ask;
        let served = &self.target_agent(at, &mut call)?;
        let admitted = match admitted {
            Some(admitted) if Guard::is_admitted_under(&admitted, &served.rules) => admitted,
            // The tenant selects another agent than the path, or the caller is not authenticated yet.
            _ => Box::pin(self.guard.admit(&served.rules, &evidence)).await?,
        };
        guessable_names::remove(admitted.identity(), &mut call, &mut terms)?;
        let active = active_extensions(served, &terms)?;
        let identity = admitted.identity();
        set_caller_account((identity.scheme() == Some(Scheme::Xpr)).then(|| identity.bare_name()), &mut call);
        if let Some(network) = self.network.as_ref().filter(|network| network.is_agent(served)) {
            network.name_intent(&mut call);
        }
        let cleared = self.guard.clear(&served.rules, admitted, &call, evidence.now).await?;
        if is_without_extended_card(served, &call) && terms.dialect != Dialect::V1.name() {
            // Before 1.0 there was one error for this, whether or not the card promises an extended card (0.3.0 §8.2).
            return Err(Fault::ExtendedCardNotConfigured);
        }
        let permit = self.permit(served, cleared, call, evidence.now).await?;
        let named = task_of_call(permit.call()).cloned();
        let shows = HandoffSupport::of(&active);
        let outcome = self.engine.serve(served, permit, &terms, shows).await;
        if let Some(report) = report {
            report.set(named.as_ref(), outcome.as_ref().map(|(reply, _)| reply));
        }
        let (reply, scope) = outcome?;
        let reply = match reply {
            Reply::Stream(watched) => Reply::Stream(watched.with_handoffs(shows)),
            reply => shows.show(reply),
        };
        Ok(CallResponse { reply, active_extensions: active, scope })
    }

    /// The last checks before the engine: whether the agent offers the call, and whether the request is a copy.
    pub(crate) async fn permit(
        &self,
        served: &ServedAgent,
        cleared: Cleared,
        call: Call,
        now: Timestamp,
    ) -> Result<Permit, Fault> {
        handoff_check::check(served, cleared.identity(), &call)?;
        check_offered(served, &call)?;
        Ok(self.guard.permit(&served.rules, cleared, call, now).await?)
    }

    /// Serves a call of 0.3 over gRPC. There the method for the extended card means *the* card: the Python SDK of 0.3
    /// calls it first when it knows only an address. An agent without an extended card answers with the public one.
    pub(crate) async fn call_grpc_v03(&self, mut ask: CallRequest<'_>) -> Result<CallResponse, Fault> {
        if let Call::ExtendedCard { .. } = ask.call {
            let served = self.target_agent(ask.path_agent, &mut ask.call)?;
            if served.card.capabilities.extended_agent_card != Some(true) {
                let (reply, scope) = (Reply::Card(served.cards.public()), served.plain_scope.clone());
                return Ok(CallResponse { reply, active_extensions: Vec::new(), scope });
            }
        }
        self.call(ask).await
    }

    /// The agent of a call: that of the path; else the one that the tenant names (gRPC reaches other agents in this
    /// way); else the default agent.
    fn target_agent(&self, at: Option<&Arc<ServedAgent>>, call: &mut Call) -> Result<Arc<ServedAgent>, Fault> {
        if let Some(served) = at {
            return Ok(served.clone());
        }
        if let Some(served) = self.agent(call.tenant().as_str()) {
            *call.tenant_mut() = Tenant::none();
            return Ok(served);
        }
        self.default_agent().cloned().ok_or_else(|| {
            Fault::UnsupportedOperation(
                "there is no default agent here; use /agents/{name}, or the name as tenant".into(),
            )
        })
    }
}

/// Sets the member `xpr:callerAccount` in the metadata to the account that signed the request, or removes it if none
/// did: agents read that member and must be able to trust it.
fn set_caller_account(account: Option<&str>, call: &mut Call) {
    let (Call::Send(request) | Call::Stream(request)) = call else { return };
    // Few messages have the member, and the others are not parsed. Its name may contain escapes.
    let is_claimed = |metadata: &Option<Object>| {
        metadata.as_ref().is_some_and(|m| m.as_str().contains("callerAccount") || m.as_str().contains('\\'))
    };
    if account.is_some() || is_claimed(&request.message.metadata) {
        let mut members = request.message.metadata.as_ref().map(Object::to_map).unwrap_or_default();
        members.remove(CALLER_ACCOUNT);
        if let Some(account) = account {
            members.insert(CALLER_ACCOUNT.into(), account.into());
        }
        request.message.metadata = (!members.is_empty()).then(|| Object::from_map(&members).ok()).flatten();
    }
    if is_claimed(&request.metadata) {
        let mut members = request.metadata.as_ref().map(Object::to_map).unwrap_or_default();
        members.remove(CALLER_ACCOUNT);
        request.metadata = (!members.is_empty()).then(|| Object::from_map(&members).ok()).flatten();
    }
}

/// The extensions that are active for a call; a required one that the caller did not list is an error.
fn active_extensions(served: &ServedAgent, terms: &ServiceParameters) -> Result<Vec<String>, Fault> {
    let known = &served.card.capabilities.extensions;
    let asked = |uri: &str| terms.extensions.iter().any(|e| e == uri);
    if let Some(missing) = known.iter().find(|e| e.required && !asked(&e.uri)) {
        return Err(Fault::ExtensionSupportRequired(missing.uri.clone()));
    }
    Ok(known.iter().filter(|e| asked(&e.uri)).map(|e| e.uri.clone()).collect())
}

/// Refuses what the card does not promise.
fn check_offered(served: &ServedAgent, call: &Call) -> Result<(), Fault> {
    let capabilities = &served.card.capabilities;
    match call {
        Call::Send(request) => check_media_types(served, &request.message),
        Call::Stream(request) if capabilities.streaming == Some(true) => check_media_types(served, &request.message),
        Call::Stream(_) | Call::Subscribe(_) if capabilities.streaming != Some(true) => Err(
            Fault::UnsupportedOperation("this agent does not stream; send without streaming and get the task".into()),
        ),
        Call::CreatePush { .. } | Call::GetPush(_) | Call::ListPush(_) | Call::DeletePush(_) if !served.hosted.push => {
            Err(Fault::PushNotificationNotSupported)
        }
        Call::ExtendedCard { .. } if is_without_extended_card(served, call) => {
            Err(Fault::UnsupportedOperation("this agent has no extended card; its public card is all there is".into()))
        }
        Call::Stream(_)
        | Call::Subscribe(_)
        | Call::Get(_)
        | Call::List(_)
        | Call::Cancel(_)
        | Call::CreatePush { .. }
        | Call::GetPush(_)
        | Call::ListPush(_)
        | Call::DeletePush(_)
        | Call::ExtendedCard { .. } => Ok(()),
    }
}

/// Whether a call asks for an extended card where the agent has none.
fn is_without_extended_card(served: &ServedAgent, call: &Call) -> bool {
    matches!(call, Call::ExtendedCard { .. }) && served.card.capabilities.extended_agent_card != Some(true)
}

/// Refuses a part whose media type the agent does not accept.
fn check_media_types(served: &ServedAgent, message: &Message) -> Result<(), Fault> {
    let declared = message.parts.iter().filter_map(|p| p.media_type.as_deref());
    for media_type in declared {
        if !served.cards.has_input_mode(|mode| covers(mode, media_type)) {
            let shown: String = media_type.chars().filter(|c| !c.is_control()).take(128).collect();
            return Err(Fault::ContentTypeNotSupported(shown));
        }
    }
    Ok(())
}

/// Whether a mode such as `text/*` covers a media type such as `text/plain; charset=utf-8`. Cards before 1.0 use words
/// for modes: `text` is any text, `file` any file, `data` is JSON.
fn covers(mode: &str, media_type: &str) -> bool {
    let essence = |t: &str| t.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let (mode, media_type) = (essence(mode), essence(media_type));
    let mode = card::mode_of_word(&mode).unwrap_or(&mode);
    mode == "*/*"
        || mode == media_type
        || mode.strip_suffix("/*").is_some_and(|kind| media_type.split('/').next() == Some(kind))
}

impl ServedAgent {
    /// The extended card for this caller. An interceptor that authenticates callers itself has made one; otherwise only
    /// authenticated callers get it.
    pub(crate) fn extended_card(&self, identity: &Identity) -> Result<Arc<AgentCard>, Fault> {
        match &self.extended {
            Some(card) => Ok(card.clone()),
            None if identity.scheme().is_none() => Err(Fault::ExtendedCardNotConfigured),
            None => Ok(Arc::new(self.cards.extended(|skill| Guard::may_use(&self.rules, identity, skill)))),
        }
    }

    /// The scope of the tasks of a caller at this agent.
    pub(crate) fn scope(&self, tenant: &Tenant, caller: &Caller) -> Arc<Scope> {
        if *tenant == self.plain_scope.tenant && *caller == self.plain_scope.caller {
            return self.plain_scope.clone();
        }
        Arc::new(Scope { tenant: tenant.clone(), caller: caller.clone(), agent: self.hosted.name.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{Json, MessageId, Role, SendConfiguration, SendMessage};

    #[test]
    fn the_account_in_a_message_is_the_one_that_signed() {
        let named = |account: Option<&str>, metadata: &str| {
            let read = |text: &str| Object::new(Json::parse(text).unwrap()).unwrap();
            let mut message = Message::text(MessageId::parse("m").unwrap(), Role::User, "hi");
            message.metadata = (!metadata.is_empty()).then(|| read(metadata));
            let mut call = Call::Send(Box::new(SendMessage {
                tenant: Tenant::none(),
                message,
                configuration: SendConfiguration::default(),
                metadata: (!metadata.is_empty()).then(|| read(metadata)),
                alias: None,
                wants_task: false,
            }));
            set_caller_account(account, &mut call);
            let Call::Send(send) = call else { panic!("a send") };
            let shown = |metadata: Option<Object>| metadata.map(|m| m.as_str().to_owned()).unwrap_or_default();
            (shown(send.message.metadata), shown(send.metadata))
        };
        let pair = |message: &str, beside: &str| (message.to_owned(), beside.to_owned());
        let alice = r#"{"xpr:callerAccount":"alice"}"#;
        for claim in [r#"{"xpr:callerAccount":"bob"}"#, r#"{"xpr:caller\u0041ccount":"bob"}"#, ""] {
            assert_eq!(named(Some("alice"), claim), pair(alice, ""), "{claim}");
            assert_eq!(named(None, claim), pair("", ""), "{claim}");
        }
        let other = r#"{"a":"b\n"}"#;
        assert_eq!(named(None, other), pair(other, other), "what claims nothing stays");
    }

    #[test]
    fn words_for_modes_cover_what_they_say() {
        for (mode, media_type, taken) in [
            ("text", "text/plain", true),
            ("text", "text/x-python; charset=utf-8", true),
            ("text", "image/png", false),
            ("Text", "text/plain", true),
            ("file", "text/x-python", true),
            ("file", "application/pdf", true),
            ("data", "application/json", true),
            ("data", "text/plain", false),
            ("text/*", "text/plain", true),
            ("text/plain", "text/x-python", false),
            ("*/*", "a/b", true),
            ("application/json", "data", false),
        ] {
            assert_eq!(covers(mode, media_type), taken, "{mode} {media_type}");
        }
    }
}
