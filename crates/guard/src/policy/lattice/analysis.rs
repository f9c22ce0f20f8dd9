//! Analyses a whole graph of agents, before anything runs.
//!
//! Agents are vertices, delegations and handoffs are edges. `Scope(entry) = Scope₀ ∩ Caps(entry)`, and along each edge
//! `Scope(v) ∪= Scope(u) ∩ Caps(v)` until nothing is added: the union over all paths is what an agent *can* obtain on
//! some path, which is the right question for safety. Sets only grow and are bounded by what the agent can do, so this
//! ends whatever cycles there are. What an agent obtains on *every* path is the same walk with intersections.
//!
//! Media types are compared edge by edge: a capability crosses an edge where the types of both ends meet. Three agents
//! of which each two have types in common may have none together; then this reports more than can happen, never less.

mod bits;

use super::{Capabilities, MediaModes};
use bits::Bits;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An agent of a workflow.
#[derive(Debug, Clone, Default)]
pub struct WorkflowAgent {
    /// The capabilities of the agent.
    pub caps: Capabilities,
    /// All capabilities it may ever have; `None` for no such list.
    pub allow: Option<BTreeSet<String>>,
    /// The organisation that runs it, where that is known.
    pub organisation: Option<String>,
    /// Whether its card has a valid signature.
    pub signed: bool,
}

/// How work goes from one agent to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeKind {
    /// The first agent keeps its task and waits.
    Delegation,
    /// The task leaves.
    Handoff,
}

/// One way that work may go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct WorkflowEdge {
    /// The agent that the work comes from.
    pub from: String,
    /// The agent that the work goes to.
    pub to: String,
    /// How the work goes there.
    pub kind: EdgeKind,
    /// The capabilities that the work needs; empty where that is not known.
    pub required: BTreeSet<String>,
}

/// A graph of agents with the place where work comes in.
#[derive(Debug, Clone, Default)]
pub struct Workflow {
    /// The agent where work comes in.
    pub entry: String,
    /// The capabilities that come in with the work.
    pub scope: BTreeSet<String>,
    /// The agents of the workflow, by name.
    pub agents: BTreeMap<String, WorkflowAgent>,
    /// The ways from agent to agent.
    pub edges: Vec<WorkflowEdge>,
}

/// A workflow that names an agent which is not in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} names the agent {name:?}, which is not in the workflow")]
pub struct UnknownAgent {
    /// The place in the workflow that has the name.
    pub place: String,
    /// The name of the unknown agent.
    pub name: String,
}

/// What was found. The first four are violations, the others are worth a look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WorkflowReport {
    /// What each agent that can be reached can obtain.
    pub effective: BTreeMap<String, Vec<String>>,
    /// Agents that can obtain what their list excludes.
    pub violations: Vec<ScopeViolation>,
    /// Edges that can never be taken: what they need never arrives.
    pub dead_edges: Vec<EdgeShortfall>,
    /// Agents that can hand a task round in a circle.
    pub handoff_cycles: Vec<Vec<String>>,
    /// Agents of another organisation whose card is not signed.
    pub unsigned: Vec<UnsignedCard>,
    /// Edges that can be taken on some paths and not on others.
    pub risky_edges: Vec<EdgeShortfall>,
    /// Agents to which no path leads.
    pub unreachable: Vec<String>,
    /// Capabilities of agents that no work needs, neither what comes to them nor what goes on from them.
    pub over_provisioned: BTreeMap<String, Vec<String>>,
}

/// An agent that can obtain more than it may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopeViolation {
    /// The name of the agent.
    pub agent: String,
    /// The capabilities that its list excludes.
    pub disallowed: Vec<String>,
    /// A path on which each arrives.
    pub paths: BTreeMap<String, Vec<String>>,
}

/// An edge that lacks a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EdgeShortfall {
    /// The edge that lacks it.
    #[serde(flatten)]
    pub edge: WorkflowEdge,
    /// The capabilities that may be absent. Where each can arrive but not all on one path, all are listed.
    pub missing: Vec<String>,
}

