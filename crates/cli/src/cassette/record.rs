//! `sabir record`: a cassette of what an agent says.
//!
//! A recorder stands between a client and the agent: it shows the agent's card with its own address in it, passes every
//! request on and every answer back, and writes both down. Without texts it waits for other people's clients; with texts
//! it has the conversation itself, over the same way, so that both make the same cassettes.

mod conversation;
mod recorder;

use super::{CassetteHead, CassetteWriter, card};
use crate::Invocation;
use crate::call::target::is_address;
use crate::call::{InterruptHandling, Session, TrustedCard, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use crate::render::Fields;
use clap::Args;
use recorder::{RecordedInterface, Recorder};
use sabir_client::Binding;
use sabir_server::local_server::LocalServer;
use serde_json::value::RawValue;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Record what an agent says, for replay and mock.
///
/// With texts, says them to the agent one after the other, in one conversation, and records that. Without, listens on this
/// machine and passes everything on to the agent: point a client at the address that is printed, and stop with Ctrl-C.
///
/// Credentials are not written to the cassette: headers are kept by a short list of harmless ones, and every secret of the
/// run is taken out of bodies. What is said is written down; a cassette is readable by you alone.
#[derive(Debug, Args)]
#[command(
    after_help = "JSON-RPC and HTTP+JSON are recorded; gRPC interfaces are left out of the card that is shown.\n\n\
    Examples:\n  \
    sabir record trip.cassette https://agent.example 'Plan a trip' 'Make it shorter'\n  \
    sabir record all.cassette https://agent.example --port 4100\n  \
    sabir mock trip.cassette\n  \
    sabir replay trip.cassette --against http://127.0.0.1:4000"
)]
pub(crate) struct Record {
    /// The cassette to write.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to say, a turn each, with the agent before it unless --agent-card names it. Without a text, record what others
    /// say.
    #[arg(value_names = ["AGENT", "TEXT"], num_args = 0..)]
    words: Vec<String>,
    /// Port to listen on; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Overwrite the file if it exists.
    #[arg(long)]
    force: bool,
}

impl Verb for Record {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.words().0)?;
        run_session(invocation, InterruptHandling::ByCommand, async |session| self.record(session).await)
    }
}

impl Record {
    /// The agent, if it was typed, and the texts.
    fn words(&self) -> (Option<&str>, &[String]) {
        match self.words.split_first() {
            Some((first, texts)) if is_address(first) => (Some(first), texts),
            _ => (None, &self.words),
        }
    }

    async fn record(&self, session: &Session) -> Outcome {
        let (_, texts) = self.words();
        let interrupts = signal(SignalKind::interrupt());
        let mut interrupts =
            interrupts.map_err(|error| Problem::internal(format!("cannot listen for Ctrl-C: {error}")))?;
        let found = session.require_trust(session.card().await?).await?;
        let interfaces = interfaces(session, &found).await?;
        let stage = LocalServer::open(self.port).await;
        let stage = stage.map_err(|error| {
            Problem::new(ErrorCode::Vendor("SABIR_ERR_SERVE"), format!("cannot listen on port {}: {error}", self.port))
                .hint("choose another --port, or 0 for any")
        })?;
        let base = format!("http://{}", stage.address());
        let places: Vec<usize> = interfaces.iter().map(|interface| interface.place).collect();
        let json = found.json();
        let shown = card::rewritten_card(&json, &places, &base);
        let agent = session.out.redactor.url(session.settings.agent_card.text().unwrap_or_default());
        let whole = RawValue::from_string(crate::output::compact(&json));
        let whole = whole.map_err(|error| Problem::internal(format!("the card is not JSON: {error}")))?;
        let writer = CassetteWriter::create(&self.file, self.force, &CassetteHead::new(agent, places, whole))?;
        let recorder = Arc::new(Recorder::new(interfaces, shown.clone(), writer, session.out.clone()));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = stage.run(recorder.clone(), async move { drop(stopped.await) });
        let work = async {
            let outcome = if texts.is_empty() {
                self.listening(session, &base)
            } else {
                conversation::converse(session, &shown, texts).await
            };
            match outcome {
                Ok(()) if texts.is_empty() => std::future::pending().await,
                outcome => outcome,
            }
        };
        let stopping = async {
            let outcome = tokio::select! {
                outcome = work => outcome,
                _ = interrupts.recv() => Ok(()),
            };
            recorder.stop();
            drop(stop);
            outcome
        };
        let ((), outcome) = tokio::join!(running, stopping);
        recorder.wait_until_written().await;
        self.report(session, &recorder)?;
        outcome.map(|()| Exit::Done)
    }

    fn listening(&self, session: &Session, base: &str) -> Result<(), Stop> {
        if session.out.is_json() {
            session.out.note(&format!("Listening: {base}"));
            return Ok(());
        }
        session.out.payload(&format!("Listening: {base}\n"))
    }

    fn report(&self, session: &Session, recorder: &Recorder) -> Result<(), Stop> {
        let (count, file) = (recorder.count(), self.file.display().to_string());
        if let Some(problem) = recorder.failure() {
            let words = format!("{file} is not complete: {problem}");
            return Err(Problem::new(ErrorCode::Vendor("SABIR_ERR_CASSETTE"), words).hint("free some space").into());
        }
        if session.out.is_json() {
            return session.out.document(&serde_json::json!({ "saved": file, "exchanges": count }).to_string());
        }
        let mut fields = Fields::new();
        fields.field("Exchanges", &count.to_string());
        fields.field("Saved", &file);
        session.out.fields(fields)
    }
}

/// The interfaces that can be recorded, each with a line to it.
async fn interfaces(session: &Session, found: &TrustedCard) -> Result<Vec<RecordedInterface>, Stop> {
    let mut interfaces = Vec::new();
    let mut refused = None;
    // Without a word about versions the newest is recorded, and not the older ones that the card offers beside it.
    let newest = match session.settings.a2a_version.text() {
        Some(_) => None,
        None => session.choose(found).ok().map(|chosen| chosen.dialect),
    };
    for (place, interface) in found.card.supported_interfaces.iter().enumerate() {
        let Ok(binding @ (Binding::JsonRpc | Binding::HttpJson)) = interface.protocol_binding.parse() else { continue };
        let mut only = found.clone();
        only.card.supported_interfaces = vec![interface.clone()];
        let spoken = session.choose(&only).ok().map(|chosen| chosen.dialect);
        if newest.is_some() && spoken.is_some() && spoken != newest {
            continue;
        }
        match session.unobserved_agent(only).await {
            Ok(agent) => interfaces.push(RecordedInterface { place, binding, agent }),
            Err(stop) => refused = refused.or(Some(stop)),
        }
    }
    match (interfaces.is_empty(), refused) {
        (false, _) => Ok(interfaces),
        (true, Some(stop)) => Err(stop),
        (true, None) => Err(Problem::new(ErrorCode::Internal, "the card offers neither JSON-RPC nor HTTP+JSON")
            .hint("only these two can be recorded")
            .into()),
    }
}
