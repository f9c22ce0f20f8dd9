//! Following a task that was handed to another server.

use super::Session;
use super::report::invalid_answer;
use crate::problem::{Outcome, Problem, Stop};
use crate::render::Node;
use sabir_client::{Agent, Credentials, HandoffTrail, with_only_target};
use sabir_proto::{Transfer, WireTask};

impl Session {
    /// Follows a task from server to server, and reports it where it rests. Each server gets the credentials stored for
    /// it; credentials given for this run go to the first server only.
    pub(crate) async fn report_followed(&self, mut json: String) -> Outcome {
        let mut trail = HandoffTrail::default();
        while let Some(transfer) = transfer_of(&json) {
            let agent = self.successor(&transfer, &mut trail).await?;
            let words = format!("Handed over: {} (task {})", transfer.agent_endpoint, transfer.task_id);
            self.out.note(&words);
            self.observer.set_task(&transfer.task_id.to_string());
            self.set_handed_to(&transfer.agent_endpoint);
            let settled = agent.wait(transfer.task_id, self.poll_pace()).await.map_err(|error| self.failed(error))?;
            json = format!(r#"{{"task":{}}}"#, settled.json());
        }
        self.report_response(&json)
    }

    async fn successor(&self, transfer: &Transfer, trail: &mut HandoffTrail) -> Result<Agent, Stop> {
        let wrong = |error: sabir_client::Error| {
            Problem::internal(error.to_string()).hint(format!("sabir task get -a {} …", transfer.agent_endpoint))
        };
        let reference = trail.next(transfer).map_err(wrong)?;
        let found = self.client.card(&reference).await.map_err(|error| self.problem(error, None))?;
        let found = with_only_target(transfer, self.require_trust(found).await?.into_found())
            .ok_or_else(|| invalid_answer("the card at the agent that has the task now does not offer its address"))?;
        let tokens = self.stored_tokens(&found).await?.into_iter().collect();
        let credentials = Credentials { tokens, claim: transfer.claim_secret.clone(), ..Credentials::default() };
        self.handoff_client(credentials)
            .and_then(|client| client.agent(found))
            .map_err(|error| self.failed(error).into())
    }
}

/// The transfer in an answer, if its task was handed over.
fn transfer_of(json: &str) -> Option<Transfer> {
    let task = Node::new(json).get("task")?;
    serde_json::from_str::<WireTask>(task.raw()).ok()?.transfer()
}
