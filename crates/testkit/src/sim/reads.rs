//! Reads of clients: get, list, subscribe, and reads that must be refused.

use super::client::Client;
use super::endpoint::NoAnswer;
use sabir_proto::{Caller, Fault, GetTask, ListTasks, Seq, TaskId, Tenant};
use std::collections::BTreeSet;

impl Client {
    pub(super) async fn get(&mut self) {
        let Some(known) = self.any_known() else { return };
        self.get_task(known.agent, known.task).await;
    }

    /// Gets a task once, without a retry.
    pub(super) async fn get_task(&mut self, agent: usize, task: TaskId) {
        let scope = self.scope(agent);
        let call = GetTask { tenant: Tenant::none(), id: task.into(), history_length: None };
        match self.call(|engine| Box::pin(async move { engine.get(&scope, &call).await })).await {
            Ok(Ok((image, _))) => {
                if let Some(task) = self.context.observations.record_image_of_answer(self.number, &image) {
                    self.learn(agent, &task, None);
                }
            }
            Ok(Err(fault)) => {
                self.judge_refusal(&fault, "getting");
            }
            Err(NoAnswer) => {}
        }
    }

    /// Checks that another caller's task is not found.
    pub(super) async fn get_as_stranger(&mut self) {
        let Some(known) = self.any_known() else { return };
        let mut scope = (*self.scope(known.agent)).clone();
        scope.caller = Caller::named("stranger");
        let call = GetTask { tenant: Tenant::none(), id: known.task.into(), history_length: None };
        let answer = self.call(|engine| Box::pin(async move { engine.get(&scope, &call).await })).await;
        if !matches!(answer, Ok(Err(Fault::TaskNotFound(_))) | Err(NoAnswer)) {
            self.context
                .observations
                .record_violation("nobody_sees_another_callers_task", format!("task {}", known.task));
        }
    }

    /// Lists all pages while tasks change.
    pub(super) async fn list_all_pages(&mut self) {
        let Some(known) = self.any_known() else { return };
        let scope = self.scope(known.agent);
        let mine: Vec<TaskId> = self.known.iter().filter(|k| k.agent == known.agent).map(|k| k.task).collect();
        let mut seen = BTreeSet::new();
        let mut page_token = String::new();
        let began = self.now();
        loop {
            let call = ListTasks {
                page_size: Some(3),
                page_token: page_token.clone(),
                include_artifacts: Some(true),
                ..ListTasks::default()
            };
            let scope = scope.clone();
            let page = match self.call(|engine| Box::pin(async move { engine.list(scope, &call).await })).await {
                Ok(Ok(page)) => page,
                // A page token is valid in the next process.
                Err(NoAnswer) => {
                    if self.try_again(began, "listing").await {
                        continue;
                    }
                    return;
                }
                Ok(Err(fault)) => {
                    self.judge_refusal(&fault, "listing");
                    return;
                }
            };
            for image in &page.tasks {
                let Some(task) = self.context.observations.record_image_of_answer(self.number, image) else { return };
                if !seen.insert(task.id) {
                    let detail = format!("task {} came twice in one walk", task.id);
                    self.context.observations.record_violation("a_walk_neither_skips_nor_repeats", detail);
                }
                self.learn(known.agent, &task, None);
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
            self.rest(200).await;
        }
        if let Some(missing) = mine.iter().find(|task| !seen.contains(task)) {
            let detail = format!("task {missing} was known before the walk and not in it");
            self.context.observations.record_violation("a_walk_neither_skips_nor_repeats", detail);
        }
    }

    /// Subscribes to a known task, from a snapshot, the beginning, or an event in between.
    pub(super) async fn subscribe_to_known(&mut self) {
        let Some(known) = self.any_known() else { return };
        let last = match self.rng.below(3) {
            0 => None,
            1 => Some(Seq(0)),
            _ => Some(Seq(self.rng.between(1, 3))),
        };
        self.follow_task(known.agent, known.task, last).await;
    }
}
