//! `--job-id` and `--job`: the job on XPR Network that a message belongs to.
//!
//! The metadata of the message carries it in every dialect: XPR itself puts it beside the message, and our own agents
//! look for it there. A task belongs to a job if its own metadata say so, or those of a message in its history.

use sabir_proto::Object;
use serde_json::{Map, Value};

const MEMBER: &str = "xpr:jobId";

/// The metadata of a message for a job.
pub(super) fn metadata(job: u64) -> Option<Object> {
    Object::from_map(&Map::from_iter([(MEMBER.to_owned(), job.into())])).ok()
}

/// Whether a task, which is JSON of 1.0, belongs to a job. Some write the number as a text.
pub(super) fn owns(job: u64, task: &str) -> bool {
    let task: Value = serde_json::from_str(task).unwrap_or_default();
    let says = |holder: &Value| match &holder["metadata"][MEMBER] {
        Value::Number(number) => number.as_u64() == Some(job),
        Value::String(text) => text.parse() == Ok(job),
        _ => false,
    };
    says(&task) || task["history"].as_array().is_some_and(|history| history.iter().any(says))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_belongs_to_a_job_by_its_metadata_or_its_messages() {
        for (task, owned) in [
            (r#"{"metadata":{"xpr:jobId":42}}"#, true),
            (r#"{"metadata":{"xpr:jobId":"42"}}"#, true),
            (r#"{"history":[{"role":"ROLE_AGENT"},{"metadata":{"xpr:jobId":42}}]}"#, true),
            (r#"{"metadata":{"xpr:jobId":421}}"#, false),
            (r#"{"metadata":{"xpr:jobId":42.5}}"#, false),
            (r#"{"metadata":{"jobId":42},"xpr:jobId":42}"#, false),
            ("{}", false),
        ] {
            assert_eq!(owns(42, task), owned, "{task}");
        }
        assert_eq!(metadata(42).unwrap().to_map()[MEMBER], 42);
    }
}
