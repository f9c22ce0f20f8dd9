//! Delegation: our task stays open, and another agent's task is mirrored into it.
//!
//! An agent that delegates passes on what the other agent reports: its progress and its artifacts if wanted, its
//! question as our question, its end as our end. The next message of our caller answers the question. The metadata of
//! the question's parts says which child asked, and up to where it was mirrored: it is committed with the question, so
//! a turn that is repeated after a crash knows as much as the first time.
//!
//! | The child | Our task |
//! |---|---|
//! | reports progress, makes an artifact | the same, if wanted |
//! | asks for input or credentials | asks the same, and passes the answer on |
//! | completes | the agent goes on with the result |
//! | fails, is rejected or canceled | the agent is told, and decides |
//! | is not opened, because this work is not granted | the same |
//!
//! After a crash, everything that was mirrored is reported again as a whole, so that nothing is missing or doubled.
//! When our task is canceled, the engine cancels the child.

use sabir_engine::{Child, Context, Ending, Failure, LINEAGE};
use sabir_proto::{
    AgentName, Artifact, ArtifactId, CALLER_ACCOUNT, Event, Fault, HANDOFF, HandoffRefusal, Json, Object, Part, SCOPE,
    Seq, StatusUpdate, Task, TaskState,
};
use serde_json::{Map, Value, json};

/// The metadata of a message to an agent elsewhere: the caller's, with our own claim about the lineage in place of the
/// caller's.
pub fn outgoing_metadata(cx: &Context, said: Option<&Object>) -> Option<Object> {
    let claim = cx.outbound_lineage();
    let Some(said) = said else { return claim };
    let mut members = said.to_map();
    // How a task came to us is between us and its last holder: the next server would hold the task again.
    members.remove(HANDOFF);
    // Our agents' scopes use names that only this server knows.
    members.remove(SCOPE);
    // Any caller can write this member; a receiver might believe it if it came from us.
    members.remove(CALLER_ACCOUNT);
    let kept = members.clone();
    members.extend(claim.iter().flat_map(Object::to_map));
    // If the claim would make the object nest too deeply, the message goes without it.
    Object::from_map(&members).or_else(|_| Object::from_map(&kept)).ok()
}

/// What of a child's work is reported in our task while the child works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorSettings {
    /// Whether the child's progress is reported.
    pub progress: bool,
    /// Whether its artifacts are reported, and under which names.
    pub artifacts: ArtifactMirroring,
}

/// Whether a child's artifacts are reported, and under which names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactMirroring {
    /// They are not; the agent finds them in the child's task.
    Hidden,
    /// Under the names that the child gave them.
    Unchanged,
    /// With this prefix before their names, for agents with several children.
    Prefixed(String),
}

impl MirrorSettings {
    /// Reports nothing before the child rests.
    pub const NOTHING: Self = Self { progress: false, artifacts: ArtifactMirroring::Hidden };
    /// Reports everything, as if the child were our task.
    pub const EVERYTHING: Self = Self { progress: true, artifacts: ArtifactMirroring::Unchanged };

    /// Reports everything, with this prefix before the names of artifacts.
    pub fn with_prefix(prefix: impl Into<String>) -> Self {
        Self { progress: true, artifacts: ArtifactMirroring::Prefixed(prefix.into()) }
    }

    fn rename_artifact(&self, artifact: Artifact) -> Option<Artifact> {
        let artifact_id = match &self.artifacts {
            ArtifactMirroring::Hidden => return None,
            ArtifactMirroring::Unchanged => return Some(artifact),
            ArtifactMirroring::Prefixed(prefix) => ArtifactId::parse(&format!("{prefix}{}", artifact.artifact_id)),
        };
        // A name that would be too long stays as it was.
        Some(Artifact { artifact_id: artifact_id.unwrap_or(artifact.artifact_id.clone()), ..artifact })
    }
}

/// The result of a delegation.
#[derive(Debug)]
pub enum DelegationOutcome {
    /// The child completed: its task, with artifacts and messages.
    Completed(Box<Task>),
    /// The child asks. The turn must end with this, unchanged; in the next one, the same call passes the answer on.
    NeedsInput(Ending),
    /// The child failed, or was rejected or canceled: its task, with its last message.
    NotCompleted(Box<Task>),
    /// No child was opened: its work is not granted.
    Refused(Box<HandoffRefusal>),
}

impl DelegationOutcome {
    /// The end of a turn whose agent adds nothing of its own.
    pub fn into_ending(self) -> Ending {
        let words = |task: Task| task.status.message.map(|message| message.parts).unwrap_or_default();
        match self {
            Self::Completed(task) => Ending::Complete(words(*task)),
            Self::NeedsInput(ending) => ending,
            Self::NotCompleted(task) => match task.status.state {
                TaskState::Rejected => Ending::Reject(words(*task)),
                TaskState::Canceled => Ending::Cancel(words(*task)),
                _ => Ending::Fail(words(*task)),
            },
            Self::Refused(unfit) => Ending::Fail(refusal_parts(*unfit)),
        }
    }
}

