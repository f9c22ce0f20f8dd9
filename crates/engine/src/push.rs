//! Push notifications: the configurations of tasks. The submodules deliver events to their receivers.
//!
//! | Module | What it decides |
//! |---|---|
//! | `drain` | which events are delivered next, how many at once, and what the outbox records afterwards |
//! | `ready_queue` | the order of due deliveries: owners and their hosts in turn, each with its share |
//! | `breaker` | which receivers get no requests for a while after failures |
//! | `schedule` | when an event is retried, and when it becomes a dead letter |
//!
//! Every event is a row of the outbox before any reader sees it. It leaves the outbox only when its receiver has it, or
//! as a dead letter. A delivery cut off by a crash is repeated with the same id; none is skipped.

mod breaker;
mod drain;
mod ready_queue;
mod schedule;

pub(crate) use drain::Drainer;

use crate::engine::{Core, Engine};
use crate::push_transport::{NoPushTransport, PushTransport};
use sabir_proto::{DeletePush, Fault, FieldViolation, GetPush, ListPush, PushConfig, PushPage, TaskId, TaskRef};
use sabir_store::{Delivery, DeliveryQuery, Effect, Scope, Step, StoreError};
use std::sync::Arc;

/// Configurations on a page when the caller does not say, and at most.
const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 100;
/// The longest token or credentials, in bytes. They travel as a header, and receivers take no longer ones.
const SECRET_BYTES_MAX: usize = 8 << 10;

impl Engine {
    /// Starts the deliveries, until the engine stops. Later calls change nothing.
    pub fn start_deliveries(&self, courier: Arc<dyn PushTransport>) {
        let drainer = Arc::new(Drainer::new(courier, self.core.host.now()));
        if self.core.drainer.set(drainer.clone()).is_ok() {
            self.core.host.spawn(Box::pin(drain::drain(self.core.clone(), drainer)));
        }
    }

    /// Deliveries that wait for their receiver's answer, or for the store to record it.
    pub fn deliveries_in_flight(&self) -> usize {
        self.core.drainer.get().map_or(0, |drainer| drainer.in_flight())
    }

    /// Lists pending deliveries or dead letters; for operators.
    pub async fn deliveries(&self, letters: DeliveryQuery) -> Result<Vec<Delivery>, StoreError> {
        self.core.log.deliveries(letters).await
    }

    /// Finds one delivery by its number; for operators.
    pub async fn delivery(&self, number: i64) -> Result<Option<Delivery>, StoreError> {
        self.core.log.delivery(number).await
    }

    /// Retries a delivery now, dead or not; false when there is none of that number.
    pub async fn retry_delivery(&self, number: i64) -> Result<bool, StoreError> {
        self.core.log.retry(number, self.core.host.now()).await
    }

    /// Registers a configuration, for payloads in this dialect; one with the same id is replaced.
    pub async fn create_push(
        &self,
        scope: &Scope,
        task: &TaskRef,
        config: PushConfig,
        dialect: &'static str,
    ) -> Result<(TaskId, PushConfig), Fault> {
        let id = self.find(scope, task).await?.id;
        check_config(&self.core, &config, "")?;
        let config = with_id(&self.core, config);
        self.commit_effect(id, registration_effect(&self.core, config.clone(), dialect)).await?;
        Ok((id, config.without_secrets()))
    }

    /// Reads a configuration, without its secrets.
    pub async fn get_push(&self, scope: &Scope, call: &GetPush) -> Result<(TaskId, PushConfig), Fault> {
        let (id, configs) = self.push_configs(scope, &call.task_id).await?;
        let missing = || Fault::PushConfigNotFound { task: call.task_id.clone(), config: call.id.clone() };
        let found = configs.into_iter().find(|c| c.id.as_deref() == Some(&*call.id)).ok_or_else(missing)?;
        Ok((id, found))
    }

