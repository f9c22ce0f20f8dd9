//! Resource names: `tasks/{id}` and `tasks/{id}/pushNotificationConfigs/{id}`.
//!
//! Ids are not escaped in them, so an id with a slash has no resource name.

use crate::path::{MemberError, Path};
use sabir_proto::{Fault, TaskRef};

const TASKS: &str = "tasks/";
const CONFIGS: &str = "/pushNotificationConfigs/";

/// Reads the resource name of a task in a request.
pub(super) fn task(name: &str, path: &Path<'_>) -> Result<TaskRef, MemberError> {
    match name.strip_prefix(TASKS) {
        Some(id) if !id.contains('/') => read_task(id, path),
        _ => Err(path.error(format_args!("{:?} is not the name of a task; write it like tasks/ID", shortened(name)))),
    }
}

/// Reads the resource name of a push configuration in a request.
pub(super) fn push(name: &str, path: &Path<'_>) -> Result<(TaskRef, String), MemberError> {
    let parts = name.strip_prefix(TASKS).and_then(|rest| rest.split_once(CONFIGS));
    match parts {
        Some((task, config)) if !task.contains('/') && !config.is_empty() && !config.contains('/') => {
            Ok((read_task(task, path)?, config.to_owned()))
        }
        _ => Err(path.error(format_args!(
            "{:?} is not the name of a push configuration; write it like tasks/ID/pushNotificationConfigs/ID",
            shortened(name)
        ))),
    }
}

/// Reads the resource name of a push configuration in a reply. The ids may have any form, since the server chooses its
/// names. A configuration whose id is empty has none.
pub(in crate::v03) fn read_push_in_reply(name: &str) -> Result<(TaskRef, Option<String>), MemberError> {
    let path = Path::Root.member("name");
    let (task, config) = name
        .strip_prefix(TASKS)
        .and_then(|rest| rest.split_once(CONFIGS))
        .ok_or_else(|| path.error(format_args!("{:?} is not the name of a push configuration", shortened(name))))?;
    Ok((read_task(task, &path)?, (!config.is_empty()).then(|| config.to_owned())))
}

fn read_task(id: &str, path: &Path<'_>) -> Result<TaskRef, MemberError> {
    TaskRef::parse(id).map_err(|e| path.error(format_args!("task id {e}")))
}

/// The part of a name that an error quotes.
fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(128)]
}

/// The resource name of a task.
pub(in crate::v03) fn task_name(task: &TaskRef) -> String {
    format!("{TASKS}{task}")
}

/// The resource name of a push configuration.
pub(in crate::v03) fn push_name(task: &TaskRef, config: Option<&str>) -> String {
    format!("{TASKS}{task}{CONFIGS}{}", config.unwrap_or_default())
}

/// The resource name of a task for a request. Fails for an id that has none; `member` is the member in 1.0.
pub(super) fn task_name_to_send(task: &TaskRef, member: &str) -> Result<String, Fault> {
    let name = task_name(task);
    if name[TASKS.len()..].contains('/') { Err(unnamed(member)) } else { Ok(name) }
}

/// The resource name of a push configuration for a request. Fails for ids that have none.
pub(super) fn push_name_to_send(task: &TaskRef, config: &str) -> Result<String, Fault> {
    task_name_to_send(task, "taskId")?;
    if config.is_empty() || config.contains('/') { Err(unnamed("id")) } else { Ok(push_name(task, Some(config))) }
}

fn unnamed(member: &str) -> Fault {
    Fault::invalid(member, "is empty or has a slash in it, and cannot be named in A2A 0.3 over gRPC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_strictly_and_ids_left_as_they_are() {
        let path = Path::Root.member("name");
        assert_eq!(task("tasks/a%2Fb:c", &path).unwrap().to_string(), "a%2Fb:c");
        for bad in ["", "tasks", "tasks/", "tasks/a/", "tasks/a/b", "/tasks/a", "task/a", "Tasks/a", "a", "tasks/a\n"] {
            let Fault::InvalidParams(wrong) = task(bad, &path).unwrap_err().into() else { panic!("{bad}") };
            assert_eq!(wrong[0].field, "name", "{bad}");
        }
        let (of, id) = push("tasks/a/pushNotificationConfigs/b", &path).unwrap();
        assert_eq!((&*of.to_string(), &*id), ("a", "b"));
        for bad in [
            "",
            "tasks/a",
            "tasks/a/pushNotificationConfigs",
            "tasks/a/pushNotificationConfigs/",
            "tasks//pushNotificationConfigs/b",
            "tasks/a/pushNotificationConfigs/b/c",
            "tasks/a/b/pushNotificationConfigs/c",
            "x/tasks/a/pushNotificationConfigs/b",
        ] {
            assert!(push(bad, &path).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_with_a_slash_cannot_be_asked_for() {
        let slashed = TaskRef::parse("a/b").unwrap();
        let plain = TaskRef::parse("a").unwrap();
        assert!(task_name_to_send(&slashed, "id").is_err());
        assert!(push_name_to_send(&slashed, "c").is_err());
        assert!(push_name_to_send(&plain, "c/d").is_err());
        assert!(push_name_to_send(&plain, "").is_err());
        assert_eq!(push_name_to_send(&plain, "c").unwrap(), "tasks/a/pushNotificationConfigs/c");
        // A name in a reply is read as it is.
        assert_eq!(read_push_in_reply(&push_name(&slashed, Some("c/d"))).unwrap(), (slashed, Some("c/d".into())));
    }

    #[test]
    fn a_long_name_is_not_quoted_whole() {
        let wrong = Fault::from(task(&"é".repeat(10_000), &Path::Root).unwrap_err());
        assert!(wrong.to_string().len() < 300);
    }
}
