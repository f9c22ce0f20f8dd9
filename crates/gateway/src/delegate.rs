//! Our task stays, and another agent's is mirrored into it.
//!
//! An agent that lets another one do the work passes on what that says: its progress and its artifacts where that is
//! wanted, its question as our question, its end as our end. The next message of our caller answers the question. Which
//! child asked, and up to where it was mirrored, is said beside the question itself, in the metadata of its parts: it is
//! committed with the question, so a turn that is begun again after a crash knows as much as the first time.
//!
//! | The child | Our task |
//! |---|---|
//! | reports progress, makes an artifact | the same, where it is wanted |
//! | asks for input or credentials | asks the same, and passes the answer on |
//! | completes | the agent goes on with what was made |
//! | fails, is rejected or canceled | the agent is told, and decides |
//! | is not opened, since it may not have this work | the same |
//!
//! After a crash what was mirrored before is said once more as a whole, so that nothing is missing and nothing is there
//! twice. Canceling our task cancels the child, which is the engine's doing.

use sabir_engine::{Child, Context, Ending, Failure, LINEAGE};
use sabir_proto::{
    AgentName, Artifact, ArtifactId, CALLER_ACCOUNT, Event, Fault, HANDOFF, Json, Object, Part, SCOPE, Seq,
    StatusUpdate, Task, TaskState, Unfit,
};
use serde_json::{Map, Value, json};

/// What is told to an agent elsewhere of what came before: a member for the metadata of the message to it, in place of
/// whatever the caller claimed there.
pub fn outgoing(cx: &Context, said: Option<&Object>) -> Option<Object> {
    let claim = cx.lineage_for_others();
    let Some(said) = said else { return claim };
    let mut members = said.to_map();
    // How a task came to us is between us and whoever gave it away: somebody else would hold it again.
    members.remove(HANDOFF);
    // What our agents may do is said in names of ours.
    members.remove(SCOPE);
    // Anybody may write this; from us somebody might believe it.
    members.remove(CALLER_ACCOUNT);
    let kept = members.clone();
    members.extend(claim.iter().flat_map(Object::to_map));
    // What nests too deeply for anything beside it goes without.
    Object::from_map(&members).or_else(|_| Object::from_map(&kept)).ok()
}

/// How much of a child is seen in our task while it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Its progress is ours.
    pub progress: bool,
    /// Its artifacts are ours.
    pub artifacts: Artifacts,
}

/// Whether a child's artifacts are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Artifacts {
    /// They are for the agent alone, which finds them in the child's task.
    Hidden,
    /// Under the names they have.
    Same,
    /// Under their names with this before them, for agents with several children.
    Under(String),
}

impl Mirror {
    /// Nothing is seen before the child rests.
    pub const QUIET: Self = Self { progress: false, artifacts: Artifacts::Hidden };
    /// Everything is seen, as if the child were our task.
    pub const WHOLE: Self = Self { progress: true, artifacts: Artifacts::Same };

    /// Everything is seen, with this before the names of artifacts.
    pub fn under(prefix: impl Into<String>) -> Self {
        Self { progress: true, artifacts: Artifacts::Under(prefix.into()) }
    }

    fn name(&self, artifact: Artifact) -> Option<Artifact> {
        let artifact_id = match &self.artifacts {
            Artifacts::Hidden => return None,
            Artifacts::Same => return Some(artifact),
            Artifacts::Under(prefix) => ArtifactId::parse(&format!("{prefix}{}", artifact.artifact_id)),
        };
        // A name that grows too long stays as it was.
        Some(Artifact { artifact_id: artifact_id.unwrap_or(artifact.artifact_id.clone()), ..artifact })
    }
}

/// What a child came to.
#[derive(Debug)]
pub enum Mirrored {
    /// It is done: the task, with all that was made and said.
    Done(Box<Task>),
    /// It asks. The turn is to end with this, unchanged; in the next one, the same call passes the answer on.
    Asks(Ending),
    /// It was not done: the task, with its words.
    Missed(Box<Task>),
    /// There is no child: what is asked of it is not granted.
    Refused(Box<Unfit>),
}

