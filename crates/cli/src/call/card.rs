//! `sabir card get`, `sabir card verify`.

mod validate;
mod verify;

pub(crate) use verify::CardVerify;

use super::target::AgentArgument;
use super::{InterruptHandling, Session, run_session};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use crate::render::{self, CardContext, Fields, Node};
use clap::Args;
use sabir_client::DiscoveredCard;
use sabir_client::signature::{CardKeySource, UntrustedReason, VerifiedCard, verified_card};
use sabir_wire::card::XprIdentity;

/// Read the card of an agent: who it is, what it can do and how it is called.
///
/// The card is read without any credential. In JSON it is printed as it is, and what is said about it stands on standard
/// error. Of a card whose signature is verified, what was signed is shown and nothing else.
#[derive(Debug, Args)]
pub(crate) struct CardGet {
    #[command(flatten)]
    target: AgentArgument,
    /// Check the card against the rules of A2A; a card that breaks them is an error.
    #[arg(long)]
    validate: bool,
    /// Read the card for authenticated callers.
    #[arg(long)]
    extended: bool,
}

impl Verb for CardGet {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.target.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

impl CardGet {
    async fn execute(self, session: &Session) -> Outcome {
        session.reference()?;
        let found = session.card().await?;
        let place = session.card_location(&found);
        let found = if self.extended {
            let public = session.require_trust(found).await?;
            let url = public.url.clone();
            let agent = session.connect_to(public).await?;
            let said = agent.extended_card().await.map_err(|error| session.failed(error))?;
            let read = DiscoveredCard::read(said.as_received().as_bytes(), url, &place)
                .map_err(|error| session.failed(error))?;
            session.require_trust(read).await?.into_found()
        } else {
            found
        };
        let (found, signature) = verify_signatures(session, found).await?;
        let json = with_xpr(found.json(), found.xpr.as_ref());
        let mut faults = if self.validate { validate::faults(&found) } else { Vec::new() };
        if self.validate && signature.is_evidence {
            faults.push(format!("signatures: {}", signature.text));
        }
        if !faults.is_empty() {
            return Err(card_invalid(&place, &faults).into());
        }
        let selected = session.selected(&found);
        let about = CardContext {
            place: Some(&place),
            selected: selected.as_deref(),
            valid: self.validate.then_some("yes"),
            signature: Some(&signature.text),
            xpr: found.xpr.as_ref(),
            verbose: session.out.verbose,
        };
        self.report(session, &json, &about)
    }

    fn report(&self, session: &Session, json: &str, about: &CardContext<'_>) -> Outcome {
        if session.out.is_json() {
            session.out.document(json)?;
            for (label, value) in [("Selected", about.selected), ("Valid", about.valid), ("Signature", about.signature)]
            {
                if let Some(value) = value {
                    session.out.note(&format!("{label}: {value}"));
                }
            }
            return Ok(Exit::Done);
        }
        let mut fields = Fields::new();
        render::card(&mut fields, Node::new(json), about);
        session.out.fields(fields)?;
        Ok(Exit::Done)
    }
}

/// A card with what its agent says of itself on XPR Network, for which A2A 1.0 has no members. Of a card of 1.0 they are
/// there already.
fn with_xpr(json: String, xpr: Option<&XprIdentity>) -> String {
    let Some(xpr) = xpr.filter(|_| !json.contains("\"xpr:account\"")) else { return json };
    let members = serde_json::to_string(xpr).unwrap_or_default();
    let inner = members.trim_start_matches('{').trim_end_matches('}');
    match json.trim_end().strip_suffix('}') {
        Some(card) => format!("{card},{inner}}}"),
        None => json,
    }
}

/// A card that breaks the rules, with everything that is wrong with it.
fn card_invalid(place: &str, faults: &[String]) -> Problem {
    let message = format!("{place} breaks the rules of A2A:\n{}", faults.join("\n"));
    Problem::new(ErrorCode::CardInvalid, message)
        .hint(format!("mend the card; sabir doctor {} looks further", render::shell(place)))
}

/// Verifies the signatures of a card, and returns the part of the card that may be used. A wrong signature gives a
/// warning, a missing one does not.
async fn verify_signatures(
    session: &Session,
    found: DiscoveredCard,
) -> Result<(DiscoveredCard, SignatureReport), Problem> {
    let trust = super::trust::trust_roots(&session.settings, &found)?;
    let outcome = verified_card(&found, &trust, &session.client).await;
    let signature = SignatureReport::of(&outcome);
    if signature.is_evidence {
        session.out.warn(&format!("the card cannot be trusted: {}", signature.text));
    }
    Ok((outcome.map_or(found, |vouched| vouched.discovered_card), signature))
}

/// The outcome of a verification, for people.
struct SignatureReport {
    text: String,
    /// Evidence against the card, not only a lack of evidence for it.
    is_evidence: bool,
}

impl SignatureReport {
    fn of(outcome: &Result<VerifiedCard, UntrustedReason>) -> Self {
        match outcome {
            Ok(VerifiedCard { kid, source, .. }) => {
                let from = match source {
                    CardKeySource::Given => "--trusted-keys".to_owned(),
                    CardKeySource::Certified => "its certificate".to_owned(),
                    CardKeySource::Registered(url) | CardKeySource::Fetched(url) => url.to_string(),
                };
                Self { text: format!("verified kid={kid} {from}"), is_evidence: false }
            }
            Err(UntrustedReason::Unsigned) => Self { text: "absent".to_owned(), is_evidence: false },
            Err(UntrustedReason::Unverifiable(reason)) => {
                Self { text: format!("unverifiable: {reason}"), is_evidence: reason.is_bad_signature() }
            }
            Err(distrust @ UntrustedReason::Uncovered(_)) => {
                Self { text: format!("unverifiable: {distrust}"), is_evidence: true }
            }
        }
    }
}

impl Session {
    /// The interface that would be called, for a person. A card that offers none is still worth showing.
    fn selected(&self, found: &DiscoveredCard) -> Option<String> {
        match self.choose(found) {
            Ok(chosen) => {
                let json = serde_json::to_string(&chosen.interface).ok()?;
                Some(render::interface(Node::new(&json)))
            }
            Err(error) => {
                self.out.warn(&error.to_string());
                None
            }
        }
    }
}