/// Why work is not granted, as text and as data.
fn refusal_parts(unfit: HandoffRefusal) -> Vec<Part> {
    let HandoffRefusal { reason, words, required, allowed, missing } = unfit;
    let body = json!({"code": reason, "required": required, "allowed": allowed, "missing": missing});
    let mut parts = vec![Part::text(words)];
    parts.extend(Json::of(&body).ok().map(Part::data));
    parts
}

/// Has another agent answer `message` on behalf of the current task, under a key of this task; see
/// [`Context::delegate`]. Returns when the child has settled or asks.
pub async fn delegate(
    cx: &Context,
    to: &AgentName,
    key: &str,
    message: Vec<Part>,
    metadata: Option<Object>,
    mirror: &MirrorSettings,
) -> Result<DelegationOutcome, Failure> {
    let mut child = match cx.delegate(to, key, message, metadata).await {
        Ok(child) => child,
        Err(Fault::Handoff(unfit)) => return Ok(DelegationOutcome::Refused(unfit)),
        Err(fault) => return Err(fault.into()),
    };
    if let Some(seen) = question_position(cx, key) {
        child = child.after(seen);
        child.answer(cx.message().parts.clone()).await?;
    }
    if cx.attempt() > 1 {
        // It is not known how much of it was reported before the crash, so all of it is, as a whole.
        let task = child.load().await?.thaw().ok_or_else(unreadable_task)?;
        report_artifacts(cx, mirror, task.artifacts).await?;
    }
    mirror_events(cx, &mut child, mirror).await?;
    let task = child.wait_until_rest().await?.thaw().ok_or_else(unreadable_task)?;
    Ok(match task.status.state {
        TaskState::Completed => DelegationOutcome::Completed(Box::new(task)),
        TaskState::InputRequired => DelegationOutcome::NeedsInput(Ending::AskInput(question_parts(&child, key, task))),
        TaskState::AuthRequired => DelegationOutcome::NeedsInput(Ending::AskAuth(question_parts(&child, key, task))),
        _ => DelegationOutcome::NotCompleted(Box::new(task)),
    })
}

async fn mirror_events(cx: &Context, child: &mut Child, mirror: &MirrorSettings) -> Result<(), Failure> {
    while let Some(event) = child.next().await {
        match event?.thaw().ok_or_else(unreadable_task)? {
            Event::Task(task) => report_artifacts(cx, mirror, task.artifacts).await?,
            Event::StatusUpdate(StatusUpdate { status, .. }) => {
                let said = status.message.filter(|_| mirror.progress && status.state == TaskState::Working);
                if let Some(message) = said {
                    cx.progress(message.parts).await?;
                }
            }
            Event::ArtifactUpdate(update) => {
                if let Some(artifact) = mirror.rename_artifact(update.artifact) {
                    cx.chunk(artifact, update.append, update.last_chunk).await?;
                }
            }
            Event::Message(_) => {}
        }
    }
    Ok(())
}

/// Reports artifacts as a whole, in place of their earlier versions.
async fn report_artifacts(cx: &Context, mirror: &MirrorSettings, made: Vec<Artifact>) -> Result<(), Failure> {
    for artifact in made {
        if let Some(artifact) = mirror.rename_artifact(artifact) {
            cx.chunk(artifact, false, false).await?;
        }
    }
    Ok(())
}

/// The parts of a child's question, with a note for the next turn.
fn question_parts(child: &Child, key: &str, task: Task) -> Vec<Part> {
    let mut parts = task.status.message.map(|message| message.parts).unwrap_or_default();
    if parts.is_empty() {
        parts.push(Part::text(format!("{} needs an answer to go on", child.agent())));
    }
    let asks = json!({"asks": {"agent": child.agent().as_str(), "task": child.id().to_string(), "key": key,
        "seen": child.seen().0}});
    if let Some(part) = parts.first_mut() {
        let mut members: Map<String, Value> = part.metadata.as_ref().map(Object::to_map).unwrap_or_default();
        members.insert(LINEAGE.to_owned(), asks);
        part.metadata = Object::from_map(&members).ok();
    }
    parts
}

/// Up to where the child of this key was mirrored when it asked the question that our caller answers now.
fn question_position(cx: &Context, key: &str) -> Option<Seq> {
    let question = cx.before()?.status.message.as_ref()?;
    question.parts.iter().filter_map(|part| part.metadata.as_ref()?.get(LINEAGE)).find_map(|note| {
        let asks = note.get("asks").filter(|asks| asks["key"] == key)?;
        asks["seen"].as_u64().map(Seq)
    })
}

fn unreadable_task() -> Failure {
    Failure("the record of a task that was delegated cannot be read".into())
}
