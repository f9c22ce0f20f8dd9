//! What can be called, in which dialect, and how that looks.
//!
//! Nothing is written down here twice: methods, paths and parameters are what the translation makes of one example of
//! each operation.

use crate::exit::Exit;
use crate::output::{Output, indented};
use crate::problem::{Outcome, Problem};
use crate::render::Fields;
use sabir_client::text_message;
use sabir_proto::{
    Call, CancelTask, DeletePush, GetPush, GetTask, ListPush, ListTasks, MessageId, PushConfig, Subscribe, TaskRef,
    Tenant,
};
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::{AnswerKind, Dialect, HttpRequest, JsonRpcRequest, Losses, write_call, write_http_call};
use serde_json::{Value, json};

/// An operation in one dialect.
struct DialectOperation {
    call: Call,
    rpc: JsonRpcRequest,
    /// Where the dialect has HTTP+JSON.
    http: Option<HttpRequest>,
}

/// Everything that a dialect can ask.
fn operations(dialect: Dialect) -> Vec<DialectOperation> {
    let name = || MessageId::parse("message-1").expect("a legal id");
    let of = |call: Call| {
        let rpc = write_call(dialect, &call, None, &mut || name(), &mut Losses::new()).ok()?;
        let http = match dialect.features().http_json {
            true => write_http_call(dialect, &call, FileEncoding::Base64, &mut Losses::new()).ok(),
            false => None,
        };
        Some(DialectOperation { call, rpc, http })
    };
    examples().into_iter().filter_map(of).collect()
}

/// One example of each operation.
fn examples() -> Vec<Call> {
    let tenant = Tenant::none;
    let task = || TaskRef::parse("TASK-ID").expect("a legal id");
    let mut send = text_message("Hello");
    send.message.message_id = MessageId::parse("message-1").expect("a legal id");
    let hook = PushConfig {
        id: Some("CONFIG-ID".into()),
        url: "https://example.com/hook".into(),
        token: Some("TOKEN".into()),
        authentication: None,
    };
    let (id, no_token) = ("CONFIG-ID".to_owned(), String::new);
    vec![
        Call::Send(Box::new(send.clone())),
        Call::Stream(Box::new(send)),
        Call::Get(GetTask { tenant: tenant(), id: task(), history_length: Some(10) }),
        Call::List(ListTasks { page_size: Some(20), ..ListTasks::default() }),
        Call::Cancel(CancelTask { tenant: tenant(), id: task(), metadata: None }),
        Call::Subscribe(Subscribe { tenant: tenant(), id: task() }),
        Call::CreatePush { tenant: tenant(), task: task(), config: hook },
        Call::GetPush(GetPush { tenant: tenant(), task_id: task(), id: id.clone() }),
        Call::ListPush(ListPush { tenant: tenant(), task_id: task(), page_size: None, page_token: no_token() }),
        Call::DeletePush(DeletePush { tenant: tenant(), task_id: task(), id }),
        Call::ExtendedCard { tenant: tenant() },
    ]
}

impl DialectOperation {
    fn path(&self) -> Option<String> {
        self.http.as_ref().map(|http| format!("{} {}", http.method, http.path))
    }

    fn streams(&self) -> bool {
        matches!(self.call, Call::Stream(_) | Call::Subscribe(_))
    }

    const fn answer(&self) -> &'static str {
        match (&self.call, self.rpc.answer_kind) {
            (Call::Stream(_) | Call::Subscribe(_), _) => "a stream of events, each on a line",
            (_, AnswerKind::Send) => "a task or a message",
            (_, AnswerKind::Task) => "a task",
            (_, AnswerKind::Tasks) => "a page of tasks",
            (_, AnswerKind::Push) => "a push configuration",
            (_, AnswerKind::Pushes) => "a page of push configurations",
            (_, AnswerKind::Deletion) => "nothing",
            (_, AnswerKind::Card) => "an agent card",
        }
    }

    fn json(&self) -> Value {
        json!({
            "operation": self.call.operation(),
            "method": self.rpc.method,
            "http": self.path(),
            "streams": self.streams(),
        })
    }
}

/// Runs `sabir call list`.
pub(super) fn list(out: &Output, dialect: Dialect) -> Outcome {
    let all = operations(dialect);
    if out.is_json() {
        out.document(&Value::Array(all.iter().map(DialectOperation::json).collect()).to_string())?;
        return Ok(Exit::Done);
    }
    let width = all.iter().map(|operation| operation.rpc.method.len()).max().unwrap_or_default();
    for operation in &all {
        let path = operation.path().unwrap_or_default();
        out.payload(&(format!("{:<width$}  {path}", operation.rpc.method).trim_end().to_owned() + "\n"))?;
    }
    Ok(Exit::Done)
}

/// Runs `sabir call describe`.
pub(super) fn describe(out: &Output, dialect: Dialect, name: &str) -> Outcome {
    let all = operations(dialect);
    let found = all.iter().find(|operation| operation.rpc.method == name || operation.call.operation() == name);
    let Some(found) = found else {
        return Err(Problem::usage(format!("{dialect} has no method {name:?}"))
            .hint(format!("sabir call list --a2a-version {dialect}"))
            .into());
    };
    if out.is_json() {
        let params: Value = serde_json::from_str(&found.rpc.params).unwrap_or_default();
        let mut object = found.json();
        object["params"] = params;
        object["answer"] = json!(found.answer());
        out.document(&object.to_string())?;
        return Ok(Exit::Done);
    }
    let mut fields = Fields::new();
    fields.field("Operation", found.call.operation());
    fields.field("Method", found.rpc.method);
    fields.maybe("HTTP+JSON", found.path().as_deref());
    fields.field("Answer", found.answer());
    fields.block("Parameters", &indented(&found.rpc.params));
    let version = if dialect == Dialect::NEWEST { String::new() } else { format!(" --a2a-version {dialect}") };
    fields.field("Example", &format!("sabir call -a AGENT {}{version} -d '{}'", found.rpc.method, found.rpc.params));
    out.fields(fields)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(dialect: Dialect) -> Vec<&'static str> {
        operations(dialect).iter().map(|operation| operation.rpc.method).collect()
    }

    #[test]
    fn every_dialect_lists_what_it_has() {
        assert_eq!(methods(Dialect::V1).len(), 11);
        assert!(methods(Dialect::V03).contains(&"message/send") && !methods(Dialect::V03).contains(&"tasks/list"));
        assert!(methods(Dialect::V01).contains(&"tasks/send"));
        for dialect in Dialect::ALL {
            assert!(methods(dialect).len() >= 3, "{dialect}");
        }
    }

    #[test]
    fn paths_are_those_of_the_version() {
        let path = |dialect| operations(dialect)[0].path();
        assert_eq!(path(Dialect::V1).as_deref(), Some("POST /message:send"));
        assert_eq!(path(Dialect::V03).as_deref(), Some("POST /v1/message:send"));
        assert_eq!(path(Dialect::V01), None);
    }
}
