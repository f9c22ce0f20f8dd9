//! Lineage: the tree that a task belongs to, and the agents that precede it.
//!
//! Within one server the log stores it. Between servers it travels in message metadata, under [`LINEAGE`]. An incoming
//! lineage is a claim of the sender: it is used to count and to refuse, and never grants anything. A sender that lies
//! can only get its own message refused, or be counted as the first of the chain.
//!
//! An agent on the path is written as its name, `#`, and its task. So a request that returns to us is recognised by one
//! of our own tasks in its path, whatever address it came by.

use crate::agent::{Context, TurnInfo};
use crate::engine::{Core, Engine};
use crate::incoming::IncomingMessage;
use crate::subtasks::budget::ExceededLimit;
use sabir_proto::{AgentName, Fault, Json, Object, ServiceParameters, Task, TaskId, ToolMode};
use sabir_store::{ParentLink, StoreError, StoredTask};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use sabir_proto::LINEAGE;

/// The most agents of a foreign path that are kept; further ones only count.
const PATH_MAX: usize = 64;
/// The longest claim in a header, in bytes.
const HEADER_BYTES_MAX: usize = 4096;
/// The longest path entry or foreign root, in characters.
const NAME_CHARS_MAX: usize = 256;

/// The position of a task in its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    root: TaskId,
    parent: Option<TaskId>,
    hops: u32,
    path: Vec<Arc<str>>,
    origin: Option<Arc<str>>,
    readonly: bool,
}

impl Lineage {
    /// The lineage of a task without a parent. Cheap, since nearly all tasks are such.
    pub(crate) const fn without_parent(task: TaskId) -> Self {
        Self { root: task, parent: None, hops: 0, path: Vec::new(), origin: None, readonly: false }
    }

    /// The lineage of a child.
    pub(crate) fn of_child(kin: &ParentLink) -> Self {
        let ParentLink { parent, root, hops, path, origin, readonly, .. } = kin.clone();
        Self { root, parent: Some(parent), hops, path, origin, readonly }
    }

    /// Reads the claim in a message for the task that it opens; `None` without a valid claim.
    fn from_claim(metadata: Option<&Object>, task: TaskId) -> Option<Self> {
        let Some(Value::Object(claim)) = metadata?.get(LINEAGE) else { return None };
        let short = |value: &Value| {
            let text = value.as_str().filter(|text| !text.is_empty())?;
            Some(Arc::from(text.chars().take(NAME_CHARS_MAX).collect::<String>()))
        };
        let path: Vec<Arc<str>> = match claim.get("path") {
            Some(Value::Array(agents)) => agents.iter().filter_map(short).collect(),
            _ => Vec::new(),
        };
        // A sender that does not count has passed at least the agents that it names.
        let named = u32::try_from(path.len()).unwrap_or(u32::MAX);
        let said = claim.get("hops").and_then(Value::as_u64).map_or(0, |hops| u32::try_from(hops).unwrap_or(u32::MAX));
        let hops = said.max(named);
        let path = path.split_at(path.len().saturating_sub(PATH_MAX)).1.to_vec();
        let origin = claim.get("root").and_then(short);
        Some(Self { root: task, parent: None, hops, path, origin, readonly: false })
    }

    /// Sets the root of a task without a parent to the task itself.
    pub(crate) fn with_root(mut self, task: TaskId) -> Self {
        if self.parent.is_none() {
            self.root = task;
        }
        self
    }

    /// The task at the top of the family on this server; a task without a parent is its own root.
    pub const fn root(&self) -> TaskId {
        self.root
    }

    /// The parent task, if this is a child.
    pub const fn parent(&self) -> Option<TaskId> {
        self.parent
    }

    /// The number of agents before this one, here and on other servers.
    pub const fn hops(&self) -> u32 {
        self.hops
    }

    /// The agents before this one, farthest first, each as `name#task`.
    pub fn path(&self) -> &[Arc<str>] {
        &self.path
    }

    /// The id of the tree's root on the server where it began.
    pub fn origin(&self) -> String {
        self.origin.as_deref().map_or_else(|| self.root.to_string(), ToOwned::to_owned)
    }

    /// What tools may do: never more than those of the parent.
    pub(crate) const fn tools(&self, own: ToolMode) -> ToolMode {
        if self.readonly { ToolMode::ReadOnly } else { own }
    }

    /// The parent link of a new child of the current turn.
    pub(super) fn child(&self, cx: &Context, to: &AgentName, key: &str) -> Result<ParentLink, Fault> {
        let hops = self.hops.saturating_add(1);
        let max = cx.turn.core.limits.hops_max;
        if hops > max {
            return Err(cx.turn.core.refuse(&ExceededLimit::Hops { to: to.clone(), hops, max }));
        }
        let mut path = self.path.clone();
        path.push(path_entry(&cx.turn).into());
        Ok(ParentLink {
            parent: cx.turn.task,
            root: self.root,
            key: key.into(),
            hops,
            path,
            origin: self.origin.clone(),
            readonly: cx.turn.tool_mode == ToolMode::ReadOnly,
        })
    }
}

