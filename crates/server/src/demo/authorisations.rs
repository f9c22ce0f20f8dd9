//! Delayed authorisations: the demo itself authorises a task, so that its caller need not reply.
//!
//! The agent receives a message like any other; this module sends it without a connection. So a waiting client sees
//! its task continue by itself.

use crate::app::App;
use crate::bind::RequestHead;
use crate::call::CallRequest;
use crate::peer::Peer;
use http::{HeaderMap, Uri};
use sabir_proto::{Call, Message, Role, SendConfiguration, SendMessage, ServiceParameters, TaskId, Tenant};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// An authorisation that is due later.
#[derive(Debug)]
pub(super) struct DelayedAuthorisation {
    pub(super) task: TaskId,
    pub(super) tenant: Tenant,
    pub(super) after: Duration,
}

/// Authorises the tasks that arrive on the channel, for as long as it is polled.
pub(super) async fn serve(app: Arc<App>, mut grants: mpsc::Receiver<DelayedAuthorisation>) {
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

async fn authorise(app: Arc<App>, grant: DelayedAuthorisation) {
    tokio::time::sleep(grant.after).await;
    let mut message = Message::text(app.engine.new_message_id(), Role::User, "Authorised elsewhere.");
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
    // It is authenticated like every other request; the demo is open.
    let (uri, headers, peer) = (Uri::default(), HeaderMap::new(), Peer::plain(SocketAddr::from(([127, 0, 0, 1], 0))));
    let evidence = RequestHead { uri: &uri, headers: &headers, peer: &peer }.evidence(&app, None);
    let terms = ServiceParameters::default();
    let ask = CallRequest { path_agent: None, evidence, admitted: None, call, terms, report: None };
    if let Err(fault) = app.call(ask).await {
        // The caller has replied or cancelled before.
        tracing::debug!(%fault, "an authorisation that no task waits for any more");
    }
}
