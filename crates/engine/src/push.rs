//! Push notifications: configurations of tasks here, the way of events to their receivers in the rooms below.
//!
//! | Room | What is decided there |
//! |---|---|
//! | `drain` | what is delivered next, by how many at once, and what the outbox is told afterwards |
//! | `ready` | whose turn it is among those that are due: owners and their hosts in turn, each with its share |
//! | `breaker` | who is left alone, and for how long |
//! | `schedule` | when an event is tried again, and when it is given up |
//!
//! Every event is a row of the outbox before anybody hears of it, and leaves it only when its receiver has it, or as a dead
//! letter. What a crash cuts off is repeated under the same name; nothing is ever skipped.

mod breaker;
mod drain;
mod ready;
mod schedule;

pub(crate) use drain::Drainer;

use crate::courier::{Courier, NoCourier};
use crate::engine::{Core, Engine};
use sabir_proto::{DeletePush, Fault, FieldViolation, GetPush, ListPush, PushConfig, PushPage, TaskId, TaskRef};
use sabir_store::{Effect, Letter, Letters, Scope, Step, StoreError};
use std::sync::Arc;

/// Configurations on a page when the caller does not say, and at most.
const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 100;
/// Bytes of a token, or of credentials. They travel as a header, and receivers take no longer ones.
const SECRET_BYTES_MAX: usize = 8 << 10;

impl Engine {
    /// Begins to deliver what is owed, until the engine stops. The first courier stays; asking again changes nothing.
    pub fn start_deliveries(&self, courier: Arc<dyn Courier>) {
        let drainer = Arc::new(Drainer::new(courier, self.core.host.now()));
        if self.core.drainer.set(drainer.clone()).is_ok() {
            self.core.host.spawn(Box::pin(drain::drain(self.core.clone(), drainer)));
        }
    }

    /// Deliveries that are waiting for their receiver's answer, or for the store to be told of it.
    pub fn deliveries_in_flight(&self) -> usize {
        self.core.drainer.get().map_or(0, |drainer| drainer.in_flight())
    }

    /// What is owed to receivers, or was given up; for operators.
    pub async fn letters(&self, letters: Letters) -> Result<Vec<Letter>, StoreError> {
        self.core.log.letters(letters).await
    }

    /// One letter; for operators.
    pub async fn letter(&self, number: i64) -> Result<Option<Letter>, StoreError> {
        self.core.log.letter(number).await
    }

    /// Tries a letter now, dead or not; false when there is none of that number.
    pub async fn retry_letter(&self, number: i64) -> Result<bool, StoreError> {
        self.core.log.retry(number, self.core.host.now()).await
    }

    /// Forgets a letter; false when there is none of that number.
    pub async fn discard_letter(&self, number: i64) -> Result<bool, StoreError> {
        self.core.log.discard(number).await
    }

    /// Registers a configuration, to be told in this dialect; one with the same id is replaced.
    pub async fn create_push(
        &self,
        scope: &Scope,
        task: &TaskRef,
        config: PushConfig,
        dialect: &'static str,
    ) -> Result<(TaskId, PushConfig), Fault> {
        let id = self.find(scope, task).await?.id;
        check(&self.core, &config, "")?;
        let config = with_id(&self.core, config);
        self.commit_effect(id, register(&self.core, config.clone(), dialect)).await?;
        Ok((id, config.without_secrets()))
    }

    /// Reads one.
    pub async fn get_push(&self, scope: &Scope, call: &GetPush) -> Result<(TaskId, PushConfig), Fault> {
        let (id, configs) = self.pushes(scope, &call.task_id).await?;
        let missing = || Fault::PushConfigNotFound { task: call.task_id.clone(), config: call.id.clone() };
        let found = configs.into_iter().find(|c| c.id.as_deref() == Some(&*call.id)).ok_or_else(missing)?;
        Ok((id, found))
    }

    /// Lists them by id.
    pub async fn list_push(&self, scope: &Scope, call: &ListPush) -> Result<(TaskId, PushPage), Fault> {
        let size = match call.page_size {
            // Zero is how protobuf says "not set": this member has no presence.
            None | Some(0) => PAGE_DEFAULT,
            Some(n) => usize::try_from(n)
                .ok()
                .filter(|n| *n <= PAGE_MAX)
                .ok_or_else(|| Fault::invalid("pageSize", format!("must be between 1 and {PAGE_MAX}")))?,
        };
        let (id, configs) = self.pushes(scope, &call.task_id).await?;
        // The token is the last id shown; ids are what the list is ordered by.
        let after = |c: &PushConfig| call.page_token.is_empty() || c.id.as_deref() > Some(&*call.page_token);
        let mut rest: Vec<PushConfig> = configs.into_iter().filter(after).collect();
        let more = rest.len() > size;
        rest.truncate(size);
        let next_page_token = rest.last().filter(|_| more).and_then(|c| c.id.clone()).unwrap_or_default();
        Ok((id, PushPage { configs: rest, next_page_token }))
    }

    /// Deletes one; deleting what is not there succeeds.
    pub async fn delete_push(&self, scope: &Scope, call: &DeletePush) -> Result<(), Fault> {
        let id = self.find(scope, &call.task_id).await?.id;
        self.commit_effect(id, Effect::DeletePush { id: call.id.clone() }).await
    }

    async fn pushes(&self, scope: &Scope, task: &TaskRef) -> Result<(TaskId, Vec<PushConfig>), Fault> {
        let id = self.find(scope, task).await?.id;
        let configs = self.core.log.pushes(id).await;
        let configs = configs.map_err(|e| self.core.store_fault("reading push configs", &e))?;
        // The one place where a configuration leaves us: secrets are write-only.
        Ok((id, configs.into_iter().map(PushConfig::without_secrets).collect()))
    }

    async fn commit_effect(&self, id: TaskId, effect: Effect) -> Result<(), Fault> {
        let step = Step::bare(id, vec![effect]);
        self.core.log.append(step).await.map_err(|e| self.core.append_fault("storing a push config", &e))
    }
}

/// What registers a configuration in a step.
pub(crate) fn register(core: &Core, config: PushConfig, dialect: &'static str) -> Effect {
    let configs_max = core.limits.push_configs_max;
    // Checked before; what cannot be called queues under its own name until that is found out.
    let host = host_of(core, &config.url).unwrap_or_else(|_| config.url.as_str().into());
    Effect::PutPush { config: with_id(core, config), dialect: dialect.into(), host, at: core.host.now(), configs_max }
}

/// Whom a URL names, by the rules of whoever will call it.
fn host_of(core: &Core, url: &str) -> Result<Arc<str>, String> {
    match core.drainer.get() {
        Some(drainer) => drainer.courier().host_of(url),
        None => NoCourier.host_of(url),
    }
}

/// Gives a configuration an id if it has none.
fn with_id(core: &Core, mut config: PushConfig) -> PushConfig {
    config.id.get_or_insert_with(|| core.new_id().to_string());
    config
}

/// What can be told about a configuration without calling anybody.
pub(crate) fn check(core: &Core, config: &PushConfig, at: &str) -> Result<(), Fault> {
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
    if let Some(Err(FieldViolation { field, description })) = core.drainer.get().map(|d| d.courier().check(config)) {
        return Err(Fault::invalid(format!("{at}{field}"), description));
    }
    if config.id.as_ref().is_some_and(|id| id.len() > 256 || id.chars().any(char::is_control)) {
        return Err(Fault::invalid(format!("{at}id"), "must be at most 256 characters without control characters"));
    }
    Ok(())
}
