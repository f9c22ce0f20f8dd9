//! `sabir task wire`: the recorded exchanges of a task.

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::ListExchanges;
use serde_json::Value;

/// Show what was said on the wire about a task: by its caller to the server, and by the server to an agent elsewhere.
///
/// A server keeps exchanges that ended in an error, unless [debug] wire says "all" or "off". Secrets are taken out before
/// they are kept, long bodies are cut, and the oldest go when there are 64 MiB of them. Events of a caller's stream are
/// those of the task (sabir task get), and what is said over gRPC is not kept.
///
/// This looks into the files of a server, whether it runs or not.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir task wire 0198c0de-…\n  \
    sabir task wire 0198c0de-… --data /var/lib/sabir -o json")]
pub(crate) struct TaskWire {
    /// The task, by the id that the server gave it.
    #[arg(value_name = "TASK_ID")]
    task: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for TaskWire {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let list = self.server.ask(ListExchanges { task: self.task.clone() })?;
        print_json(&out, &list)?;
        let kept = list.exchanges;
        if !out.is_json() && kept.is_empty() {
            let words = format!("nothing is kept of what was said about {}", self.task);
            let hint = "errors are kept by default; wire = \"all\" in [debug] keeps everything from then on";
            return Err(Problem::new(ErrorCode::Vendor("SABIR_ERR_NOT_KEPT"), words).hint(hint).into());
        }
        out.text(|fields| {
            kept.iter().for_each(|exchange| write_exchange(fields, exchange));
            fields.field("Total", &kept.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

fn write_exchange(fields: &mut Fields, exchange: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    fields.field("Leg", &text(&exchange["leg"]));
    let (request, answer) = (&exchange["request"], &exchange["answer"]);
    fields.field("Request", &format!("{} {}", text(&request["method"]), text(&request["url"])));
    fields.field("Headers", &headers(&request["headers"]));
    fields.field("Body", &text(&request["body"]));
    if let Some(status) = answer["status"].as_u64() {
        fields.field("Answer", &format!("{status} after {} ms", answer["tookMs"]));
        fields.field("Headers", &headers(&answer["headers"]));
        fields.field("Body", &text(&answer["body"]));
    }
    for event in exchange["events"].as_array().into_iter().flatten() {
        fields.field("Event", &text(event));
    }
    if let Some(left_out) = exchange["eventsLeftOut"].as_u64() {
        fields.field("Events left out", &left_out.to_string());
    }
    if let Some(problem) = exchange["problem"].as_str() {
        fields.field("Problem", problem);
    }
}

fn headers(headers: &Value) -> String {
    let lines = headers.as_object().into_iter().flatten();
    lines.map(|(name, value)| format!("{name}: {}", value.as_str().unwrap_or_default())).collect::<Vec<_>>().join("\n")
}
