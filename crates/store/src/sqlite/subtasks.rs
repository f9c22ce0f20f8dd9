//! Trees of subtasks: a row for each child, read along the indexes of its parent and of its root.

use super::reader::{Reader, damaged, state};
use super::writer::TaskLogWriter;
use super::{SqliteLog, key, salt, stamp, task_id};
use crate::subtasks::{ChildOf, InterruptedTask, ParentLink, SubtaskSpend, TaskTree, TaskTreeNode};
use crate::{AppendError, StoreFuture};
use rusqlite::{OptionalExtension, Row, params};
use sabir_proto::{Stamp, TaskId, TaskState};
use std::sync::Arc;

impl TaskLogWriter {
    /// Writes the parent link of a new task, unless the parent refuses it.
    pub(super) fn open_child(&self, k: i64, birth: &ChildOf) -> rusqlite::Result<Result<(), AppendError>> {
        let ChildOf { parent_link: kin, subtasks_max: family_max } = birth;
        let (parent, root) = (key(kin.parent.stamp()), key(kin.root.stamp()));
        let sql = "SELECT state FROM task WHERE k = ?1 AND salt = ?2";
        let parent_state = self.connection.prepare_cached(sql)?.query_row((parent, salt(kin.parent)), |r| r.get(0));
        match parent_state.optional()?.map(state).transpose()? {
            Some(state) if !state.is_settled() => {}
            Some(_) | None => return Ok(Err(AppendError::ParentSettled)),
        }
        let sql = "INSERT INTO kin (k, parent, parent_salt, root, root_salt, name, hops, path, origin, readonly)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (parent, name) DO NOTHING";
        let path =
            serde_json::to_string(&kin.path.iter().map(|agent| &**agent).collect::<Vec<_>>()).unwrap_or_default();
        let added = self.connection.prepare_cached(sql)?.execute(params![
            k,
            parent,
            salt(kin.parent),
            root,
            salt(kin.root),
            kin.key,
            kin.hops,
            path,
            kin.origin,
            kin.readonly,
        ])?;
        if added == 0 {
            return Ok(Err(AppendError::DuplicateChild));
        }
        let sql = "SELECT count(*) FROM kin WHERE root = ?1";
        let calls: i64 = self.connection.prepare_cached(sql)?.query_row([root], |r| r.get(0))?;
        let fits = u64::try_from(calls).is_ok_and(|calls| calls <= *family_max);
        Ok(if fits { Ok(()) } else { Err(AppendError::TooManySubtasks) })
    }

    pub(super) fn spend(&self, root: TaskId, micros: u64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO spend (k, micros) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET micros = micros + ?2";
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        self.connection.prepare_cached(sql)?.execute((key(root.stamp()), micros))?;
        Ok(())
    }
}

/// The columns of a task of a tree.
const TREE_NODE: &str =
    "SELECT t.k, t.salt, t.scope, t.state, n.parent, n.parent_salt FROM kin n JOIN task t ON t.k = n.k";

