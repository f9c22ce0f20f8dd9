//! `sabir card verify`.

use super::SignatureReport;
use crate::Invocation;
use crate::call::{InterruptHandling, Session, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use clap::Args;
use sabir_client::signature::{
    Authorities, CanonicalForm, CardKeySource, Jwks, TrustPolicy, UntrustedReason, VerifiedCard, verified_card,
};
use sabir_client::{AgentReference, DiscoveredCard};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use url::Url;

/// Check who vouches for a card.
///
/// The keys are those that were given, that a given authority vouches for, or that a given registry has for the card's
/// host; where none of these is given, those that the card's own host publishes. Exit code 1 unless a signature holds and
/// covers where the agent is and what it asks of its callers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir card verify https://agent.example\n  \
    sabir card verify signed.json --jwks jwks.json\n  \
    sabir card verify https://agent.example --ca ca.pem --registry https://keys.example/agents")]
pub(crate) struct CardVerify {
    /// The card: a host, a URL or a file. In place of --agent-card.
    #[arg(value_name = "CARD")]
    card: Option<String>,
    /// A key set, or one key, whose signatures count; repeatable.
    #[arg(long, value_name = "FILE")]
    jwks: Vec<PathBuf>,
    /// PEM file with authorities that may vouch for a signer's certificate.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A registry of keys: below this URL, the key set of each host.
    #[arg(long, value_name = "URL")]
    registry: Option<Url>,
}

impl Verb for CardVerify {
    fn run(self, invocation: Invocation) -> Outcome {
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

impl CardVerify {
    async fn execute(self, session: &Session) -> Outcome {
        let found = self.found(session).await?;
        let place = self.card.clone().unwrap_or_else(|| session.card_location(&found));
        let outcome = self.verify(session, &found).await?;
        let words = SignatureReport::of(&outcome).text;
        let VerifiedCard { kid, source, form, covered, .. } = outcome.map_err(|distrust| {
            let problem = Problem::new(ErrorCode::Vendor("SABIR_ERR_CARD_UNVERIFIED"), format!("{place}: {words}"));
            problem.hint(match distrust {
                UntrustedReason::Unsigned => "this card is not signed; its owner can sign it with sabir card sign",
                UntrustedReason::Uncovered(_) => {
                    "do not use this card: anyone who passed it on may have written that part"
                }
                UntrustedReason::Unverifiable(_) => "say whom you trust with --jwks FILE, --ca FILE or --registry URL",
            })
        })?;
        let (source, form) = (source_text(&source), form_text(form));
        if session.out.is_json() {
            let covered: serde_json::Value = serde_json::from_str(&covered).unwrap_or_default();
            let said = serde_json::json!({
                "card": place, "verified": true, "kid": kid, "keys": source, "reading": form, "covered": covered,
            });
            session.out.document(&said.to_string())?;
            return Ok(Exit::Done);
        }
        session.out.text(|fields| {
            fields.field("Card", &place);
            fields.field("Verified", "yes");
            fields.field("Key ID", &kid);
            fields.field("Keys", &source);
            fields.field("Reading", form);
            if session.out.verbose {
                fields.block("Covered", &crate::output::indented(&covered));
            }
        })?;
        Ok(Exit::Done)
    }

    async fn found(&self, session: &Session) -> Result<DiscoveredCard, crate::problem::Stop> {
        let Some(text) = &self.card else { return session.card().await };
        let reference = AgentReference::parse(text)
            .map_err(|error| Problem::usage(error.to_string()).hint("sabir card verify --help"))?;
        Ok(session.client.card(&reference).await.map_err(|error| session.problem(error, None))?)
    }

    async fn verify(
        &self,
        session: &Session,
        found: &DiscoveredCard,
    ) -> Result<Result<VerifiedCard, UntrustedReason>, Problem> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // A card that came from this machine without TLS has keys that come the same way.
        let plain_loopback = found.url.as_ref().is_some_and(|url| url.scheme() == "http");
        let authorities = match &self.ca {
            None => Authorities::default(),
            Some(path) => {
                let text = read("--ca", path)?;
                Authorities::parse(&text).map_err(|fault| usage_problem("--ca", path, &fault.to_string()))?
            }
        };
        let trust = TrustPolicy {
            card_url: found.url.clone(),
            authorities,
            registry: self.registry.clone(),
            roots_only: !self.jwks.is_empty() || self.ca.is_some() || self.registry.is_some(),
            plain_loopback,
            now,
            ..TrustPolicy::default()
        };
        if self.jwks.is_empty() {
            return Ok(verified_card(found, &trust, &session.client).await);
        }
        let mut last = Err(UntrustedReason::Unsigned);
        for path in &self.jwks {
            let keys = Jwks::parse_set_or_key(&read("--jwks", path)?);
            let keys = keys.map_err(|fault| usage_problem("--jwks", path, &fault.to_string()))?;
            last = verified_card(found, &TrustPolicy { keys, ..trust.clone() }, &session.client).await;
            if last.is_ok() {
                break;
            }
        }
        Ok(last)
    }
}

fn usage_problem(flag: &str, path: &Path, what: &str) -> Problem {
    Problem::usage(format!("{flag} {}: {what}", path.display())).hint("sabir card verify --help")
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Problem> {
    std::fs::read(path).map_err(|error| usage_problem(flag, path, &error.to_string()))
}

fn source_text(source: &CardKeySource) -> String {
    match source {
        CardKeySource::Given => "given".to_owned(),
        CardKeySource::Certified => "its certificate".to_owned(),
        CardKeySource::Registered(url) | CardKeySource::Fetched(url) => url.to_string(),
    }
}

/// The reading of the card that the signature covers, in words.
fn form_text(form: CanonicalForm) -> &'static str {
    match form {
        CanonicalForm::Specification => "A2A 1.0",
        CanonicalForm::Sdk => "SDK: no empty members, and none that A2A 1.0 does not know",
        CanonicalForm::AsReceived => "as received",
    }
}
