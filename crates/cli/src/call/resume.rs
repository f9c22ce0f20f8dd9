//! The commands that continue a task. They are printed, so that a user need not remember anything between two runs.

use crate::render::shell;
use crate::settings::{SettingSource, Settings};

/// Commands that continue what this one began.
#[derive(Debug, Clone)]
pub(crate) struct Resume {
    flags: String,
}

impl Resume {
    pub(crate) fn new(settings: &Settings) -> Self {
        // What the command needs to reach the same agent in the same way. Credentials are not among it, and neither is what
        // comes from a variable or a file: that is still there.
        let repeated = [
            &settings.agent_card.given,
            &settings.config.given,
            &settings.a2a_version.given,
            &settings.transport.given,
            &settings.extension.given,
            &settings.ca_cert.given,
            &settings.client_cert.given,
            &settings.client_key.given,
            &settings.xpr_account.given,
            &settings.as_user.given,
            &settings.card_trust.given,
            &settings.trusted_keys.given,
            &settings.trusted_ca.given,
            &settings.key_registry.given,
        ];
        let mut flags = String::new();
        for given in repeated.into_iter().filter(|given| given.source == SettingSource::Flag) {
            given.values.iter().for_each(|value| flags += &format!(" --{} {}", given.setting.flag, shell(value)));
        }
        for switch in [&settings.insecure, &settings.card_roots_only] {
            if switch.is_typed() && switch.is_on() {
                flags += &format!(" --{}", switch.given.setting.flag);
            }
        }
        Self { flags }
    }

    /// The same for the agent to which the task was handed.
    pub(crate) fn at_agent(url: &str) -> Self {
        Self { flags: format!(" --agent-card {}", shell(url)) }
    }

    /// The command that answers a task which waits for input.
    pub(crate) fn reply(&self, task: &str) -> String {
        format!("sabir send{} --task-id {} \"<reply>\"", self.flags, shell(task))
    }

    /// The command that waits for a running task.
    pub(crate) fn wait_for_task(&self, task: &str) -> String {
        format!("sabir task get{} {} --wait", self.flags, shell(task))
    }

    /// The command that says more in the context of a settled task.
    pub(crate) fn continue_context(&self, context: &str) -> String {
        format!("sabir send{} --context-id {} \"<message>\"", self.flags, shell(context))
    }

    /// Any other command against the same agent.
    pub(crate) fn command(&self, words: &str) -> String {
        format!("sabir {words}{}", self.flags)
    }

    /// What can be done with a task in this state. An agent that waits for an authorisation may go on by itself once it
    /// has it, so there are two ways.
    pub(crate) fn for_state(&self, task: &str, context: Option<&str>, state: &str) -> Vec<String> {
        match state {
            "TASK_STATE_INPUT_REQUIRED" => vec![self.reply(task)],
            "TASK_STATE_AUTH_REQUIRED" => vec![self.reply(task), self.wait_for_task(task)],
            "TASK_STATE_COMPLETED" | "TASK_STATE_FAILED" | "TASK_STATE_CANCELED" | "TASK_STATE_REJECTED" => {
                context.map(|context| self.continue_context(context)).into_iter().collect()
            }
            _ => vec![self.wait_for_task(task)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Layers, arguments};

    fn resume(typed: &[&str]) -> Resume {
        let layers = Layers::default();
        let command = arguments(clap::Command::new("sabir"), "send", &layers);
        let matches = command.try_get_matches_from([&["sabir"], typed].concat()).unwrap();
        Resume::new(&Settings::resolve(&layers, &[&matches]).unwrap())
    }

    #[test]
    fn a_command_to_go_on_with_names_the_agent_and_no_credential() {
        let typed = resume(&["-a", "https://a.example", "--bearer", "secret", "--a2a-version", "0.3"]);
        assert_eq!(
            typed.for_state("t 1", Some("c"), "TASK_STATE_INPUT_REQUIRED"),
            ["sabir send --agent-card https://a.example --a2a-version 0.3 --task-id 't 1' \"<reply>\""]
        );
        let configured = resume(&[]);
        assert_eq!(
            configured.for_state("t", Some("c"), "TASK_STATE_COMPLETED"),
            ["sabir send --context-id c \"<message>\""]
        );
        assert_eq!(configured.for_state("t", None, "TASK_STATE_COMPLETED"), Vec::<String>::new());
        assert_eq!(configured.for_state("t", Some("c"), "TASK_STATE_WORKING"), ["sabir task get t --wait"]);
        assert_eq!(configured.for_state("t", None, "TASK_STATE_AUTH_REQUIRED").len(), 2);
    }
}