/// A card without a signature, across organisations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnsignedCard {
    /// The agent whose card it is.
    pub agent: String,
    /// The agent that sends work there from elsewhere.
    pub from: String,
}

impl WorkflowReport {
    /// Whether there are violations.
    pub fn has_violations(&self) -> bool {
        !self.violations.is_empty()
            || !self.dead_edges.is_empty()
            || !self.handoff_cycles.is_empty()
            || !self.unsigned.is_empty()
    }

    /// Whether there are warnings.
    pub fn has_warnings(&self) -> bool {
        !self.risky_edges.is_empty() || !self.unreachable.is_empty() || !self.over_provisioned.is_empty()
    }
}

impl Workflow {
    /// The names of all capabilities in it, for wildcards to be expanded against.
    pub fn known_names(&self) -> BTreeSet<String> {
        self.agents.values().flat_map(|agent| agent.caps.names()).map(str::to_owned).collect()
    }

    /// Analyses the whole workflow.
    pub fn analyse(&self) -> Result<WorkflowReport, UnknownAgent> {
        let graph = Graph::of(self)?;
        let most = graph.possible_scopes();
        let least = graph.guaranteed_scopes(&most);
        let mut report = WorkflowReport { handoff_cycles: graph.handoff_cycles(), ..WorkflowReport::default() };
        for (v, scope) in most.iter().enumerate() {
            let name = graph.names[v].to_owned();
            match scope {
                None => report.unreachable.push(name),
                Some(scope) => {
                    report.violations.extend(graph.violation(v, scope));
                    report.effective.insert(name, graph.words(scope));
                }
            }
        }
        for edge in graph.edges.iter().filter(|edge| most[edge.from].is_some()) {
            if graph.is_unsigned(edge) {
                let (agent, from) = (graph.names[edge.to].to_owned(), graph.names[edge.from].to_owned());
                report.unsigned.push(UnsignedCard { agent, from });
            }
            let here = most[edge.from].as_ref().map_or_else(|| graph.none(), |scope| scope.and(&edge.crosses));
            let missing = edge.required.without(&here);
            if !missing.is_empty() || !graph.is_obtainable(&edge.required, edge.from) {
                let missing = graph.words(if missing.is_empty() { &edge.required } else { &missing });
                report.dead_edges.push(EdgeShortfall { edge: edge.source.clone(), missing });
                continue;
            }
            let sure = least[edge.from].as_ref().map_or_else(|| graph.none(), |scope| scope.and(&edge.crosses));
            let missing = edge.required.without(&sure);
            if !missing.is_empty() {
                report.risky_edges.push(EdgeShortfall { edge: edge.source.clone(), missing: graph.words(&missing) });
            }
        }
        report.over_provisioned = graph.unneeded_capabilities(&most);
        Ok(report)
    }
}

/// A workflow with numbers for names.
struct Graph<'a> {
    names: Vec<&'a str>,
    vertices: Vec<&'a WorkflowAgent>,
    /// Names of capabilities; bit `i` stands for the one at `i`.
    words: Vec<&'a str>,
    caps: Vec<Bits>,
    entry: usize,
    scope: Bits,
    edges: Vec<GraphEdge<'a>>,
}

struct GraphEdge<'a> {
    from: usize,
    to: usize,
    /// What the target can do, and the media types of both ends let through.
    crosses: Bits,
    required: Bits,
    source: &'a WorkflowEdge,
}

