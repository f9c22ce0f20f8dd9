//! `sabir task download`.
//!
//! The agent chooses the names of files, so they are not trusted. Nothing is written outside the directory, nothing is
//! overwritten unasked, and a file appears under its name only when it is whole.

mod names;
mod write;

use super::TaskArgument;
use crate::Invocation;
use crate::call::{InterruptHandling, Session, report, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use crate::render::{Fields, Node, ids, shell};
use clap::Args;
use names::FileNames;
use std::path::{Path, PathBuf};

/// The member of a part's `metadata` that names the file it was saved to. The protocol leaves `metadata` to all
/// parties.
const SAVED_PATH_MEMBER: &str = "urn:sabir:ext:saved:v1";
/// The largest file that is fetched unless something else is said, in bytes.
const FETCH_BYTES_MAX: u64 = 1 << 30;

/// Write the artifacts of a task to files.
///
/// Each part becomes a file in --dir, named as the agent names it as far as that is safe. A part that is a URL is
/// fetched, without credentials. A part that cannot be saved is named at the end; the others are saved all the same.
#[derive(Debug, Args)]
pub(crate) struct TaskDownload {
    #[command(flatten)]
    which: TaskArgument,
    /// Only this artifact; repeatable.
    #[arg(long, value_name = "ID")]
    artifact: Vec<String>,
    /// Overwrite files that are there already.
    #[arg(long)]
    force: bool,
}

impl Verb for TaskDownload {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.which.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

/// One part on its way to a file.
struct PartToSave<'a> {
    artifact: usize,
    part: usize,
    node: Node<'a>,
    path: PathBuf,
}

impl TaskDownload {
    async fn execute(self, session: &Session) -> Outcome {
        session.reference()?;
        let id = self.which.task_id(session)?;
        let directory = PathBuf::from(session.settings.dir.text().unwrap_or("."));
        let agent = session.connect().await?;
        let said = agent.task(&id).await.map_err(|error| session.failed(error))?;
        let task = Node::new(said.json());
        let wanted = self.parts_to_save(session, task, &directory)?;
        let limit = session.settings.max_bytes.copied().unwrap_or(FETCH_BYTES_MAX);
        let writer = write::PartWriter { directory: &directory, force: self.force, limit };
        let (mut saved, mut failed) = (Vec::new(), Vec::new());
        for one in wanted {
            // One file that cannot be had is no reason to leave out the others.
            match writer.save(session, one.node, &one.path).await {
                Ok(()) => saved.push(one),
                Err(Stop::Problem(problem)) => failed.push((one.path, *problem)),
                Err(stop @ Stop::ReaderGone) => return Err(stop),
            }
        }
        if failed.is_empty() {
            return self.report(session, task, &saved);
        }
        // In JSON there is one document, and a failure is an error object.
        if !session.out.is_json() {
            self.report(session, task, &saved)?;
        }
        Err(incomplete(&saved, failed).into())
    }

    /// The parts to save, each with its path. Whatever stands in the way is found before anything is written.
    fn parts_to_save<'a>(
        &self,
        session: &Session,
        task: Node<'a>,
        directory: &Path,
    ) -> Result<Vec<PartToSave<'a>>, Stop> {
        let artifacts = task.list("artifacts");
        let named = |artifact: &Node<'_>| artifact.word("artifactId").unwrap_or_default();
        if let Some(missing) = self.artifact.iter().find(|id| !artifacts.iter().any(|artifact| named(artifact) == **id))
        {
            let known: Vec<String> = artifacts.iter().map(named).collect();
            let message = format!("the task has no artifact {missing}; it has {}", known.join(", "));
            return Err(Problem::usage(message).hint(session.resume().command("task get")).into());
        }
        let mut names = FileNames::default();
        let mut wanted = Vec::new();
        for (index, artifact) in artifacts.into_iter().enumerate() {
            if !self.artifact.is_empty() && !self.artifact.contains(&named(&artifact)) {
                continue;
            }
            for (part, node) in artifact.list("parts").into_iter().enumerate() {
                let path = directory.join(names.pick(artifact, index, node, part));
                wanted.push(PartToSave { artifact: index, part, node, path });
            }
        }
        match wanted.iter().find(|one| !self.force && one.path.symlink_metadata().is_ok()) {
            Some(one) => Err(exists_problem(&one.path).into()),
            None => Ok(wanted),
        }
    }

    fn report(&self, session: &Session, task: Node<'_>, wanted: &[PartToSave<'_>]) -> Outcome {
        if session.out.is_json() {
            let path = |artifact: usize, part: usize| {
                wanted.iter().find(|one| one.artifact == artifact && one.part == part).map(|one| one.path.as_path())
            };
            session.out.document(&annotated(task, &path))?;
            return Ok(Exit::Done);
        }
        let mut fields = Fields::new();
        let state = report::state_of(task);
        ids(&mut fields, task.word("id").as_deref(), task.word("contextId").as_deref(), Some(&state));
        wanted.iter().for_each(|one| fields.field("Saved", &one.path.display().to_string()));
        session.out.fields(fields)?;
        if wanted.is_empty() {
            session.out.warn("the task has no artifacts to save");
        }
        Ok(Exit::Done)
    }
}

