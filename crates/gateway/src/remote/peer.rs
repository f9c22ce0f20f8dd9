//! Tasks that are handed to an agent elsewhere: by the card that counts, with its credentials, through its breakers.

use super::RemoteAgent;
use super::line::Line;
use crate::handoff::{Face, Taken};
use sabir_client::{Error, send_message};
use sabir_proto::{Answer, CancelTask, Code, Fault, Message, TaskRef, Tenant};

impl RemoteAgent {
    /// What the agent's card says now.
    pub async fn face(&self) -> Result<Face, Error> {
        let line = self.replicas[0].handing("", true).await?;
        let agent = line.agent();
        let face = Face::of(agent.card(), &agent.interface().url, &agent.interface().protocol_binding);
        let recognises = self.upstream.idempotent || agent.recognises_repeats();
        let signed = self.replicas[0].is_vouched_for(agent.found()).await;
        Ok(Face { recognises, signed, ..face })
    }

    /// Sends on behalf of a caller, and does not wait for the end of the task.
    pub async fn hand(&self, caller: &str, message: Message) -> Result<Taken, Error> {
        let mut request = send_message(message);
        request.configuration.return_immediately = true;
        match self.handing(caller).await?.send(request).await? {
            Answer::SentTask(task) => Ok(Taken::Task(task)),
            Answer::SentMessage(_) => Ok(Taken::Words),
            _ => Err(Fault::InvalidAgentResponse("neither a task nor a message".into()).into()),
        }
    }

    /// Cancels a task that was handed over; no error if it has ended.
    pub async fn take_back(&self, caller: &str, id: TaskRef) -> Result<(), Error> {
        let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
        match self.handing(caller).await?.cancel(request).await {
            Err(Error::Fault { fault, .. }) if matches!(fault.code(), Code::TaskNotCancelable | Code::TaskNotFound) => {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Always to the first replica: what is created there is activated there.
    async fn handing(&self, caller: &str) -> Result<Line, Error> {
        self.replicas[0].handing(caller, false).await
    }
}