    /// Lists the configurations of a task by id, without their secrets.
    pub async fn list_push(&self, scope: &Scope, call: &ListPush) -> Result<(TaskId, PushPage), Fault> {
        let size = match call.page_size {
            // Zero is how protobuf says "not set": this member has no presence.
            None | Some(0) => PAGE_DEFAULT,
            Some(n) => usize::try_from(n)
                .ok()
                .filter(|n| *n <= PAGE_MAX)
                .ok_or_else(|| Fault::invalid("pageSize", format!("must be between 1 and {PAGE_MAX}")))?,
        };
        let (id, configs) = self.push_configs(scope, &call.task_id).await?;
        // The token is the last id shown; ids are what the list is ordered by.
        let after = |c: &PushConfig| call.page_token.is_empty() || c.id.as_deref() > Some(&*call.page_token);
        let mut rest: Vec<PushConfig> = configs.into_iter().filter(after).collect();
        let more = rest.len() > size;
        rest.truncate(size);
        let next_page_token = rest.last().filter(|_| more).and_then(|c| c.id.clone()).unwrap_or_default();
        Ok((id, PushPage { configs: rest, next_page_token }))
    }

    /// Deletes a configuration; deleting a missing one succeeds.
    pub async fn delete_push(&self, scope: &Scope, call: &DeletePush) -> Result<(), Fault> {
        let id = self.find(scope, &call.task_id).await?.id;
        self.commit_effect(id, Effect::DeletePush { id: call.id.clone() }).await
    }

    async fn push_configs(&self, scope: &Scope, task: &TaskRef) -> Result<(TaskId, Vec<PushConfig>), Fault> {
        let id = self.find(scope, task).await?.id;
        let configs = self.core.log.pushes(id).await;
        let configs = configs.map_err(|e| self.core.store_fault("reading push configs", &e))?;
        // The one place where configurations are read out: secrets are write-only.
        Ok((id, configs.into_iter().map(PushConfig::without_secrets).collect()))
    }

    async fn commit_effect(&self, id: TaskId, effect: Effect) -> Result<(), Fault> {
        let step = Step::effects_only(id, vec![effect]);
        self.core.log.append(step).await.map_err(|e| self.core.append_fault("storing a push config", &e))
    }
}

/// The effect that registers a configuration.
pub(crate) fn registration_effect(core: &Core, config: PushConfig, dialect: &'static str) -> Effect {
    let configs_max = core.limits.push_configs_max;
    // Checked before; an uncallable URL queues under its own name until its delivery fails.
    let host = host_of(core, &config.url).unwrap_or_else(|_| config.url.as_str().into());
    Effect::PutPush { config: with_id(core, config), dialect: dialect.into(), host, at: core.host.now(), configs_max }
}

/// The host of a URL, in the spelling of the transport that will call it.
fn host_of(core: &Core, url: &str) -> Result<Arc<str>, String> {
    match core.drainer.get() {
        Some(drainer) => drainer.transport().host_of(url),
        None => NoPushTransport.host_of(url),
    }
}

/// Gives a configuration an id if it has none.
fn with_id(core: &Core, mut config: PushConfig) -> PushConfig {
    config.id.get_or_insert_with(|| core.new_id().to_string());
    config
}

/// Checks a configuration without calling its receiver.
pub(crate) fn check_config(core: &Core, config: &PushConfig, at: &str) -> Result<(), Fault> {
    let scheme = config.url.split_once("://").map_or("", |(scheme, _)| scheme);
    let web = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !web || config.url.len() > 2048 || config.url.chars().any(|c| c.is_control() || c == ' ') {
        return Err(Fault::invalid(format!("{at}url"), "must be an http or https URL of at most 2048 characters"));
    }
    host_of(core, &config.url).map_err(|reason| Fault::invalid(format!("{at}url"), reason))?;
    let authentication = config.authentication.as_ref();
    let secrets = [config.token.as_ref(), authentication.and_then(|a| a.credentials.as_ref())];
    if secrets.into_iter().flatten().any(|secret| secret.len() > SECRET_BYTES_MAX) {
        let what = format!("token and credentials have at most {SECRET_BYTES_MAX} bytes each");
        return Err(Fault::invalid(at.trim_end_matches('.').to_owned(), what));
    }
    if let Some(Err(FieldViolation { field, description })) = core.drainer.get().map(|d| d.transport().check(config)) {
        return Err(Fault::invalid(format!("{at}{field}"), description));
    }
    if config.id.as_ref().is_some_and(|id| id.len() > 256 || id.chars().any(char::is_control)) {
        return Err(Fault::invalid(format!("{at}id"), "must be at most 256 characters without control characters"));
    }
    Ok(())
}
