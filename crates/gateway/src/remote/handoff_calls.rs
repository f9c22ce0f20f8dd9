//! Tasks that are handed to an agent elsewhere: by the card that counts, with its credentials, through its breakers.

use super::RemoteAgent;
use super::connection::ReplicaConnection;
use crate::handoff::{HandoffReply, TargetProfile};
use sabir_client::{Error, send_message};
use sabir_proto::{CancelTask, Fault, FaultCode, Message, TaskRef, Tenant, WireReply};

impl RemoteAgent {
    /// What the agent's card says now.
    pub async fn handoff_profile(&self) -> Result<TargetProfile, Error> {
        let connection = self.replicas[0].handoff_connection("", true).await?;
        let agent = connection.agent();
        let face = TargetProfile::of_card(agent.card(), &agent.interface().url, &agent.interface().protocol_binding);
        let recognises = self.upstream.idempotent || agent.has_retry_keys();
        let signed = self.replicas[0].has_valid_signature(agent.discovered_card()).await;
        Ok(TargetProfile { recognises_repeats: recognises, signed, ..face })
    }

    /// Sends on behalf of a caller, and does not wait for the end of the task.
    pub async fn send_handoff(&self, caller: &str, message: Message) -> Result<HandoffReply, Error> {
        let mut request = send_message(message);
        request.configuration.return_immediately = true;
        match self.handoff_connection(caller).await?.send(request).await? {
            WireReply::SentTask(task) => Ok(HandoffReply::Task(task)),
            WireReply::SentMessage(_) => Ok(HandoffReply::Message),
            _ => Err(Fault::InvalidAgentResponse("neither a task nor a message".into()).into()),
        }
    }

    /// Cancels a task that was handed over; no error if it has ended.
    pub async fn cancel_handoff(&self, caller: &str, id: TaskRef) -> Result<(), Error> {
        let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
        match self.handoff_connection(caller).await?.cancel(request).await {
            Err(Error::Fault { fault, .. })
                if matches!(fault.code(), FaultCode::TaskNotCancelable | FaultCode::TaskNotFound) =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Always to the first replica: what is created there is activated there.
    async fn handoff_connection(&self, caller: &str) -> Result<ReplicaConnection, Error> {
        self.replicas[0].handoff_connection(caller, false).await
    }
}