/// What could not be saved, and what was. The status is that of the first failure.
fn incomplete(saved: &[PartToSave<'_>], failed: Vec<(PathBuf, Problem)>) -> Problem {
    let all = saved.len() + failed.len();
    let mut lines = vec![format!("{} of {all} files could not be saved", failed.len())];
    lines.extend(failed.iter().map(|(path, problem)| format!("{}: {}", path.display(), problem.message)));
    if !saved.is_empty() {
        let paths: Vec<String> = saved.iter().map(|one| one.path.display().to_string()).collect();
        lines.push(format!("saved: {}", paths.join(", ")));
    }
    let hint = "run the same command again with --force, or with --artifact for what is missing";
    match failed.into_iter().next() {
        Some((_, first)) if all == 1 => first,
        Some((_, first)) => Problem { message: lines.join("\n"), hint: None, ..first }.hint(hint),
        None => Problem::internal(lines.join("\n")),
    }
}

fn exists_problem(path: &Path) -> Problem {
    let shown = path.display().to_string();
    Problem::new(ErrorCode::Vendor("SABIR_ERR_EXISTS"), format!("{shown} is there already"))
        .hint(format!("add --force to overwrite it, or --dir to write elsewhere; rm {} to make room", shell(&shown)))
}

/// The task as it was written, with the path of each saved part in its metadata.
fn annotated<'a>(task: Node<'_>, path: &dyn Fn(usize, usize) -> Option<&'a Path>) -> String {
    with_member(task, "artifacts", |artifacts| {
        map_items(artifacts, |index, artifact| {
            with_member(artifact, "parts", |parts| {
                map_items(parts, |part, node| match path(index, part) {
                    Some(path) => with_saved_path(node, path),
                    None => node.raw().to_owned(),
                })
            })
        })
    })
}

/// An object with one member written anew.
fn with_member(object: Node<'_>, name: &str, write: impl Fn(Node<'_>) -> String) -> String {
    let members = object.members().into_iter().map(|(member, value)| {
        let value = if member == name { write(value) } else { value.raw().to_owned() };
        format!("{}:{value}", json_string(&member))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn map_items(array: Node<'_>, write: impl Fn(usize, Node<'_>) -> String) -> String {
    let items = array.items().into_iter().enumerate().map(|(index, item)| write(index, item));
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn with_saved_path(part: Node<'_>, path: &Path) -> String {
    let saved = format!("{}:{}", json_string(SAVED_PATH_MEMBER), json_string(&path.display().to_string()));
    let with = |metadata: Node<'_>| {
        let known =
            metadata.members().into_iter().map(|(name, value)| format!("{}:{}", json_string(&name), value.raw()));
        format!("{{{}}}", known.chain([saved.clone()]).collect::<Vec<_>>().join(","))
    };
    if part.members().iter().any(|(name, _)| name == "metadata") {
        return with_member(part, "metadata", with);
    }
    let inner = part.raw().trim_end();
    format!("{},\"metadata\":{{{saved}}}}}", inner.strip_suffix('}').unwrap_or(inner).trim_end())
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("strings are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_where_the_protocol_leaves_room() {
        let task = r#"{"id":"t","artifacts":[{"artifactId":"a","parts":[{"text":"x"},{"text":"y","metadata":{"k":{"n":1}}},{"text":"z","metadata":{}}]}],"x":1e400}"#;
        let path = |_: usize, part: usize| (part != 9).then_some(Path::new("/d/f"));
        assert_eq!(
            annotated(Node::new(task), &path),
            r#"{"id":"t","artifacts":[{"artifactId":"a","parts":[{"text":"x","metadata":{"urn:sabir:ext:saved:v1":"/d/f"}},{"text":"y","metadata":{"k":{"n":1},"urn:sabir:ext:saved:v1":"/d/f"}},{"text":"z","metadata":{"urn:sabir:ext:saved:v1":"/d/f"}}]}],"x":1e400}"#
        );
    }
}
