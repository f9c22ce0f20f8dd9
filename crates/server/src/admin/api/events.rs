//! `GET /api/v1/events`: a feed of changes, as server-sent events.
//!
//! | Event | Data |
//! |---|---|
//! | `open` | the feed begins here |
//! | `reset` | changes were missed: list the tasks again; the feed goes on from here |
//! | `task` | a task that got another status, as `GET /tasks` lists it |
//! | `agents` | agents were added, changed or removed: list them again |
//! | `deliveries` | deliveries were added, made or given up: how many are dead |
//!
//! The feed reads the store and keeps nothing for a subscriber, so one that stops reading costs no memory: the next
//! changes are read when it reads on. An `id` is the number of a commit, and stands at the last event of that commit. A
//! subscriber that comes back with `Last-Event-ID` goes on after it, if the store still has all changes since then: the
//! latest 32,768, and none from before a restart. Else the first event is `reset`. A task that changed several times in
//! between is told once, with its latest status.

use super::{ApiCaller, ApiResponse, refuse};
use crate::admin::operation::OperationAccess;
use crate::admin::service::AdminService;
use crate::admin::tasks::TaskSummaryView;
use crate::admin::{AdminError, AdminErrorCode};
use crate::tokio_host::TokioHost;
use axum::body::Body;
use axum::extract::{Extension, State};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response};
use sabir_engine::Host as _;
use sabir_guard::CredentialWatch;
use sabir_store::{AdminQueries, ChangePage, ChangePlace, OutboxMark, StoreError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Subscribers at the same time.
const SUBSCRIBERS_MAX: usize = 64;
/// How often the feed looks for changes.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// After how long without an event a comment is sent, so that proxies keep the connection open.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);
/// Changes that are read at a time.
const CHANGES_PER_READ: usize = 100;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The feed of a server.
#[derive(Clone)]
pub(super) struct ChangeFeed {
    pub(super) service: Arc<AdminService>,
    pub(super) places: Arc<Semaphore>,
}

impl ChangeFeed {
    pub(super) fn new(service: Arc<AdminService>) -> Self {
        Self { service, places: Arc::new(Semaphore::new(SUBSCRIBERS_MAX)) }
    }
}

/// What one subscriber has been told.
struct Subscription {
    caller: ApiCaller,
    credential: Option<CredentialWatch>,
    service: Arc<AdminService>,
    queries: Arc<dyn AdminQueries>,
    /// Behind this place are the changes that are still to be told.
    place: ChangePlace,
    generation: u64,
    outbox: OutboxMark,
    is_new: bool,
    told_at: Instant,
    _slot: OwnedSemaphorePermit,
}

/// Opens the feed for a subscriber.
pub(super) async fn serve(
    State(feed): State<ChangeFeed>,
    Extension(caller): Extension<ApiCaller>,
    headers: HeaderMap,
) -> ApiResponse {
    if let Err(refusal) = caller.authorize(OperationAccess::Look, "FollowChanges") {
        return super::refuse_caller(&refusal);
    }
    let Ok(slot) = feed.places.clone().try_acquire_owned() else {
        let words = format!("there are {SUBSCRIBERS_MAX} subscribers already");
        return refuse(&AdminError::new(AdminErrorCode::Store, words).with_hint("close another one"));
    };
    match Subscription::open(feed.service, caller, &headers, slot).await {
        Ok(subscription) => {
            let mut response = Response::new(Body::from_stream(stream::unfold(subscription, Subscription::next)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => refuse(&error),
    }
}

impl Subscription {
    async fn open(
        service: Arc<AdminService>,
        caller: ApiCaller,
        headers: &HeaderMap,
        slot: OwnedSemaphorePermit,
    ) -> Result<Self, AdminError> {
        let queries = service.tasks()?.queries.clone();
        let last = queries.last_commit().await?;
        let place = match headers.get(LAST_EVENT_ID) {
            Some(id) => {
                let unknown = || AdminError::invalid("Last-Event-ID is no id of an event of this feed");
                let id = read_id(id).ok_or_else(unknown)?;
                // A later one is of another store: no change since then is known.
                if id > last { FIRST_PLACE } else { behind(id) }
            }
            None => behind(last),
        };
        let (generation, outbox) = (service.store.generation()?, queries.outbox_mark().await?);
        let credential = caller.admitted.identity().credential_watch();
        let told_at = Instant::now();
        Ok(Self { caller, credential, service, queries, place, generation, outbox, is_new: true, told_at, _slot: slot })
    }

    /// The next bytes of the feed. Called when the subscriber reads; ends with its credential, and with the server.
    async fn next(mut self) -> Option<(Result<Bytes, StoreError>, Self)> {
        loop {
            let app = &self.caller.app;
            let holds = |watch: &CredentialWatch| app.guard.check_credential(watch, TokioHost.now()).is_ok();
            if app.is_stopping() || !self.credential.as_ref().is_none_or(holds) {
                return None;
            }
            match self.changes().await {
                Ok(text) if !text.is_empty() => {
                    self.told_at = Instant::now();
                    return Some((Ok(text.into()), self));
                }
                Ok(_) if self.told_at.elapsed() >= COMMENT_INTERVAL => {
                    self.told_at = Instant::now();
                    return Some((Ok(Bytes::from_static(b":\n")), self));
                }
                Ok(_) => tokio::time::sleep(LOOK_INTERVAL).await,
                Err(error) => return Some((Err(error), self)),
            }
        }
    }

    /// The events since the last look.
    async fn changes(&mut self) -> Result<String, StoreError> {
        let mut text = String::new();
        if std::mem::take(&mut self.is_new) {
            text += &event("open", &json!({}), Some(self.place.commit));
        }
        match self.queries.changes_after(self.place, CHANGES_PER_READ).await? {
            Some(page) => text += &self.tell_tasks(page),
            None => {
                self.place = behind(self.queries.last_commit().await?);
                text += &event("reset", &json!({}), Some(self.place.commit));
            }
        }
        let generation = self.service.store.generation()?;
        if std::mem::replace(&mut self.generation, generation) != generation {
            text += &event("agents", &json!({}), None);
        }
        let outbox = self.queries.outbox_mark().await?;
        if std::mem::replace(&mut self.outbox, outbox) != outbox {
            text += &event("deliveries", &json!({"dead": outbox.dead}), None);
        }
        Ok(text)
    }

    /// The events of some changes. An id stands where no change of its commit follows.
    fn tell_tasks(&mut self, page: ChangePage) -> String {
        let Some(end) = page.end else { return String::new() };
        self.place = end;
        let mut tasks = page.tasks.into_iter().peekable();
        let mut text = String::new();
        while let Some(task) = tasks.next() {
            // The changes of the last commit may go on in the next read.
            let commit = task.place.commit;
            let is_end = tasks.peek().map_or(page.is_last || commit != end.commit, |next| next.place.commit != commit);
            let id = is_end.then_some(commit);
            text += &event("task", &json!(TaskSummaryView::from(task)), id);
        }
        text
    }
}

fn event(name: &str, data: &Value, id: Option<u64>) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {name}\ndata: {data}\n\n")
}

fn read_id(id: &HeaderValue) -> Option<u64> {
    id.to_str().ok()?.parse().ok().filter(|id| i64::try_from(*id).is_ok())
}

/// The place before all changes of a store.
const FIRST_PLACE: ChangePlace = ChangePlace { commit: 0, task: 0 };

/// The place behind all tasks of a commit.
const fn behind(commit: u64) -> ChangePlace {
    ChangePlace { commit, task: i64::MAX.cast_unsigned() }
}
