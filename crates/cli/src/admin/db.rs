//! `sabir db …`: looking after the files of a server.

use super::span::span;
use super::{ServerFiles, problem, progress_reporter, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use clap::Args;
use sabir_proto::AgentName;
use sabir_server::admin::{self, CheckReport};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Check that the files of a server are whole, while it runs or not.
///
/// SQLite's pages and indexes; every task with its owner, its state, its text and its events without a gap; the
/// counters; rows of tasks that are not there; the chain of the audit. Nothing is repaired: what is damaged comes back
/// from a copy. Exit code 1 if anything is wrong.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir db check\n  \
    sabir db check --data /srv/sabir -o json")]
pub(crate) struct DbCheck {
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for DbCheck {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let checked = admin::check(&config, &mut progress_reporter(&out)).map_err(problem)?;
        let whole = checked.is_whole();
        let CheckReport { tasks, events, audit, problems, more } = checked;
        out.clear_progress();
        if out.is_json() {
            let said = json!({
                "whole": whole, "tasks": tasks, "events": events, "auditEntries": audit, "problems": problems, "more": more,
            });
            out.document(&said.to_string())?;
        } else {
            out.text(|fields| {
                fields.field("Whole", if whole { "yes" } else { "no" });
                fields.field("Tasks", &tasks.to_string());
                fields.field("Events", &events.to_string());
                fields.field("Audit entries", &audit.to_string());
                problems.iter().for_each(|problem| fields.field("Problem", problem));
                if more > 0 {
                    fields.field("More problems", &more.to_string());
                }
            })?;
        }
        if !whole {
            out.note("bring the store back from a copy with sabir restore; what is there is kept under another name");
            return Ok(Exit::Failed);
        }
        Ok(Exit::Done)
    }
}

/// Forget tasks that settled long ago, while no server runs.
///
/// A task goes with its events, notes, names and push configurations. Tasks that have not settled stay, and so do those
/// whose events still wait for a webhook. A server that runs does this by itself: see [retention] in its configuration.
/// With --dry-run nothing is forgotten, and a server may run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir db prune --older-than 30d --dry-run\n  \
    sabir db prune --older-than 12w --agent demo --compact")]
pub(crate) struct DbPrune {
    /// How long ago the last status must be: 30d, 12w, 1y.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    older_than: Duration,
    /// Only tasks of this agent.
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only count them.
    #[arg(long)]
    dry_run: bool,
    /// Make the file small afterwards; needs as much room again while it works.
    #[arg(long, conflicts_with = "dry_run")]
    compact: bool,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for DbPrune {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let agent = self.agent.as_deref().map(AgentName::parse).transpose();
        let agent = agent.map_err(|fault| Problem::usage(format!("--agent: the name {fault}")))?;
        let config = self.server.config()?;
        let mut counts = admin::prunable(&config, self.older_than).map_err(problem)?;
        counts.retain(|(name, _)| agent.as_ref().is_none_or(|agent| agent == name));
        let mut tasks = counts.iter().map(|(_, count)| count).sum();
        if !self.dry_run {
            let mut told = |done: u64| {
                if out.shows_progress() {
                    out.bar(done, tasks, "tasks forgotten");
                }
            };
            tasks = wait(admin::prune(&config, self.older_than, agent.as_ref(), self.compact, &mut told))?;
        }
        let label = if self.dry_run { "Would be forgotten" } else { "Forgotten" };
        if out.is_json() {
            let agents: Map<String, Value> = counts.iter().map(|(name, n)| (name.to_string(), json!(n))).collect();
            out.document(&json!({"dryRun": self.dry_run, "tasks": tasks, "agents": agents}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            counts.iter().for_each(|(name, count)| fields.field("Agent", &format!("{name}: {count}")));
            fields.field(label, &tasks.to_string());
        })?;
        Ok(Exit::Done)
    }
}
