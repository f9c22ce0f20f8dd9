//! Somebody else: the one who authorises a task by another way than a reply of its caller.
//!
//! To the agent it is a message like any other; it is sent from in here, by nobody who holds a connection. So a client
//! that waits sees its task go on by itself.

use crate::app::App;
use crate::bind::Head;
use crate::call::Ask;
use crate::peer::Peer;
use http::{HeaderMap, Uri};
use sabir_proto::{Call, Message, Role, SendConfiguration, SendMessage, TaskId, Tenant, Terms};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// An authorisation to come.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) task: TaskId,
    pub(super) tenant: Tenant,
    pub(super) after: Duration,
}

/// Authorises what it is asked to, for as long as it is polled.
pub(super) async fn serve(app: Arc<App>, mut grants: mpsc::Receiver<Grant>) {
    let mut waiting = JoinSet::new();
    loop {
        tokio::select! {
            grant = grants.recv() => match grant {
                Some(grant) => drop(waiting.spawn(authorise(app.clone(), grant))),
                None => return,
            },
            Some(_) = waiting.join_next() => {}
        }
    }
}

async fn authorise(app: Arc<App>, grant: Grant) {
    tokio::time::sleep(grant.after).await;
    let mut message = Message::text(app.route.mint(), Role::User, "Authorised elsewhere.");
    message.task_id = Some(grant.task.into());
    let request = SendMessage {
        tenant: grant.tenant,
        message,
        configuration: SendConfiguration { return_immediately: true, ..SendConfiguration::default() },
        metadata: None,
        alias: None,
        wants_task: false,
    };
    let call = Call::Send(Box::new(request));
    // It comes in by the same door as everybody, which in the demo is open.
    let (uri, headers, peer) = (Uri::default(), HeaderMap::new(), Peer::plain(SocketAddr::from(([127, 0, 0, 1], 0))));
    let knock = Head { uri: &uri, headers: &headers, peer: &peer }.knock(&app, None);
    let ask = Ask { at: None, knock, admitted: None, call, terms: Terms::default() };
    if let Err(fault) = app.call(ask).await {
        // Its caller replied or cancelled before.
        tracing::debug!(%fault, "an authorisation that nobody waits for any more");
    }
}
