//! Transitions of a booking by an operator: each is a task in the booking's conversation.
//!
//! The agent of such a task is not served, so only code with access to the engine can run it. The transition and the
//! notifications of subscribers are one step of that task.

use crate::booking::{between, event};
use crate::patron::Patrons;
use crate::venue::{booking_artifact, owe};
use crate::{answer, webhook};
use sabir_engine::{Agent, Context, Ending, Engine, Failure, Resident, TaskLog};
use sabir_proto::{
    AgentName, Caller, ContextId, Fault, Message, MessageId, Role, SendConfiguration, SendMessage, Sent, TaskId,
    Tenant, Terms, ToolMode,
};
use sabir_store::{Booking, BookingStatus, Effect, Ledger, Scope, StoreError, Venue, VenueName};
use serde_json::Value;
use std::sync::Arc;

/// Why a transition failed.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// There is no booking with this id.
    #[error("there is no booking {0}")]
    Unknown(TaskId),
    /// The table does not allow the transition.
    #[error(transparent)]
    Illegal(#[from] crate::booking::Illegal),
    /// The engine could not run the task.
    #[error("{0}")]
    Fault(Fault),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Runs transitions for operators.
#[derive(Clone)]
pub struct Office {
    /// The engine that runs the task.
    pub engine: Engine,
    /// The log with the booking's task.
    pub log: Arc<dyn TaskLog>,
    /// The ledger with the booking.
    pub ledger: Arc<dyn Ledger>,
    /// The lookup of the key that made the booking.
    pub patrons: Arc<dyn Patrons>,
    /// The name of the network's agent.
    pub agent: AgentName,
}

impl Office {
    /// Moves a booking to a status, and returns it afterwards.
    pub async fn transition(&self, id: TaskId, to: BookingStatus, by: &Caller) -> Result<Booking, MoveError> {
        let booking = self.ledger.booking(id).await?.ok_or(MoveError::Unknown(id))?;
        between(booking.status, to)?;
        let venue = self.ledger.venue(VenueName::Id(&booking.booked.venue)).await?;
        let context = self.log.load(id).await?.and_then(|stored| stored.context());
        let clerk = Clerk { booking, venue, to, ledger: self.ledger.clone(), patrons: self.patrons.clone() };
        self.have(clerk, context, by).await.map_err(MoveError::Fault)?;
        self.ledger.booking(id).await?.ok_or(MoveError::Unknown(id))
    }

    async fn have(&self, clerk: Clerk, context_id: Option<ContextId>, by: &Caller) -> Result<(), Fault> {
        let resident = Resident { name: self.agent.clone(), agent: Arc::new(clerk), push: true, tools: ToolMode::Full };
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
        match self.engine.send(&resident, Arc::new(scope), request, &Terms::default()).await? {
            Sent::Task(task, _) if task.state == sabir_proto::TaskState::Completed => Ok(()),
            Sent::Task(task, _) => Err(Fault::Internal(format!("the move ended as {}", task.state))),
            Sent::Message(_) => Err(Fault::Internal("the move left no task".into())),
        }
    }
}

/// The agent that moves one booking.
struct Clerk {
    booking: Booking,
    venue: Option<Venue>,
    to: BookingStatus,
    ledger: Arc<dyn Ledger>,
    patrons: Arc<dyn Patrons>,
}

impl Agent for Clerk {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let Self { booking, to, .. } = self;
        let (booked, named) = (&booking.booked, event(*to));
        let from = booking.status;
        cx.effect(Effect::MoveBooking { booking: booking.id, from, to: *to, at: cx.now(), usage: None });
        owe(&*self.ledger, cx, &booked.key, named, true).await?;
        let mut shown = answer::booking(&booking.id.to_string(), self.venue.as_ref(), booked, *to, booking.created_at);
        shown.insert("previous_status".into(), from.name().into());
        let (prefix, correlation) = (self.patrons.holder(&booked.key).prefix, booked.correlation.clone());
        let told = webhook::Told { event: named, prefix, correlation };
        cx.chunk(booking_artifact(&Value::Object(shown), &told), false, true).await?;
        Ok(Ending::complete())
    }

    fn is_carried(&self) -> bool {
        true
    }
}