impl Mirrored {
    /// The end of a turn whose agent has nothing of its own to say.
    pub fn into_ending(self) -> Ending {
        let words = |task: Task| task.status.message.map(|message| message.parts).unwrap_or_default();
        match self {
            Self::Done(task) => Ending::Complete(words(*task)),
            Self::Asks(ending) => ending,
            Self::Missed(task) => match task.status.state {
                TaskState::Rejected => Ending::Reject(words(*task)),
                TaskState::Canceled => Ending::Cancel(words(*task)),
                _ => Ending::Fail(words(*task)),
            },
            Self::Refused(unfit) => Ending::Fail(refusal(*unfit)),
        }
    }
}

/// Why something is not granted, in words and for programs.
fn refusal(unfit: Unfit) -> Vec<Part> {
    let Unfit { reason, words, required, allowed, missing } = unfit;
    let body = json!({"code": reason, "required": required, "allowed": allowed, "missing": missing});
    let mut parts = vec![Part::text(words)];
    parts.extend(Json::of(&body).ok().map(Part::data));
    parts
}

/// Has another agent answer `message` on behalf of the task at hand, under a key of this task; see
/// [`Context::delegate`]. Comes back when the child has settled or asks.
pub async fn delegate(
    cx: &Context,
    to: &AgentName,
    key: &str,
    message: Vec<Part>,
    metadata: Option<Object>,
    mirror: &Mirror,
) -> Result<Mirrored, Failure> {
    let mut child = match cx.delegate(to, key, message, metadata).await {
        Ok(child) => child,
        Err(Fault::Handoff(unfit)) => return Ok(Mirrored::Refused(unfit)),
        Err(fault) => return Err(fault.into()),
    };
    if let Some(seen) = asked(cx, key) {
        child = child.after(seen);
        child.answer(cx.message().parts.clone()).await?;
    }
    if cx.attempt() > 1 {
        // How much of it was reported before the crash nobody knows, so all of it is, as a whole.
        let task = child.look().await?.thaw().ok_or_else(damaged)?;
        artifacts(cx, mirror, task.artifacts).await?;
    }
    follow(cx, &mut child, mirror).await?;
    let task = child.rest().await?.thaw().ok_or_else(damaged)?;
    Ok(match task.status.state {
        TaskState::Completed => Mirrored::Done(Box::new(task)),
        TaskState::InputRequired => Mirrored::Asks(Ending::AskInput(question(&child, key, task))),
        TaskState::AuthRequired => Mirrored::Asks(Ending::AskAuth(question(&child, key, task))),
        _ => Mirrored::Missed(Box::new(task)),
    })
}

async fn follow(cx: &Context, child: &mut Child, mirror: &Mirror) -> Result<(), Failure> {
    while let Some(event) = child.next().await {
        match event?.thaw().ok_or_else(damaged)? {
            Event::Task(task) => artifacts(cx, mirror, task.artifacts).await?,
            Event::StatusUpdate(StatusUpdate { status, .. }) => {
                let said = status.message.filter(|_| mirror.progress && status.state == TaskState::Working);
                if let Some(message) = said {
                    cx.progress(message.parts).await?;
                }
            }
            Event::ArtifactUpdate(update) => {
                if let Some(artifact) = mirror.name(update.artifact) {
                    cx.chunk(artifact, update.append, update.last_chunk).await?;
                }
            }
            Event::Message(_) => {}
        }
    }
    Ok(())
}

/// Reports artifacts as a whole, in place of what there was of them.
async fn artifacts(cx: &Context, mirror: &Mirror, made: Vec<Artifact>) -> Result<(), Failure> {
    for artifact in made {
        if let Some(artifact) = mirror.name(artifact) {
            cx.chunk(artifact, false, false).await?;
        }
    }
    Ok(())
}

/// The words of a child that asks, with a note for the next turn.
fn question(child: &Child, key: &str, task: Task) -> Vec<Part> {
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

/// Where the child of this key asked what our caller is answering now, if it did.
fn asked(cx: &Context, key: &str) -> Option<Seq> {
    let question = cx.before()?.status.message.as_ref()?;
    question.parts.iter().filter_map(|part| part.metadata.as_ref()?.get(LINEAGE)).find_map(|note| {
        let asks = note.get("asks").filter(|asks| asks["key"] == key)?;
        asks["seen"].as_u64().map(Seq)
    })
}

fn damaged() -> Failure {
    Failure("the record of a task that was delegated cannot be read".into())
}
