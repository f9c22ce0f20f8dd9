//! `sabir agent rank`: which agent a dispatcher would choose for a message.

use super::{ServerFiles, block_on};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use clap::Args;
use sabir_server::rank::{MessageRanking, RankingMatch, rank};
use serde_json::{Map, Value, json};

/// Say which agents of a configuration fit a text, and why.
///
/// The ranking is the one of agents of kind "dispatch": a skill that is named decides, else tags, skills, examples,
/// name and description, in this order. No agent is called, and no server is needed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir agent rank 'Reconcile March'\n  \
    sabir agent rank 'A flight to Oslo' --config sabir.toml -o json\n  \
    sabir agent rank 'Anything' --skill reconcile\n\n\
    Exit code 0: one agent would get it. 1: the caller would be asked, or no agent fits.")]
pub(crate) struct AgentRank {
    /// What a caller might say.
    #[arg(value_name = "TEXT")]
    text: String,
    /// The agent of kind "dispatch" whose terms count; the first one if none is named.
    #[arg(long, value_name = "NAME")]
    desk: Option<String>,
    /// The skill that the message asks for.
    #[arg(long, value_name = "ID")]
    skill: Option<String>,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for AgentRank {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let ranked = block_on(rank(&config, self.desk.as_deref(), self.skill.as_deref(), &self.text))?;
        let ranked = ranked.map_err(|e| Problem::usage(e).hint("sabir agent rank --help"))?;
        let verdict = decision(&ranked);
        if out.is_json() {
            out.document(&ranking_json(&ranked).to_string())?;
        }
        out.text(|fields| {
            for fit in &ranked.fits {
                fields.field(&fit.key, &fit_line(fit));
            }
            fields.field("Decision", &verdict);
        })?;
        Ok(if ranked.chosen.len() == 1 { Exit::Done } else { Exit::Failed })
    }
}

fn decision(ranked: &MessageRanking) -> String {
    match (ranked.chosen.as_slice(), &ranked.fallback) {
        ([one], _) => format!("passed on to {one}"),
        ([], Some(fallback)) => format!("no agent fits; passed on to {fallback}"),
        ([], None) => "no agent fits; the caller is asked".into(),
        (several, _) => format!("the caller is asked: {}", several.join(", ")),
    }
}

fn fit_line(fit: &RankingMatch) -> String {
    let because: Vec<String> = fit.field_scores.iter().map(|(field, score)| format!("{field} {score:.1}")).collect();
    format!("{:.1} ({})", fit.score, because.join(", "))
}

fn ranking_json(ranked: &MessageRanking) -> Value {
    let fits = ranked.fits.iter().map(|fit| {
        let because: Map<String, Value> =
            fit.field_scores.iter().map(|(field, score)| ((*field).to_owned(), json!(score))).collect();
        json!({"agent": fit.key, "score": fit.score, "because": because})
    });
    json!({"ranking": fits.collect::<Vec<_>>(), "chosen": ranked.chosen, "fallback": ranked.fallback})
}
