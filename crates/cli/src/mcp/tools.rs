//! The tools: one table from which come what is offered, what is refused, and what is done.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use sabir_proto::ToolMode;
use serde_json::{Value, json};
use std::sync::Arc;

/// What goes before the names of tools that take an account.
const CHAIN: &str = "xpr_";

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Discover,
    Send,
    Get,
    Cancel,
    Delegate,
}

/// How a tool finds its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// A URL, or the agent of `--agent-card`.
    Reference,
    /// An account on chain.
    Account,
}

/// What is offered in this run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) mode: ToolMode,
    /// Whether a node of the chain is known.
    pub(super) chain: bool,
}

struct Row {
    name: &'static str,
    deed: Deed,
    reads: bool,
    about: &'static str,
}

const TOOLS: [Row; 5] = [
    Row {
        name: "a2a_discover",
        deed: Deed::Discover,
        reads: true,
        about: "Reads the card of an A2A agent: what it does, its skills, what it speaks and which credentials it asks for.",
    },
    Row {
        name: "a2a_send_message",
        deed: Deed::Send,
        reads: false,
        about: "Sends a message to an A2A agent and waits for its answer. Give taskId to answer a question of a task, \
                contextId to go on in a conversation. If the state is still working, ask a2a_get_task later.",
    },
    Row {
        name: "a2a_get_task",
        deed: Deed::Get,
        reads: true,
        about: "Reads a task of an A2A agent: its state, its answer so far, and what it asks, if it does.",
    },
    Row { name: "a2a_cancel_task", deed: Deed::Cancel, reads: false, about: "Cancels a task of an A2A agent." },
    Row {
        name: "a2a_delegate_job",
        deed: Deed::Delegate,
        reads: false,
        about: "Passes a job on to an A2A agent, with instructions. The first call only shows what would be sent \
                (needs_confirmation); call again with confirmed = true once the user agrees.",
    },
];

impl Offer {
    /// The tools as MCP lists them.
    pub(super) fn list(self) -> Vec<Tool> {
        self.each().map(|(by, row)| tool(by, row)).collect()
    }

    /// What a tool of this name does; `None` where it is not offered.
    pub(super) fn find(self, name: &str) -> Option<(By, Deed)> {
        self.each().find(|(by, row)| full_name(*by, row) == name).map(|(by, row)| (by, row.deed))
    }

    /// What is wrong with the arguments of a call, by the schema that the tool shows.
    pub(super) fn check(by: By, deed: Deed, arguments: &JsonObject) -> Result<(), String> {
        let schema = schema(by, deed);
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

    fn each(self) -> impl Iterator<Item = (By, &'static Row)> {
        let ways = [Some(By::Reference), self.chain.then_some(By::Account)];
        let all = ways.into_iter().flatten().flat_map(|by| TOOLS.iter().map(move |row| (by, row)));
        all.filter(move |(by, row)| self.mode.allows(&full_name(*by, row), Some(row.reads)))
    }
}

fn full_name(by: By, row: &Row) -> String {
    match by {
        By::Reference => row.name.to_owned(),
        By::Account => format!("{CHAIN}{}", row.name),
    }
}

fn tool(by: By, row: &Row) -> Tool {
    let about = match (by, row.deed) {
        (By::Reference, _) => row.about.to_owned(),
        (By::Account, Deed::Delegate) => {
            format!("{} The agent is found by its account on XPR Network, and the job is read from escrow.", row.about)
        }
        (By::Account, _) => format!("{} The agent is found by its account on XPR Network.", row.about),
    };
    let destructive = matches!(row.deed, Deed::Cancel | Deed::Delegate);
    let hints = ToolAnnotations::new().read_only(row.reads).destructive(destructive).open_world(true);
    Tool::new(full_name(by, row), about, schema(by, row.deed)).with_annotations(hints)
}

/// What a tool takes, as JSON Schema.
fn schema(by: By, deed: Deed) -> Arc<JsonObject> {
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
    match by {
        By::Reference => {
            member("agent", text("URL of the agent or its card; the configured agent if it is left out"), false)
        }
        By::Account => member("account", text("Account of the agent on XPR Network"), true),
    }
    match deed {
        Deed::Discover => {}
        Deed::Send => {
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
        Deed::Get | Deed::Cancel => member("taskId", text("The task"), true),
        Deed::Delegate => {
            member("jobId", number("Number of the job"), by == By::Account);
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
        Offer { mode, chain }.list().iter().map(|tool| tool.name.to_string()).collect()
    }

    #[test]
    fn only_tools_that_look_are_offered_where_nothing_may_change() {
        assert_eq!(names(ToolMode::Full, false).len(), 5);
        assert_eq!(names(ToolMode::Full, true).len(), 10);
        assert_eq!(names(ToolMode::ReadOnly, false), ["a2a_discover", "a2a_get_task"]);
        let both = ["a2a_discover", "a2a_get_task", "xpr_a2a_discover", "xpr_a2a_get_task"];
        assert_eq!(names(ToolMode::ReadOnly, true), both);
        let offer = Offer { mode: ToolMode::ReadOnly, chain: false };
        assert_eq!(offer.find("a2a_send_message"), None);
        assert_eq!(offer.find("xpr_a2a_get_task"), None);
        assert_eq!(offer.find("a2a_get_task"), Some((By::Reference, Deed::Get)));
    }

    #[test]
    fn arguments_that_the_schema_does_not_allow_are_refused() {
        let check = |arguments: Value| Offer::check(By::Reference, Deed::Send, arguments.as_object().unwrap());
        assert_eq!(check(json!({"text": "hi", "taskId": null, "waitSeconds": 3, "data": [1]})), Ok(()));
        let unknown = check(json!({"text": "hi", "task": "t-1"})).unwrap_err();
        assert!(unknown.starts_with("there is no argument \"task\"; this tool takes "), "{unknown}");
        assert_eq!(check(json!({})).unwrap_err(), "the argument \"text\" is missing");
        assert_eq!(check(json!({"text": 5})).unwrap_err(), "the argument \"text\" must be of the type string");
    }

    #[test]
    fn every_tool_says_what_it_takes() {
        for tool in (Offer { mode: ToolMode::Full, chain: true }).list() {
            let schema = tool.schema_as_json_value();
            let properties = schema["properties"].as_object().unwrap();
            for name in schema["required"].as_array().unwrap() {
                assert!(properties.contains_key(name.as_str().unwrap()), "{name} of {}", tool.name);
            }
            assert_eq!(properties.contains_key("account"), tool.name.starts_with(CHAIN), "{}", tool.name);
        }
    }
}
