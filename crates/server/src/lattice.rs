//! Workflow files for `sabir lattice check`: the agents, their capabilities, and the paths of work.
//!
//! ```toml
//! entry = "triage"                     # where work enters
//! scope = ["triage", "billing.*"]      # what its sender grants
//!
//! [agents.triage]
//! capabilities = ["triage", "billing.refund"]
//!
//! [agents.billing]
//! card = "billing-card.json"           # or from a card; relative to this file
//! allow = ["billing.refund"]           # the most it may ever be granted
//!
//! [[edges]]
//! from = "triage"
//! to = "billing"
//! kind = "handoff"                     # or "delegation"
//! required = ["billing.refund"]        # what the work that goes there needs
//! ```

pub use sabir_guard::policy::lattice::analysis::{
    EdgeKind, EdgeShortfall, ScopeViolation, UnsignedCard, WorkflowEdge, WorkflowReport,
};
use sabir_guard::policy::lattice::analysis::{Workflow, WorkflowAgent};
use sabir_guard::policy::lattice::{Capabilities, expand, is_name};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Largest workflow or card that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of agents, and of edges, in a workflow.
const ENTRIES_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkflowFile {
    entry: String,
    scope: Vec<String>,
    agents: BTreeMap<String, AgentSection>,
    #[serde(default)]
    edges: Vec<EdgeSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentSection {
    #[serde(default)]
    capabilities: Vec<String>,
    card: Option<String>,
    allow: Option<Vec<String>>,
    organisation: Option<String>,
    signed: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeSection {
    from: String,
    to: String,
    kind: EdgeKind,
    #[serde(default)]
    required: Vec<String>,
}

/// Reads and analyses a workflow. An error names the place in the file that is wrong.
pub fn check(path: &Path) -> Result<WorkflowReport, String> {
    let text = read(path)?;
    let file: WorkflowFile = toml::from_str(&text).map_err(|error| error.to_string())?;
    if file.agents.len().max(file.edges.len()) > ENTRIES_MAX {
        return Err(format!("a workflow has at most {ENTRIES_MAX} agents, and as many edges"));
    }
    let base = path.parent().unwrap_or(Path::new(""));
    let mut agents = BTreeMap::new();
    let mut allowed = BTreeMap::new();
    for (name, agent) in file.agents {
        let at = |what: String| format!("agents.{name}: {what}");
        let (vertex, allow) = agent.vertex(base).map_err(at)?;
        allowed.extend(allow.map(|allow| (name.clone(), allow)));
        agents.insert(name, vertex);
    }
    let mut workflow = Workflow { entry: file.entry, agents, ..Workflow::default() };
    // Wildcards cover the names that are known now, and none that is added later.
    let known = workflow.known_names();
    let grants = |place: &str, list: &[String]| {
        expand(list.iter().map(String::as_str), &known).map_err(|fault| format!("{place}: {fault}"))
    };
    workflow.scope = grants("scope", &file.scope)?;
    for (name, allow) in allowed {
        let allow = grants(&format!("agents.{name}.allow"), &allow)?;
        workflow.agents.entry(name).and_modify(|vertex| vertex.allow = Some(allow));
    }
    for edge in file.edges {
        let EdgeSection { from, to, kind, required } = edge;
        if let Some(odd) = required.iter().find(|name| !is_name(name)) {
            return Err(format!("the edge {from} → {to} requires {odd:?}, which is no name of a capability"));
        }
        workflow.edges.push(WorkflowEdge { from, to, kind, required: required.into_iter().collect::<BTreeSet<_>>() });
    }
    workflow.analyse().map_err(|unknown| unknown.to_string())
}

impl AgentSection {
    /// Its capabilities, and the grants of its list.
    fn vertex(self, base: &Path) -> Result<(WorkflowAgent, Option<Vec<String>>), String> {
        let Self { capabilities, card, allow, organisation, signed } = self;
        if let Some(odd) = capabilities.iter().find(|name| !is_name(name)) {
            return Err(format!("{odd:?} is no name of a capability"));
        }
        let mut vertex =
            WorkflowAgent { caps: Capabilities::named(capabilities), organisation, ..WorkflowAgent::default() };
        if let Some(card) = card {
            if !vertex.caps.is_empty() {
                return Err("has capabilities and a card; one of them says what it can do".into());
            }
            let path = base.join(&card);
            let wrong = |what: String| format!("card {card}: {what}");
            let text = read(&path).map_err(wrong)?;
            let read = sabir_wire::card::read(text.as_bytes()).map_err(|fault| wrong(fault.to_string()))?.card;
            vertex.caps = Capabilities::of_card(&read);
            vertex.signed = !read.signatures.is_empty();
            vertex.organisation = vertex.organisation.or(read.provider.map(|provider| provider.organization));
        }
        vertex.signed = signed.unwrap_or(vertex.signed);
        Ok((vertex, allow))
    }
}

fn read(path: &Path) -> Result<String, String> {
    let about = |what: String| format!("{}: {what}", path.display());
    let size = std::fs::metadata(path).map_err(|error| about(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(about(format!("has {size} bytes, over the limit of {FILE_BYTES_MAX}")));
    }
    std::fs::read_to_string(path).map_err(|error| about(error.to_string()))
}
