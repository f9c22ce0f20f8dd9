//! The tools: one table decides which are offered, which calls are refused, and what each tool does.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use sabir_proto::ToolMode;
use serde_json::{Value, json};
use std::sync::Arc;

/// What goes before the names of tools that take an account.
const CHAIN_PREFIX: &str = "xpr_";

/// The operation that a tool performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolAction {
    Discover,
    Send,
    Get,
    Cancel,
    Delegate,
}

/// How a tool finds its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentLookup {
    /// A URL, or the agent of `--agent-card`.
    Reference,
    /// An account on chain.
    Account,
}

/// What is offered in this run.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfferedTools {
    pub(super) mode: ToolMode,
    /// Whether a node of the chain is known.
    pub(super) chain: bool,
}

struct ToolDefinition {
    name: &'static str,
    action: ToolAction,
    reads: bool,
    about: &'static str,
}

const TOOLS: [ToolDefinition; 5] = [
    ToolDefinition {
        name: "a2a_discover",
        action: ToolAction::Discover,
        reads: true,
        about: "Reads the card of an A2A agent: what it does, its skills, what it speaks and which credentials it asks for.",
    },
    ToolDefinition {
        name: "a2a_send_message",
        action: ToolAction::Send,
        reads: false,
        about: "Sends a message to an A2A agent and waits for its answer. Give taskId to answer a question of a task, \
                contextId to go on in a conversation. If the state is still working, ask a2a_get_task later.",
    },
    ToolDefinition {
        name: "a2a_get_task",
        action: ToolAction::Get,
        reads: true,
        about: "Reads a task of an A2A agent: its state, its answer so far, and what it asks, if it does.",
    },
    ToolDefinition {
        name: "a2a_cancel_task",
        action: ToolAction::Cancel,
        reads: false,
        about: "Cancels a task of an A2A agent.",
    },
    ToolDefinition {
        name: "a2a_delegate_job",
        action: ToolAction::Delegate,
        reads: false,
        about: "Passes a job on to an A2A agent, with instructions. The first call only shows what would be sent \
                (needs_confirmation); call again with confirmed = true once the user agrees.",
    },
];

impl OfferedTools {
    /// The tools as MCP lists them.
    pub(super) fn list(self) -> Vec<Tool> {
        self.definitions().map(|(lookup, row)| tool(lookup, row)).collect()
    }

    /// What a tool of this name does; `None` where it is not offered.
    pub(super) fn find(self, name: &str) -> Option<(AgentLookup, ToolAction)> {
        self.definitions()
            .find(|(lookup, row)| full_name(*lookup, row) == name)
            .map(|(lookup, row)| (lookup, row.action))
    }

    /// What is wrong with the arguments of a call, by the schema that the tool shows.
    pub(super) fn check(lookup: AgentLookup, action: ToolAction, arguments: &JsonObject) -> Result<(), String> {
        let schema = schema(lookup, action);
        let Some(members) = schema["properties"].as_object() else { return Ok(()) };
        let listed = || members.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        for (name, value) in arguments {
            let Some(member) = members.get(name) else {
                return Err(format!("there is no argument {name:?}; this tool takes {}", listed()));
            };
            let is_right = match member["type"].as_str() {
                Some("string") => value.is_string(),
                Some("boolean") => value.is_boolean(),
                _ => true,
            };
            // A client may send null for what it leaves out. Models write numbers as text, so numbers are checked where they
            // are read.
            if !is_right && !value.is_null() {
                let kind = member["type"].as_str().unwrap_or_default();
                return Err(format!("the argument {name:?} must be of the type {kind}"));
            }
        }
        let is_missing = |name: &&str| arguments.get(*name).is_none_or(Value::is_null);
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        required.into_iter().find(is_missing).map_or(Ok(()), |name| Err(format!("the argument {name:?} is missing")))
    }

    fn definitions(self) -> impl Iterator<Item = (AgentLookup, &'static ToolDefinition)> {
        let ways = [Some(AgentLookup::Reference), self.chain.then_some(AgentLookup::Account)];
        let all = ways.into_iter().flatten().flat_map(|lookup| TOOLS.iter().map(move |row| (lookup, row)));
        all.filter(move |(lookup, row)| self.mode.allows(&full_name(*lookup, row), Some(row.reads)))
    }
}

fn full_name(lookup: AgentLookup, row: &ToolDefinition) -> String {
    match lookup {
        AgentLookup::Reference => row.name.to_owned(),
        AgentLookup::Account => format!("{CHAIN_PREFIX}{}", row.name),
    }
}