impl<'a> Graph<'a> {
    fn of(workflow: &'a Workflow) -> Result<Self, UnknownAgent> {
        let names: Vec<&str> = workflow.agents.keys().map(String::as_str).collect();
        let vertices: Vec<&WorkflowAgent> = workflow.agents.values().collect();
        let at = |place: &dyn Fn() -> String, name: &str| {
            names.binary_search(&name).map_err(|_| UnknownAgent { place: place(), name: name.to_owned() })
        };
        let mut words: BTreeSet<&str> = vertices.iter().flat_map(|vertex| vertex.caps.names()).collect();
        words.extend(workflow.scope.iter().map(String::as_str));
        words.extend(workflow.edges.iter().flat_map(|edge| edge.required.iter().map(String::as_str)));
        let words: Vec<&str> = words.into_iter().collect();
        let set = |list: &mut dyn Iterator<Item = &str>| {
            let mut bits = Bits::none(words.len());
            list.filter_map(|word| words.binary_search(&word).ok()).for_each(|i| bits.set(i));
            bits
        };
        let caps = vertices.iter().map(|vertex| set(&mut vertex.caps.names())).collect();
        let entry = at(&|| "entry".into(), &workflow.entry)?;
        let mut edges = Vec::with_capacity(workflow.edges.len());
        for edge in &workflow.edges {
            let place = || format!("the edge {} → {}", edge.from, edge.to);
            let (from, to) = (at(&place, &edge.from)?, at(&place, &edge.to)?);
            let (theirs, ours) = (&vertices[to].caps, &vertices[from].caps);
            let meets = |word: &&str| match (theirs.media(word), ours.media(word)) {
                (Some(theirs), Some(ours)) => MediaModes::meet(theirs, ours).is_some(),
                _ => false,
            };
            let crosses = set(&mut theirs.names().filter(meets));
            let required = set(&mut edge.required.iter().map(String::as_str));
            edges.push(GraphEdge { from, to, crosses, required, source: edge });
        }
        let scope = set(&mut workflow.scope.iter().map(String::as_str));
        Ok(Self { names, vertices, caps, entry, scope, edges, words })
    }

    fn none(&self) -> Bits {
        Bits::none(self.words.len())
    }

    fn words(&self, bits: &Bits) -> Vec<String> {
        bits.iter().map(|i| self.words[i].to_owned()).collect()
    }

