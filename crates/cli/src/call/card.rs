//! `sabir card get`, `sabir card verify`.

mod validate;
mod verify;

pub(crate) use verify::CardVerify;

use super::target::AgentArgument;
use super::{Interrupts, Session, drive};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Code, Outcome, Problem};
use crate::render::{self, CardContext, Fields, Node};
use clap::Args;
use sabir_client::Found;
use sabir_client::signature::{Distrust, Source, Vouched, vouched};
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
        drive(invocation, Interrupts::Detach, async |session| self.go(session).await)
    }
}

impl CardGet {
    async fn go(self, session: &Session) -> Outcome {
        session.reference()?;
        let found = session.card().await?;
        let place = session.place(&found);
        let found = if self.extended {
            let public = session.require_trust(found).await?;
            let url = public.url.clone();
            let agent = session.connect_to(public).await?;
            let said = agent.extended_card().await.map_err(|error| session.failed(error))?;
            let read =
                Found::read(said.as_received().as_bytes(), url, &place).map_err(|error| session.failed(error))?;
            session.require_trust(read).await?.into_found()
        } else {
            found
        };
        let (found, signature) = verify_signatures(session, found).await?;
        let json = with_xpr(found.json(), found.xpr.as_ref());
        let mut faults = if self.validate { validate::faults(&found) } else { Vec::new() };
        if self.validate && signature.wrong {
            faults.push(format!("signatures: {}", signature.words));
        }
        if !faults.is_empty() {
            return Err(card_invalid(&place, &faults).into());
        }
        let selected = session.selected(&found);
        let about = CardContext {
            place: Some(&place),
            selected: selected.as_deref(),
            valid: self.validate.then_some("yes"),
            signature: Some(&signature.words),
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
    Problem::new(Code::CardInvalid, message)
        .hint(format!("mend the card; sabir doctor {} looks further", render::shell(place)))
}

/// Verifies the signatures of a card, and returns the part of the card that may be used. A wrong signature gives a
/// warning, a missing one does not.
async fn verify_signatures(session: &Session, found: Found) -> Result<(Found, SignatureReport), Problem> {
    let trust = super::trust::roots(&session.settings, &found)?;
    let outcome = vouched(&found, &trust, &session.client).await;
    let signature = SignatureReport::of(&outcome);
    if signature.wrong {
        session.out.warn(&format!("the card cannot be trusted: {}", signature.words));
    }
    Ok((outcome.map_or(found, |vouched| vouched.found), signature))
}

/// The outcome of a verification, for people.
struct SignatureReport {
    words: String,
    /// Evidence against the card, not only a lack of evidence for it.
    wrong: bool,
}

impl SignatureReport {
    fn of(outcome: &Result<Vouched, Distrust>) -> Self {
        match outcome {
            Ok(Vouched { kid, source, .. }) => {
                let from = match source {
                    Source::Given => "--trusted-keys".to_owned(),
                    Source::Certified => "its certificate".to_owned(),
                    Source::Registered(url) | Source::Fetched(url) => url.to_string(),
                };
                Self { words: format!("verified kid={kid} {from}"), wrong: false }
            }
            Err(Distrust::Unsigned) => Self { words: "absent".to_owned(), wrong: false },
            Err(Distrust::Unverifiable(reason)) => {
                Self { words: format!("unverifiable: {reason}"), wrong: reason.is_wrong() }
            }
            Err(distrust @ Distrust::Uncovered(_)) => Self { words: format!("unverifiable: {distrust}"), wrong: true },
        }
    }
}

impl Session {
    /// The interface that would be called, for a person. A card that offers none is still worth showing.
    fn selected(&self, found: &Found) -> Option<String> {
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
