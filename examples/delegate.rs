//! An agent that passes its work on to another: `PEER_URL=URL cargo run -p sabir --example delegate`.
//!
//! What the other agent makes is ours, what it asks is asked in our name, and whoever cancels our task cancels theirs.

use sabir::client::{Client, Delegation, Egress, SendOutcome, message_id};
use sabir::{Agent, Context, Ending, Failure, Service};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Mutex;

struct Delegate {
    peer: String,
    client: Client,
    /// Conversations with the other agent that wait for an answer, by our own task.
    open: Arc<Mutex<HashMap<String, Delegation>>>,
}

impl Agent for Delegate {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let ours = cx.task_id().to_string();
        let mut work = match self.open.lock().await.remove(&ours) {
            Some(open) => open,
            None => Delegation::to(self.client.connect(&self.peer.parse()?).await?),
        };
        let mut message = cx.message().clone();
        message.message_id = message_id();
        // When our task is cancelled this turn is dropped, and theirs is cancelled with it.
        let outcome = work.turn(message, std::future::pending(), |_| {}).await?;
        match outcome {
            SendOutcome::Message(reply) => {
                cx.artifact("reply", reply.parts).await?;
                Ok(Ending::complete())
            }
            SendOutcome::Completed(task) => {
                for artifact in task.artifacts {
                    cx.artifact(artifact.artifact_id.as_str(), artifact.parts).await?;
                }
                Ok(Ending::complete())
            }
            SendOutcome::InputRequired(ref task) | SendOutcome::AuthRequired(ref task) => {
                let question = task.status.message.as_ref().map(sabir::Message::joined_text).unwrap_or_default();
                let ending = match outcome {
                    SendOutcome::AuthRequired(_) => Ending::ask_auth(question),
                    _ => Ending::ask_input(question),
                };
                self.open.lock().await.insert(ours, work);
                Ok(ending)
            }
            SendOutcome::Rejected(_) => Ok(Ending::reject(outcome.text())),
            SendOutcome::Failed(_) | SendOutcome::Canceled(_) => Ok(Ending::fail(outcome.text())),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    sabir::init_logging();
    let peer = std::env::var("PEER_URL").map_err(|_| "PEER_URL names the agent to delegate to")?;
    let client = Client::builder().egress(Egress::anywhere()).build()?;
    let agent = Delegate { peer, client, open: Arc::default() };
    Service::from_env()?.agent("delegate", agent).serve().await?;
    Ok(())
}
