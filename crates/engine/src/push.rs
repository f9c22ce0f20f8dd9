//! Push notification configurations of tasks. Delivery is not built yet; what is owed waits in the outbox.

use crate::engine::{Core, Engine};
use sabir_proto::{DeletePush, Fault, GetPush, ListPush, PushConfig, PushPage, Seq, TaskId, TaskRef};
use sabir_store::{Effect, Scope, Step};

/// Configurations on a page when the caller does not say, and at most.
const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 100;

impl Engine {
    /// Registers a configuration; one with the same id is replaced.
    pub async fn create_push(
        &self,
        scope: &Scope,
        task: &TaskRef,
        config: PushConfig,
    ) -> Result<(TaskId, PushConfig), Fault> {
        let id = self.find(scope, task).await?.id;
        check(&config, "")?;
        let config = with_id(&self.core, config);
        let most = self.core.limits.push_configs_max;
        self.commit_effect(id, Effect::PutPush { config: config.clone(), configs_max: most }).await?;
        Ok((id, config))
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
        Ok((id, configs.map_err(|e| self.core.store_fault("reading push configs", &e))?))
    }

    async fn commit_effect(&self, id: TaskId, effect: Effect) -> Result<(), Fault> {
        let step = Step {
            task: id,
            opening: None,
            after: Seq(0),
            events: Vec::new(),
            snapshot: None,
            placement: None,
            turn: None,
            checkpoint: None,
            retry: None,
            notify: false,
            effects: vec![effect],
        };
        self.core.log.append(step).await.map_err(|e| self.core.append_fault("storing a push config", &e))
    }
}

/// Gives a configuration an id if it has none.
pub(crate) fn with_id(core: &Core, mut config: PushConfig) -> PushConfig {
    config.id.get_or_insert_with(|| core.new_id().to_string());
    config
}

/// What can be told about a configuration without calling anybody.
pub(crate) fn check(config: &PushConfig, at: &str) -> Result<(), Fault> {
    let web = config.url.starts_with("http://") || config.url.starts_with("https://");
    if !web || config.url.len() > 2048 || config.url.chars().any(|c| c.is_control() || c == ' ') {
        return Err(Fault::invalid(format!("{at}url"), "must be an http or https URL of at most 2048 characters"));
    }
    if config.id.as_ref().is_some_and(|id| id.len() > 256 || id.chars().any(char::is_control)) {
        return Err(Fault::invalid(format!("{at}id"), "must be at most 256 characters without control characters"));
    }
    Ok(())
}