/// The lineage as it travels between servers.
#[derive(Debug, Serialize)]
struct LineageClaim<'a> {
    hops: u32,
    path: Vec<Cow<'a, str>>,
    root: String,
}

impl Context {
    /// The lineage for a message to another server, as one metadata member.
    pub fn outbound_lineage(&self) -> Option<Object> {
        lineage_metadata(&self.turn)
    }
}

impl<'a> LineageClaim<'a> {
    fn of(turn: &'a TurnInfo) -> Self {
        let lineage = &turn.lineage;
        let path = lineage.path.iter().map(|agent| Cow::Borrowed(&**agent)).chain([path_entry(turn).into()]).collect();
        Self { root: lineage.origin(), hops: lineage.hops.saturating_add(1), path }
    }
}

/// The lineage of the next agent after this turn, as message metadata.
pub(super) fn lineage_metadata(turn: &TurnInfo) -> Option<Object> {
    Json::of(&BTreeMap::from([(LINEAGE, LineageClaim::of(turn))])).and_then(Object::new).ok()
}

fn path_entry(turn: &TurnInfo) -> String {
    format!("{}#{}", turn.scope.agent, turn.task)
}

impl Core {
    /// Whether an agent of ours is on this path with a task that is not settled. A settled one waits for no answer, so
    /// calling its agent is no loop; the hop limit still applies.
    pub(super) async fn is_waiting_on_path(&self, path: &[Arc<str>], agent: &AgentName) -> Result<bool, StoreError> {
        for step in path {
            let Some((name, task)) = step.rsplit_once('#') else { continue };
            if name != agent.as_str() {
                continue;
            }
            // Another server may have an agent of that name, but not that task.
            let Some(task) = TaskId::parse(task) else { continue };
            let waits = |stored: StoredTask| stored.scope.agent == *agent && !stored.state.is_settled();
            if self.log.load(task).await?.is_some_and(waits) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl IncomingMessage<'_> {
    /// The lineage of a message without one: from its outbound id, or from the caller's header.
    pub(crate) fn lineage_from_header_or_id(&self, terms: &ServiceParameters) -> Option<Object> {
        self.core.lineage_by_id(&self.request.message).or_else(|| {
            let claim = terms.lineage.as_deref().filter(|text| text.len() <= HEADER_BYTES_MAX)?;
            Object::from_map(&Map::from_iter([(LINEAGE.to_owned(), serde_json::from_str(claim).ok()?)])).ok()
        })
    }

    /// Reads the lineage from the message, or from `unsaid`, and refuses a message with too many hops or a loop.
    pub(crate) async fn check_lineage(&mut self, unsaid: Option<Object>) -> Result<(), Fault> {
        let nobody = TaskId::new(sabir_proto::Stamp::default(), 0);
        let claim = unsaid.as_ref().or(self.request.message.metadata.as_ref());
        let Some(lineage) = Lineage::from_claim(claim, nobody) else { return Ok(()) };
        let (core, to) = (self.core, &self.resident.name);
        let (hops, max) = (lineage.hops, core.limits.hops_max);
        if hops > max {
            return Err(core.refuse(&ExceededLimit::Hops { to: to.clone(), hops, max }));
        }
        let looped = core.is_waiting_on_path(&lineage.path, to).await;
        if looped.map_err(|e| core.store_fault("looking for a loop", &e))? {
            return Err(core.refuse(&ExceededLimit::Loop { to: to.clone() }));
        }
        self.lineage = Some(Box::new(lineage));
        self.added_lineage = unsaid.and_then(|claim| claim.get(LINEAGE));
        Ok(())
    }
}

impl Engine {
    /// The lineage of a stored task.
    pub(crate) async fn lineage_of(&self, stored: &StoredTask, task: &Task) -> Result<Lineage, Fault> {
        self.lineage_from(stored, task).await.map_err(|e| self.core.store_fault("reading a task's parent", &e))
    }

    pub(crate) async fn lineage_from(&self, stored: &StoredTask, task: &Task) -> Result<Lineage, StoreError> {
        if stored.is_child {
            let kin = self.core.log.parent_link(stored.id).await?;
            return Ok(kin.map_or_else(|| Lineage::without_parent(stored.id), |kin| Lineage::of_child(&kin)));
        }
        let opening = task.history.first().and_then(|message| message.metadata.as_ref());
        let claimed = opening.filter(|metadata| metadata.as_str().contains(LINEAGE));
        let claimed = claimed.and_then(|metadata| Lineage::from_claim(Some(metadata), stored.id));
        Ok(claimed.unwrap_or_else(|| Lineage::without_parent(stored.id)))
    }
}
