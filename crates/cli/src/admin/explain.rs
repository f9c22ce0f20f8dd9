//! `sabir explain`: which rule allows or refuses.

use super::{ServerFiles, block_on};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use clap::{Args, ValueEnum};
use sabir_server::explain::{AccessQuestion, Action, Explanation, explain};
use serde_json::json;

/// Say which rule would allow or refuse a call, and why.
///
/// The rules are asked in the order in which they decide about calls, up to the one that refuses. No call is made, and
/// nothing is counted. Callers are named as in the audit: anonymous, key:ID, xpr:ACCOUNT, jwt:ISSUER#SUBJECT,
/// basic:NAME, mtls:dns:HOST, legacy:key.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir explain --as anonymous\n  \
    sabir explain --as key:k_4f2a --agent billing --skill refund\n  \
    sabir explain --as xpr:alice --operation cancel\n\n\
    Exit code 0: it would be allowed. 1: it would be refused.")]
pub(crate) struct Explain {
    /// The caller.
    #[arg(long = "as", value_name = "CALLER")]
    caller: String,
    /// The agent; the default one if none is named.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The skill that the call asks for.
    #[arg(long, value_name = "ID")]
    skill: Option<String>,
    /// What the call does.
    #[arg(long, value_enum, default_value_t = Operation::Send)]
    operation: Operation,
    /// A scope of the caller's token, for callers of an issuer.
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    #[command(flatten)]
    server: ServerFiles,
}

/// What a call does, as scopes name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    Send,
    Read,
    Cancel,
    Push,
    Card,
}

impl From<Operation> for Action {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Send => Self::Send,
            Operation::Read => Self::Read,
            Operation::Cancel => Self::Cancel,
            Operation::Push => Self::Push,
            Operation::Card => Self::Card,
        }
    }
}

impl Verb for Explain {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let question = AccessQuestion {
            caller: self.caller,
            scopes: self.scope,
            action: self.operation.into(),
            skill: self.skill,
        };
        let explained = block_on(explain(&config, self.agent.as_deref(), &question))?;
        let explained = explained.map_err(|e| Problem::usage(e.to_string()).hint("sabir explain --help"))?;
        if out.is_json() {
            out.document(&explanation_json(&explained).to_string())?;
        }
        out.text(|fields| {
            fields.field("Caller", &explained.caller);
            for line in &explained.decisions {
                let said = if line.passed { "passes" } else { "REFUSES" };
                fields.field(line.rule, &format!("{said}: {}", line.why));
            }
            fields.field("Decision", if explained.allowed() { "allowed" } else { "refused" });
        })?;
        Ok(if explained.allowed() { Exit::Done } else { Exit::Failed })
    }
}

fn explanation_json(explained: &Explanation) -> serde_json::Value {
    let lines = explained.decisions.iter();
    let rules: Vec<_> = lines.map(|line| json!({"rule": line.rule, "passed": line.passed, "why": line.why})).collect();
    json!({"caller": explained.caller, "allowed": explained.allowed(), "rules": rules})
}