    fn edges_from(&self, vertex: usize) -> impl Iterator<Item = &GraphEdge<'a>> {
        self.edges.iter().filter(move |edge| edge.from == vertex)
    }

    /// What each agent can obtain on some path; `None` for one that no path leads to.
    fn possible_scopes(&self) -> Vec<Option<Bits>> {
        let mut scopes: Vec<Option<Bits>> = vec![None; self.names.len()];
        scopes[self.entry] = Some(self.scope.and(&self.caps[self.entry]));
        let mut due = VecDeque::from([self.entry]);
        while let Some(u) = due.pop_front() {
            let Some(scope) = scopes[u].clone() else { continue };
            for edge in self.edges_from(u) {
                let brought = scope.and(&edge.crosses);
                let grown = match &mut scopes[edge.to] {
                    Some(known) => known.add(&brought),
                    unknown => {
                        *unknown = Some(brought);
                        true
                    }
                };
                if grown {
                    due.push_back(edge.to);
                }
            }
        }
        scopes
    }

    /// What each agent obtains on every path. Begins with the most it can have and takes away until nothing changes.
    fn guaranteed_scopes(&self, most: &[Option<Bits>]) -> Vec<Option<Bits>> {
        let mut scopes = most.to_vec();
        let mut due: VecDeque<usize> = (0..self.names.len()).filter(|v| most[*v].is_some()).collect();
        while let Some(u) = due.pop_front() {
            let Some(scope) = scopes[u].clone() else { continue };
            for edge in self.edges_from(u) {
                let brought = scope.and(&edge.crosses);
                if scopes[edge.to].as_mut().is_some_and(|known| known.keep(&brought)) {
                    due.push_back(edge.to);
                }
            }
        }
        scopes
    }

    /// A path from the entry to an agent on which all of these arrive together; the agents on it.
    fn path(&self, needed: &Bits, to: usize) -> Option<Vec<String>> {
        if !needed.without(&self.scope.and(&self.caps[self.entry])).is_empty() {
            return None;
        }
        let mut came_from: Vec<Option<usize>> = vec![None; self.names.len()];
        came_from[self.entry] = Some(self.entry);
        let mut due = VecDeque::from([self.entry]);
        while let Some(u) = due.pop_front() {
            for edge in self.edges_from(u) {
                if came_from[edge.to].is_none() && needed.without(&edge.crosses).is_empty() {
                    came_from[edge.to] = Some(u);
                    due.push_back(edge.to);
                }
            }
        }
        let mut path = vec![to];
        let mut at = to;
        while at != self.entry {
            at = came_from[at]?;
            path.push(at);
        }
        Some(path.into_iter().rev().map(|v| self.names[v].to_owned()).collect())
    }

    fn is_obtainable(&self, needed: &Bits, at: usize) -> bool {
        self.path(needed, at).is_some()
    }

    fn violation(&self, v: usize, scope: &Bits) -> Option<ScopeViolation> {
        let allow = self.vertices[v].allow.as_ref()?;
        let mut excluded = self.none();
        scope.iter().filter(|i| !allow.contains(self.words[*i])).for_each(|i| excluded.set(i));
        if excluded.is_empty() {
            return None;
        }
        let paths = excluded.iter().filter_map(|i| {
            let mut one = self.none();
            one.set(i);
            Some((self.words[i].to_owned(), self.path(&one, v)?))
        });
        let (agent, disallowed) = (self.names[v].to_owned(), self.words(&excluded));
        Some(ScopeViolation { agent, disallowed, paths: paths.collect() })
    }

    fn is_unsigned(&self, edge: &GraphEdge<'_>) -> bool {
        let (from, to) = (self.vertices[edge.from], self.vertices[edge.to]);
        !to.signed && to.organisation.is_some() && from.organisation != to.organisation
    }

    /// Groups of agents that can hand a task round: strongly connected by handoffs, or one that hands to itself.
    fn handoff_cycles(&self) -> Vec<Vec<String>> {
        let handoffs = || self.edges.iter().filter(|edge| edge.source.kind == EdgeKind::Handoff);
        let reach = |from: usize, back: bool| {
            let mut seen = vec![false; self.names.len()];
            let mut due = vec![from];
            while let Some(u) = due.pop() {
                for edge in handoffs() {
                    let (here, there) = if back { (edge.to, edge.from) } else { (edge.from, edge.to) };
                    if here == u && !std::mem::replace(&mut seen[there], true) {
                        due.push(there);
                    }
                }
            }
            seen
        };
        let mut grouped = vec![false; self.names.len()];
        let mut cycles = Vec::new();
        for v in 0..self.names.len() {
            if grouped[v] {
                continue;
            }
            let (onward, backward) = (reach(v, false), reach(v, true));
            let group: Vec<usize> = (0..self.names.len()).filter(|u| onward[*u] && backward[*u]).collect();
            group.iter().for_each(|u| grouped[*u] = true);
            if !group.is_empty() {
                cycles.push(group.into_iter().map(|u| self.names[u].to_owned()).collect());
            }
        }
        cycles
    }

    /// Capabilities that agents can obtain and nothing needs: not the work that comes to them, nor what goes on from
    /// there. Only of agents whose edges all have requirements: an edge without any may need anything.
    fn unneeded_capabilities(&self, most: &[Option<Bits>]) -> BTreeMap<String, Vec<String>> {
        let reached = || self.edges.iter().filter(|edge| most[edge.from].is_some());
        let mut needed: Vec<Bits> = vec![self.none(); self.names.len()];
        for edge in reached() {
            needed[edge.to].add(&edge.required);
            needed[edge.from].add(&edge.required);
        }
        let mut grown = true;
        while grown {
            grown = false;
            for edge in reached() {
                let onward = needed[edge.to].and(&self.caps[edge.from]);
                grown |= needed[edge.from].add(&onward);
            }
        }
        let mut found = BTreeMap::new();
        for (v, scope) in most.iter().enumerate() {
            let Some(scope) = scope else { continue };
            let mut touching = reached().filter(|edge| edge.to == v || edge.from == v).peekable();
            // What incoming work needs of the first agent itself is not known.
            let said = v != self.entry && touching.peek().is_some() && touching.all(|edge| !edge.required.is_empty());
            let spare = scope.without(&needed[v]);
            if said && !spare.is_empty() {
                found.insert(self.names[v].to_owned(), self.words(&spare));
            }
        }
        found
    }
}