fn tool(lookup: AgentLookup, row: &ToolDefinition) -> Tool {
    let about = match (lookup, row.action) {
        (AgentLookup::Reference, _) => row.about.to_owned(),
        (AgentLookup::Account, ToolAction::Delegate) => {
            format!("{} The agent is found by its account on XPR Network, and the job is read from escrow.", row.about)
        }
        (AgentLookup::Account, _) => format!("{} The agent is found by its account on XPR Network.", row.about),
    };
    let destructive = matches!(row.action, ToolAction::Cancel | ToolAction::Delegate);
    let hints = ToolAnnotations::new().read_only(row.reads).destructive(destructive).open_world(true);
    Tool::new(full_name(lookup, row), about, schema(lookup, row.action)).with_annotations(hints)
}

/// What a tool takes, as JSON Schema.
fn schema(lookup: AgentLookup, action: ToolAction) -> Arc<JsonObject> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let number = |about: &str| json!({"type": "integer", "minimum": 0, "description": about});
    let mut members = JsonObject::new();
    let mut required: Vec<&str> = Vec::new();
    let mut member = |name: &'static str, value: Value, needed: bool| {
        members.insert(name.into(), value);
        if needed {
            required.push(name);
        }
    };
    match lookup {
        AgentLookup::Reference => {
            member("agent", text("URL of the agent or its card; the configured agent if it is left out"), false)
        }
        AgentLookup::Account => member("account", text("Account of the agent on XPR Network"), true),
    }
    match action {
        ToolAction::Discover => {}
        ToolAction::Send => {
            member("text", text("What to say"), true);
            member("data", json!({"description": "JSON to send along, as a data part"}), false);
            member("taskId", text("Task to answer"), false);
            member("contextId", text("Conversation to go on in"), false);
            member("skill", text("Skill to ask for"), false);
            member("jobId", number("Job on XPR Network that the message belongs to"), false);
            member(
                "waitSeconds",
                number("How long to wait for the answer; 60 unless said otherwise, at most 600"),
                false,
            );
        }
        ToolAction::Get | ToolAction::Cancel => member("taskId", text("The task"), true),
        ToolAction::Delegate => {
            member("jobId", number("Number of the job"), lookup == AgentLookup::Account);
            member("instructions", text("What the agent is to do"), true);
            member("confirmed", json!({"type": "boolean", "description": "Whether the user has agreed"}), false);
        }
    }
    let schema = json!({"type": "object", "properties": members, "required": required, "additionalProperties": false});
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(mode: ToolMode, chain: bool) -> Vec<String> {
        OfferedTools { mode, chain }.list().iter().map(|tool| tool.name.to_string()).collect()
    }

    #[test]
    fn only_tools_that_look_are_offered_where_nothing_may_change() {
        assert_eq!(names(ToolMode::Full, false).len(), 5);
        assert_eq!(names(ToolMode::Full, true).len(), 10);
        assert_eq!(names(ToolMode::ReadOnly, false), ["a2a_discover", "a2a_get_task"]);
        let both = ["a2a_discover", "a2a_get_task", "xpr_a2a_discover", "xpr_a2a_get_task"];
        assert_eq!(names(ToolMode::ReadOnly, true), both);
        let offered = OfferedTools { mode: ToolMode::ReadOnly, chain: false };
        assert_eq!(offered.find("a2a_send_message"), None);
        assert_eq!(offered.find("xpr_a2a_get_task"), None);
        assert_eq!(offered.find("a2a_get_task"), Some((AgentLookup::Reference, ToolAction::Get)));
    }

    #[test]
    fn arguments_that_the_schema_does_not_allow_are_refused() {
        let check = |arguments: Value| {
            OfferedTools::check(AgentLookup::Reference, ToolAction::Send, arguments.as_object().unwrap())
        };
        assert_eq!(check(json!({"text": "hi", "taskId": null, "waitSeconds": 3, "data": [1]})), Ok(()));
        let unknown = check(json!({"text": "hi", "task": "t-1"})).unwrap_err();
        assert!(unknown.starts_with("there is no argument \"task\"; this tool takes "), "{unknown}");
        assert_eq!(check(json!({})).unwrap_err(), "the argument \"text\" is missing");
        assert_eq!(check(json!({"text": 5})).unwrap_err(), "the argument \"text\" must be of the type string");
    }

    #[test]
    fn every_tool_says_what_it_takes() {
        for tool in (OfferedTools { mode: ToolMode::Full, chain: true }).list() {
            let schema = tool.schema_as_json_value();
            let properties = schema["properties"].as_object().unwrap();
            for name in schema["required"].as_array().unwrap() {
                assert!(properties.contains_key(name.as_str().unwrap()), "{name} of {}", tool.name);
            }
            assert_eq!(properties.contains_key("account"), tool.name.starts_with(CHAIN_PREFIX), "{}", tool.name);
        }
    }
}