impl Reader<'_> {
    fn parent_link(&self, task: TaskId) -> rusqlite::Result<Option<ParentLink>> {
        let sql = "SELECT n.parent, n.parent_salt, n.root, n.root_salt, n.name, n.hops, n.path, n.origin, n.readonly
                   FROM kin n JOIN task t ON t.k = n.k WHERE n.k = ?1 AND t.salt = ?2";
        let kin = |row: &Row<'_>| {
            let path: Vec<String> =
                serde_json::from_str(&row.get::<_, String>(6)?).map_err(|_| damaged("path of a child"))?;
            Ok(ParentLink {
                parent: task_id(row.get(0)?, row.get(1)?),
                root: task_id(row.get(2)?, row.get(3)?),
                key: row.get(4)?,
                hops: row.get(5)?,
                path: path.into_iter().map(Arc::from).collect(),
                origin: row.get(7)?,
                readonly: row.get(8)?,
            })
        };
        self.connection.prepare_cached(sql)?.query_row((key(task.stamp()), salt(task)), kin).optional()
    }

    fn child(&self, parent: TaskId, name: &str) -> rusqlite::Result<Option<TaskId>> {
        let sql = "SELECT t.k, t.salt FROM kin n JOIN task t ON t.k = n.k
                   WHERE n.parent = ?1 AND n.parent_salt = ?2 AND n.name = ?3";
        let child = |row: &Row<'_>| Ok(task_id(row.get(0)?, row.get(1)?));
        let of = params![key(parent.stamp()), salt(parent), name];
        self.connection.prepare_cached(sql)?.query_row(of, child).optional()
    }

    /// The tasks that satisfy a condition on `?1` and `?2`, the key and salt of a task.
    fn tree_nodes(
        &self,
        whose: TaskId,
        condition: &str,
        after: Option<TaskId>,
        limit: usize,
    ) -> rusqlite::Result<Vec<TaskTreeNode>> {
        let sql = format!("{TREE_NODE} WHERE {condition} AND n.k > ?3 ORDER BY n.k LIMIT ?4");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let (from, limit) = (after.map_or(-1, |id| key(id.stamp())), i64::try_from(limit).unwrap_or(i64::MAX));
        let wanted = (key(whose.stamp()), salt(whose), from, limit);
        let rows = statement.query_map(wanted, |row| self.tree_node(row))?;
        rows.filter_map(Result::transpose).collect()
    }

    fn tree_node(&self, row: &Row<'_>) -> rusqlite::Result<Option<TaskTreeNode>> {
        let Some(scope) = self.shared.scopes.scope(row.get(2)?) else { return Ok(None) };
        let (id, parent) = (task_id(row.get(0)?, row.get(1)?), Some(task_id(row.get(4)?, row.get(5)?)));
        Ok(Some(TaskTreeNode { id, parent, scope, state: state(row.get(3)?)? }))
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> rusqlite::Result<Vec<TaskTreeNode>> {
        // From the few unsettled children to their parents; the other way round would read all tasks ever stored.
        let sql = format!(
            "SELECT t.k, t.salt, t.scope, t.state, n.parent, n.parent_salt
             FROM task t INDEXED BY task_child CROSS JOIN kin n ON n.k = t.k CROSS JOIN task p ON p.k = n.parent
             WHERE t.child IS NOT NULL AND t.body IS NULL AND t.k > ?1 AND p.salt = n.parent_salt
                   AND p.state IN ({}, {}, {}) ORDER BY t.k LIMIT ?2",
            TaskState::Failed.number(),
            TaskState::Canceled.number(),
            TaskState::Rejected.number(),
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let (from, limit) = (after.map_or(-1, |id| key(id.stamp())), i64::try_from(limit).unwrap_or(i64::MAX));
        statement.query_map((from, limit), |row| self.tree_node(row))?.filter_map(Result::transpose).collect()
    }

    fn subtask_spend(&self, root: TaskId) -> rusqlite::Result<SubtaskSpend> {
        let sql = "SELECT (SELECT count(*) FROM kin WHERE root = ?1 AND root_salt = ?2),
                          ifnull((SELECT micros FROM spend WHERE k = ?1), 0)";
        let count = |row: &Row<'_>, n| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(n)?).unwrap_or(0));
        let toll = |row: &Row<'_>| Ok(SubtaskSpend { calls: count(row, 0)?, spent: count(row, 1)? });
        self.connection.prepare_cached(sql)?.query_row((key(root.stamp()), salt(root)), toll)
    }

    fn interrupted(&self, after: Option<Stamp>, limit: usize) -> rusqlite::Result<Vec<InterruptedTask>> {
        let sql = "SELECT k, position FROM task INDEXED BY task_asking
                   WHERE state IN (6, 8) AND position > ?1 ORDER BY position LIMIT ?2";
        let (from, limit) = (after.map_or(-1, key), i64::try_from(limit).unwrap_or(i64::MAX));
        self.snapshot(|| {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map((from, limit), |row| Ok((row.get(0)?, row.get(1)?)))?;
            let rows = rows.collect::<rusqlite::Result<Vec<(i64, i64)>>>()?;
            let asking = |(k, position): (i64, i64)| {
                Ok(self.load_at(k)?.map(|task| InterruptedTask { task, since: stamp(position) }))
            };
            rows.into_iter().filter_map(|row| asking(row).transpose()).collect()
        })
    }
}

impl TaskTree for SqliteLog {
    fn parent_link(&self, task: TaskId) -> StoreFuture<Option<ParentLink>> {
        self.read(|r| r.parent_link(task))
    }

    fn child(&self, parent: TaskId, key: &str) -> StoreFuture<Option<TaskId>> {
        self.read(|r| r.child(parent, key))
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.read(|r| r.tree_nodes(root, "n.root = ?1 AND n.root_salt = ?2", after, limit))
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.read(|r| r.tree_nodes(parent, "n.parent = ?1 AND n.parent_salt = ?2", after, limit))
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.read(|r| r.orphans(after, limit))
    }

    fn subtask_spend(&self, root: TaskId) -> StoreFuture<SubtaskSpend> {
        self.read(|r| r.subtask_spend(root))
    }

    fn interrupted(&self, after: Option<Stamp>, limit: usize) -> StoreFuture<Vec<InterruptedTask>> {
        self.read(|r| r.interrupted(after, limit))
    }
}
