//! `sabir lattice check`.

use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::lattice::{EdgeKind, EdgeShortfall, WorkflowReport, check};
use std::path::PathBuf;

/// Check what the agents of a workflow can grant each other, before anything runs.
///
/// The file lists agents with what they can do, and the edges along which work goes: delegations and handoffs. No agent
/// passes on along an edge what it does not hold: what arrives is what was held before and what the next agent can do.
/// The check follows that along every way and finds agents that can obtain what their allow list excludes, edges that
/// can never be taken, handoffs that go round in a circle, and cards of other organisations without a signature. Edges
/// that fail on some ways, agents that no way leads to and grants that nothing needs are worth a look.
///
/// Ends with 0 if nothing is wrong, with 1 if something is, and with 2 for a file that cannot be read. Calls no agent.
#[derive(Debug, Args)]
#[command(after_help = "A workflow:\n  \
    entry = \"triage\"\n  \
    scope = [\"triage\", \"billing.*\"]\n\n  \
    [agents.triage]\n  \
    capabilities = [\"triage\", \"billing.refund\"]\n\n  \
    [agents.billing]\n  \
    card = \"billing-card.json\"\n  \
    allow = [\"billing.refund\"]\n\n  \
    [[edges]]\n  \
    from = \"triage\"\n  \
    to = \"billing\"\n  \
    kind = \"handoff\"\n  \
    required = [\"billing.refund\"]\n\n\
    Examples:\n  \
    sabir lattice check workflow.toml\n  \
    sabir lattice check workflow.toml -o json | jq .violations\n  \
    sabir lattice check workflow.toml --strict       in CI, where warnings count")]
pub(crate) struct LatticeCheck {
    /// The workflow, a TOML file; cards in it are relative to it.
    file: PathBuf,
    /// What is only worth a look counts as wrong.
    #[arg(long)]
    strict: bool,
}

impl Verb for LatticeCheck {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let report = check(&self.file).map_err(|what| {
            Problem::usage(format!("{}: {}", self.file.display(), what.trim_end())).hint("sabir lattice check --help")
        })?;
        let wrong = report.has_violations() || (self.strict && report.has_warnings());
        if out.is_json() {
            let mut json = serde_json::to_value(&report).map_err(|error| Problem::internal(error.to_string()))?;
            json["clean"] = (!wrong).into();
            out.document(&json.to_string())?;
        } else {
            out.text(|fields| write_report(&report, wrong, fields))?;
        }
        Ok(if wrong { Exit::Failed } else { Exit::Done })
    }
}

fn write_report(report: &WorkflowReport, wrong: bool, fields: &mut Fields) {
    fields.field("Clean", if wrong { "no" } else { "yes" });
    for found in &report.violations {
        for (capability, path) in &found.paths {
            let words = format!("{} can obtain {capability}, by way of {}", found.agent, path.join(" → "));
            fields.field("Violation", &words);
        }
    }
    for lacking in &report.dead_edges {
        fields.field("Dead edge", &format!("{}; {} never arrives", edge_line(lacking), lacking.missing.join(", ")));
    }
    for cycle in &report.handoff_cycles {
        fields.field("Handoff cycle", &cycle.join(", "));
    }
    for found in &report.unsigned {
        let words = format!("{}, which {} of another organisation sends work to", found.agent, found.from);
        fields.field("Unsigned card", &words);
    }
    for lacking in &report.risky_edges {
        let words = format!("{}; {} does not arrive on every way", edge_line(lacking), lacking.missing.join(", "));
        fields.field("Risky edge", &words);
    }
    for agent in &report.unreachable {
        fields.field("Unreachable", agent);
    }
    for (agent, spare) in &report.over_provisioned {
        fields.field("Not needed", &format!("{} at {agent}", spare.join(", ")));
    }
    for (agent, scope) in &report.effective {
        fields.field("Can obtain", &format!("{agent}: {}", scope.join(", ")));
    }
}

fn edge_line(lacking: &EdgeShortfall) -> String {
    let kind = match lacking.edge.kind {
        EdgeKind::Delegation => "delegation",
        EdgeKind::Handoff => "handoff",
    };
    format!("{} → {} ({kind})", lacking.edge.from, lacking.edge.to)
}
