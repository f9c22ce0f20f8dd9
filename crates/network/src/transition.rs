//! Transitions of a booking by an operator: each is a task in the booking's conversation.
//!
//! The agent of such a task is not served, so only code with access to the engine can run it. The transition and the
//! notifications of subscribers are one step of that task.

use crate::booking::{action_between, webhook_event};
use crate::key_holder::KeyHolderDirectory;
use crate::venue::{booking_artifact, notify_subscribers};
use crate::{response, webhook};
use sabir_engine::{Agent, Context, Ending, Engine, Failure, HostedAgent, TaskLog};
use sabir_proto::{
    AgentName, Caller, ContextId, Fault, Message, MessageId, Role, SendConfiguration, SendMessage, SendReply,
    ServiceParameters, TaskId, Tenant, ToolMode,
};
use sabir_store::{Booking, BookingStatus, Ledger, LedgerEffect, Scope, StoreError, Venue, VenueRef};
use serde_json::Value;
use std::sync::Arc;

/// Why a transition failed.
#[derive(Debug, thiserror::Error)]
pub enum TransitionError {
    /// There is no booking with this id.
    #[error("there is no booking {0}")]
    BookingNotFound(TaskId),
    /// The table does not allow the transition.
    #[error(transparent)]
    Illegal(#[from] crate::booking::IllegalTransition),
    /// The engine could not run the task.
    #[error("{0}")]
    Fault(Fault),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Runs transitions for operators.
#[derive(Clone)]
pub struct BookingAdmin {
    /// The engine that runs the task.
    pub engine: Engine,
    /// The log with the booking's task.
    pub log: Arc<dyn TaskLog>,
    /// The ledger with the booking.
    pub ledger: Arc<dyn Ledger>,
    /// The lookup of the key that made the booking.
    pub key_holders: Arc<dyn KeyHolderDirectory>,
    /// The name of the network's agent.
    pub agent: AgentName,
}

impl BookingAdmin {
    /// Moves a booking to a status, and returns it afterwards.
    pub async fn transition(&self, id: TaskId, to: BookingStatus, by: &Caller) -> Result<Booking, TransitionError> {
        let booking = self.ledger.booking(id).await?.ok_or(TransitionError::BookingNotFound(id))?;
        action_between(booking.status, to)?;
        let venue = self.ledger.venue(VenueRef::Id(&booking.details.venue)).await?;
        let context = self.log.load(id).await?.and_then(|stored| stored.context());
        let agent =
            TransitionAgent { booking, venue, to, ledger: self.ledger.clone(), key_holders: self.key_holders.clone() };
        self.run_transition(agent, context, by).await.map_err(TransitionError::Fault)?;
        self.ledger.booking(id).await?.ok_or(TransitionError::BookingNotFound(id))
    }

    async fn run_transition(
        &self,
        agent: TransitionAgent,
        context_id: Option<ContextId>,
        by: &Caller,
    ) -> Result<(), Fault> {
        let resident =
            HostedAgent { name: self.agent.clone(), agent: Arc::new(agent), push: true, tool_mode: ToolMode::Full };
        let scope = Scope { tenant: Tenant::none(), caller: by.clone(), agent: self.agent.clone() };
        let id = MessageId::parse("transition").map_err(|e| Fault::InvalidRequest(e.to_string()))?;
        let message = Message { context_id, ..Message::text(id, Role::User, "transition") };
        let request = Box::new(SendMessage {
            tenant: Tenant::none(),
            message,
            configuration: SendConfiguration::default(),
            metadata: None,
            alias: None,
            wants_task: true,
        });
        match self.engine.send(&resident, Arc::new(scope), request, &ServiceParameters::default()).await? {
            SendReply::Task(task, _) if task.state == sabir_proto::TaskState::Completed => Ok(()),
            SendReply::Task(task, _) => Err(Fault::Internal(format!("the move ended as {}", task.state))),
            SendReply::Message(_) => Err(Fault::Internal("the move left no task".into())),
        }
    }
}

/// The agent that moves one booking.
struct TransitionAgent {
    booking: Booking,
    venue: Option<Venue>,
    to: BookingStatus,
    ledger: Arc<dyn Ledger>,
    key_holders: Arc<dyn KeyHolderDirectory>,
}

impl Agent for TransitionAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let Self { booking, to, .. } = self;
        let (booked, named) = (&booking.details, webhook_event(*to));
        let from = booking.status;
        cx.add_effect(LedgerEffect::MoveBooking { booking: booking.id, from, to: *to, at: cx.now(), usage: None });
        notify_subscribers(&*self.ledger, cx, &booked.key, named, true).await?;
        let mut shown =
            response::booking(&booking.id.to_string(), self.venue.as_ref(), booked, *to, booking.created_at);
        shown.insert("previous_status".into(), from.name().into());
        let (prefix, correlation) = (self.key_holders.by_key(&booked.key).prefix, booked.correlation.clone());
        let told = webhook::WebhookContext { event: named, prefix, correlation };
        cx.chunk(booking_artifact(&Value::Object(shown), &told), false, true).await?;
        Ok(Ending::complete())
    }

    fn runs_inline(&self) -> bool {
        true
    }
}
