//! Decides whether a caller may hand a task over, before a task is made of it.
//!
//! The metadata of such a task is an unchecked claim. It can narrow what is allowed and never widen it: the required
//! capabilities must be among those of our agent, those that the sender grants, and those that this caller may use.

use crate::directory::ServedAgent;
use sabir_gateway::handoff::accepts_transfers;
use sabir_guard::policy::lattice::{self, Capabilities, ScopeVerdict};
use sabir_guard::{Guard, Identity};
use sabir_proto::transfer::{DEPTH_MAX, HandoffMessage, check_chain};
use sabir_proto::{AgentCard, Call, Fault, HANDOFF, HandoffRefusal, TransferContext};

/// Whether this caller may hand this task over; every other call passes.
pub(crate) fn check(served: &ServedAgent, identity: &Identity, call: &Call) -> Result<(), Fault> {
    let (Call::Send(request) | Call::Stream(request)) = call else { return Ok(()) };
    let metadata = request.message.metadata.as_ref();
    if !metadata.is_some_and(|metadata| metadata.as_str().contains(HANDOFF)) {
        return Ok(());
    }
    let field = format!("message.metadata[{HANDOFF}]");
    let (context, hold) = match HandoffMessage::of(&request.message) {
        Some(Ok(HandoffMessage::Create { context, hold })) => (context, hold),
        Some(Err(fault)) => return Err(Fault::invalid(field, fault.to_string())),
        Some(Ok(HandoffMessage::Activate(_))) | None => return Ok(()),
    };
    if hold && accepts_transfers(&served.card) != Some(true) {
        return Err(Fault::UnsupportedOperation("this agent takes no tasks that are handed over".into()));
    }
    if !hold {
        // The sender does not treat us as a peer: the text is in the message, and the metadata is only read.
        return Ok(());
    }
    context.check().map_err(|fault| Fault::invalid(field, fault.to_string()))?;
    check_transfer_chain(served, &context)?;
    check_scope(served, identity, &context)
}

/// This server must not be in the chain already, and the chain must not be too long.
fn check_transfer_chain(served: &ServedAgent, context: &TransferContext) -> Result<(), Fault> {
    for interface in &served.card.supported_interfaces {
        check_chain(&context.chain, &interface.url, &context.required, DEPTH_MAX).map_err(|fault| {
            let (reason, words) = (fault.code(), fault.to_string());
            Fault::Handoff(Box::new(HandoffRefusal { reason, words, ..HandoffRefusal::default() }))
        })?;
    }
    Ok(())
}

/// The card of an agent with all of its skills, also those that are not public.
fn full_card(served: &ServedAgent) -> AgentCard {
    let mut card = AgentCard::clone(&served.cards.public());
    let hidden = served.skills.iter().filter(|skill| !card.skills.iter().any(|shown| shown.id == skill.id)).cloned();
    card.skills = card.skills.iter().cloned().chain(hidden).collect();
    card
}

/// The capabilities of an agent for a task that another agent of this server delegates to it.
pub(crate) fn narrow_grants(
    served: &ServedAgent,
    granted: Vec<String>,
    skill: Option<&str>,
) -> Result<Vec<String>, Fault> {
    let card = full_card(served);
    let held = Capabilities::named(granted.iter().cloned());
    let required = match skill {
        Some(skill) => Capabilities::names_of(&card, skill),
        // No skill is named. Skills that the public card does not show are not revealed here either.
        None => Capabilities::of_card(&served.cards.public()).names().map(str::to_owned).collect(),
    };
    let verdict = lattice::check(required.iter().map(String::as_str), &Capabilities::of_card(&card), &held);
    // Of a skill with several names one is enough, because it is one skill. Of an agent one skill is enough.
    let may = match skill {
        Some(_) => verdict.missing.len() < required.len(),
        None => !verdict.allowed.is_empty(),
    };
    if may {
        return Ok(verdict.allowed);
    }
    let agent = &served.hosted.name;
    tracing::warn!(%agent, ?granted, ?required, "work that was delegated does not go there: it is not granted");
    let list = |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    let words = format!(
        "{}: {agent} is given nothing to do with this task: {} is all that was granted \
         (required: {}; allowed: {}; missing: {})",
        ScopeVerdict::CODE,
        list(&granted),
        list(&verdict.required),
        list(&verdict.allowed),
        list(&verdict.missing),
    );
    Err(scope_exceeded(words, verdict))
}

fn scope_exceeded(words: String, verdict: ScopeVerdict) -> Fault {
    let ScopeVerdict { required, allowed, missing } = verdict;
    Fault::Handoff(Box::new(HandoffRefusal { reason: ScopeVerdict::CODE, words, required, allowed, missing }))
}

fn check_scope(served: &ServedAgent, identity: &Identity, context: &TransferContext) -> Result<(), Fault> {
    // Skill by skill: a skill that this caller may not use counts as absent.
    let mut usable = full_card(served);
    usable.skills.retain(|skill| Guard::may_use(&served.rules, identity, &skill.id));
    let caps = Capabilities::of_card(&usable);
    let granted = match &context.scope {
        Some(scope) => Capabilities::named(scope.iter().cloned()),
        None => Capabilities::named(context.required.iter().cloned()),
    };
    let verdict = lattice::check(context.required.iter().map(String::as_str), &caps, &granted);
    if verdict.passes() {
        return Ok(());
    }
    let words = format!("this agent is not to do {} with a task that is handed over", verdict.missing.join(", "));
    Err(scope_exceeded(words, verdict))
}
