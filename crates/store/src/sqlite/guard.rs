//! The guard's data, in an SQLite file of its own beside the task log.
//!
//! | Module | Content |
//! |---|---|
//! | `queue` | the writer: all waiting jobs are one transaction |
//! | `directory` | keys and organisations in memory, and the thread that refreshes them |
//! | `keys`, `organisations`, `registry`, `replay`, `quota`, `audit` | the rows of each |
//!
//! It is a separate file, because commands such as `sabir key create` must work on it with and without a server
//! running, while the task log belongs to one process alone, which holds a lock. There is no lock here: any number of
//! processes may have this file open, every change is one transaction, and a writer waits its turn (SQLite's
//! write-ahead log, five seconds at most). It also keeps writes that strangers cause (refusals, replay marks) out of
//! the commits that sends wait for.
//!
//! The server that holds the task log's lock writes replay marks and quotas. Both would stay exact with more than one
//! server on the file; sliding windows would not, for they are each process's own.

pub(super) mod audit;
mod directory;
mod keys;
mod organisations;
mod queue;
mod quota;
mod registry;
mod replay;
#[cfg(test)]
mod tests;

use super::{Options, Writing, lock, schema};
use crate::audit::Pending;
use crate::counters::{Day, Sliding};
use crate::replay::{Marks, mark};
use crate::{
    Answer, ApiKey, Audit, By, ChangeError, Counters, Digest, Domain, Enlisted, Hash, Hit, Imprint, KeptCard, KeyId,
    KeyTerms, Keys, Known, Linked, Notice, Noticed, OpenError, Organisation, Organisations, Record, Registry,
    ReplayGuard, SecretRef, Seen, Spent, Standing, StoreError, Verified, Window,
};
use directory::{Directory, Uses, Watch};
use queue::{Queue, Task, Weight, Writer};
use quota::{Exhausted, Lots};
use rusqlite::Connection;
use sabir_proto::{AgentName, Timestamp};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The guard's store in an SQLite file.
#[derive(Debug)]
pub struct SqliteGuard {
    path: PathBuf,
    directory: Arc<Directory>,
    uses: Arc<Uses>,
    marks: Arc<Mutex<Marks>>,
    sliding: Sliding,
    exhausted: Arc<Exhausted>,
    lots: Arc<Lots>,
    pending: Arc<Mutex<Pending>>,
    writing: Backend,
}

#[derive(Debug)]
enum Backend {
    Threaded { watch: Option<Watch>, queue: Arc<Queue> },
    Inline(Mutex<Writer>),
}

impl SqliteGuard {
    /// The path of the guard's file beside a task log.
    pub fn path_beside(task_log: &Path) -> PathBuf {
        schema::beside(task_log, ".guard")
    }

    /// Opens the file, creating it if there is none. A file that is damaged, newer or foreign is left as it is.
    ///
    /// With [`Writing::Threaded`] it has a writer and a refresher thread of its own, for servers. With
    /// [`Writing::Inline`] every change is written by its caller and every lookup reads the file, for a command that
    /// makes one change and ends; refusals are then written with the next record, or when the store is closed.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let Options { durability, writing, metrics, .. } = options;
        let connection = queue::open(path, durability)?;
        let fail = |e: rusqlite::Error| open_error(path, &e);
        let directory = Arc::new(Directory::new());
        directory.look(&connection).map_err(fail)?;
        // A command checks no replay marks, and if it did the file would decide.
        let marks = match writing {
            Writing::Threaded => replay::load(&connection).map_err(fail)?,
            Writing::Inline => Marks::default(),
        };
        let marks = Arc::new(Mutex::new(marks));
        let (uses, exhausted, pending) = (Arc::<Uses>::default(), Arc::default(), Arc::<Mutex<Pending>>::default());
        let writer = Writer::new((path, connection), durability, metrics, (pending.clone(), directory.clone()));
        let writing = match writing {
            Writing::Inline => Backend::Inline(Mutex::new(writer)),
            Writing::Threaded => {
                let io = |e: std::io::Error| OpenError::Io { path: path.into(), reason: e.to_string() };
                let queue = Arc::new(Queue::start(writer).map_err(io)?);
                let watch = Some(Watch::start(path, directory.clone(), uses.clone(), queue.clone())?);
                Backend::Threaded { watch, queue }
            }
        };
        let (sliding, lots) = (Sliding::default(), Arc::default());
        Ok(Self { path: path.into(), directory, uses, marks, sliding, exhausted, lots, pending, writing })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Limits the file to this many pages, so that tests can fill the disk.
    pub fn set_pages_max(&self, pages: u32) -> Result<(), StoreError> {
        match &self.writing {
            Backend::Threaded { queue, .. } => {
                queue.set_pages_max(pages);
                Ok(())
            }
            Backend::Inline(writer) => lock(writer).set_pages_max(pages),
        }
    }

    fn write<T, E>(
        &self,
        weight: Weight,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> Answer<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.write_then(weight, work, |_| ())
    }

    fn write_then<T, E>(
        &self,
        weight: Weight,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
        after: impl FnOnce(&Result<T, E>) + Send + 'static,
    ) -> Answer<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (task, answer) = Task::new(weight, work, after);
        match &self.writing {
            Backend::Threaded { queue, .. } => queue.push(Box::new(task)),
            Backend::Inline(writer) => lock(writer).commit(vec![Box::new(task)], false),
        }
        answer
    }

    /// Reads on a connection of its own: such reads are rare, not urgent, and may be long.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        schema::open_reader(&self.path)
            .and_then(|connection| read(&connection))
            .map_err(|e| store_error(&self.path, &e))
    }

    /// Refreshes the cache before a lookup in inline mode, where no thread does it.
    fn look_if_alone(&self) -> Result<(), StoreError> {
        match &self.writing {
            Backend::Threaded { .. } => Ok(()),
            Backend::Inline(_) => self.read(|connection| self.directory.look(connection)),
        }
    }
}

/// Writes the recorded uses of keys before the store is closed.
impl Drop for SqliteGuard {
    fn drop(&mut self) {
        match &mut self.writing {
            Backend::Threaded { watch, queue } => {
                drop(watch.take());
                if let Some(job) = self.uses.job() {
                    queue.push(job);
                }
            }
            Backend::Inline(writer) => lock(writer).commit(self.uses.job().into_iter().collect(), true),
        }
    }
}

/// Maps errors of the engine to those that callers react to, and names the file if it is damaged.
fn store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    match super::store_error(error) {
        StoreError::Corrupt(reason) => StoreError::Corrupt(format!("{}: {reason}", path.display())),
        other => other,
    }
}

fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    let reason = error.to_string();
    match super::store_error(error) {
        StoreError::Corrupt(_) => OpenError::Damaged { path: path.into(), reason },
        _ => OpenError::Io { path: path.into(), reason },
    }
}

impl Keys for SqliteGuard {
    fn find(&self, hash: &Hash, now: Timestamp) -> Result<Standing, StoreError> {
        self.look_if_alone()?;
        self.directory.ask(|book| Standing::of(book.keys.get(hash), hash, now))
    }

    fn get(&self, id: &KeyId) -> Result<Option<Arc<ApiKey>>, StoreError> {
        self.look_if_alone()?;
        self.directory.ask(|book| book.ids.get(id).cloned())
    }

    fn refresh(&self) -> Result<(), StoreError> {
        self.read(|connection| self.directory.look(connection))
    }

    fn create(&self, id: KeyId, imprint: Imprint, terms: KeyTerms, by: By) -> Answer<ApiKey, ChangeError> {
        let key = ApiKey::new(id, imprint, terms, by.at);
        self.write(Weight::Audited, move |connection| keys::create(connection, key, &by))
    }

    fn list(&self) -> Answer<Vec<ApiKey>> {
        let listed = self.read(keys::read).and_then(|keys| {
            keys.into_iter()
                .map(|key| {
                    let mut key = key.map_err(StoreError::Corrupt)?;
                    key.last_used_at = key.last_used_at.max(self.uses.get(&key.id));
                    Ok(key)
                })
                .collect()
        });
        Answer::now(listed)
    }

    fn revoke(&self, id: KeyId, by: By) -> Answer<ApiKey, ChangeError> {
        self.write(Weight::Audited, move |connection| keys::revoke(connection, &id, &by))
    }

    fn rotate(&self, id: KeyId, imprint: Imprint, old_until: Timestamp, by: By) -> Answer<ApiKey, ChangeError> {
        self.write(Weight::Audited, move |connection| keys::rotate(connection, &id, imprint, old_until, &by))
    }

    fn used(&self, id: &KeyId, at: Timestamp) {
        self.uses.note(id, at);
    }
}

impl Organisations for SqliteGuard {
    fn organisation(&self, domain: &str) -> Result<Option<Arc<Organisation>>, StoreError> {
        self.look_if_alone()?;
        let domain = Domain::parse(domain);
        self.directory.ask(|book| book.organisations.get(&domain?).cloned())
    }

    fn add(&self, domain: Domain, secret: SecretRef, by: By) -> Answer<Option<Organisation>, ChangeError> {
        let new = Organisation { domain, secret, added_at: by.at };
        self.write(Weight::Audited, move |connection| organisations::add(connection, &new, &by))
    }

    fn organisations(&self) -> Answer<Vec<Organisation>> {
        let listed = self.read(organisations::read);
        Answer::now(listed.and_then(|all| all.into_iter().map(|one| one.map_err(StoreError::Corrupt)).collect()))
    }

    fn remove(&self, domain: Domain, by: By) -> Answer<Option<Organisation>, ChangeError> {
        self.write(Weight::Audited, move |connection| organisations::remove(connection, &domain, &by))
    }
}

impl Registry for SqliteGuard {
    fn generation(&self) -> Result<u64, StoreError> {
        self.look_if_alone()?;
        Ok(self.directory.agents())
    }

    fn enlist(&self, agent: Enlisted, card: Option<Noticed>, by: By) -> Answer<(), ChangeError> {
        self.write(Weight::Audited, move |connection| registry::enlist(connection, &agent, card, &by))
    }

    fn enlisted(&self) -> Answer<Vec<Enlisted>> {
        Answer::now(self.read(registry::read).and_then(registry::whole))
    }

    fn enable(&self, name: AgentName, enabled: bool, by: By) -> Answer<Enlisted, ChangeError> {
        self.write(Weight::Audited, move |connection| registry::enable(connection, &name, enabled, &by))
    }

    fn delist(&self, name: AgentName, by: By) -> Answer<Enlisted, ChangeError> {
        self.write(Weight::Audited, move |connection| registry::delist(connection, &name, &by))
    }

    fn notice(&self, card: Noticed) -> Answer<Notice> {
        self.write(Weight::Durable, move |connection| registry::notice(connection, card).map(Ok))
    }

    fn cards(&self, name: AgentName) -> Answer<Vec<KeptCard>> {
        Answer::now(self.read(|connection| registry::cards(connection, &name)).and_then(registry::whole))
    }

    fn used_cards(&self) -> Answer<Vec<KeptCard>> {
        Answer::now(self.read(registry::used).and_then(registry::whole))
    }

    fn approve(&self, name: AgentName, by: By) -> Answer<Option<KeptCard>, ChangeError> {
        self.write(Weight::Audited, move |connection| registry::approve(connection, &name, &by))
    }
}

impl ReplayGuard for SqliteGuard {
    fn seen_as(&self, scope: &str, digest: Digest, meaning: Digest, now: Timestamp, until: Timestamp) -> Answer<Seen> {
        let mark = mark(scope, &digest);
        match lock(&self.marks).claim(mark, scope, meaning, now, until) {
            Seen::First => {}
            known @ (Seen::Again | Seen::Different | Seen::NoRoom) => return Answer::now(Ok(known)),
        }
        let (marks, scope) = (self.marks.clone(), scope.to_owned());
        let work = move |connection: &Connection| replay::keep(connection, &mark, &scope, &meaning, now, until).map(Ok);
        self.write_then(Weight::Durable, work, move |outcome: &Result<Seen, StoreError>| {
            // The mark was not stored, or the file has another one, with an end that memory does not know.
            if *outcome != Ok(Seen::First) {
                lock(&marks).release(mark);
            }
        })
    }
}

impl Counters for SqliteGuard {
    fn hit(&self, caller: &str, window: Window<'_>, now: Timestamp) -> Answer<Hit> {
        Answer::now(Ok(self.sliding.hit(caller, window, now)))
    }

    fn spend(&self, key: &KeyId, limit: u64, now: Timestamp) -> Answer<Spent> {
        let (key, day) = (key.clone(), Day::of(now));
        if let Some(spent) = self.lots.take(&key, day, limit) {
            return Answer::now(Ok(spent));
        }
        if self.exhausted.is(&key, day, limit) {
            return Answer::now(Ok(Spent::Exhausted { resets_at: day.end() }));
        }
        let (exhausted, lots, asked) = (self.exhausted.clone(), self.lots.clone(), key.clone());
        let taken = lots.clone();
        let work = move |connection: &Connection| quota::spend(connection, &taken, &key, day, limit).map(Ok);
        self.write_then(Weight::Light, work, move |outcome: &Result<Spent, StoreError>| match outcome {
            Ok(Spent::Exhausted { .. }) => exhausted.note(&asked, day, limit),
            Ok(Spent::Within { .. }) => {}
            Err(_) => lots.forget(&asked),
        })
    }

    fn spent(&self, key: &KeyId, now: Timestamp) -> Answer<u64> {
        let day = Day::of(now);
        let counted = self.read(|connection| quota::spent(connection, key, day));
        Answer::now(counted.map(|counted| counted.saturating_sub(self.lots.left(key, day))))
    }
}

impl Audit for SqliteGuard {
    fn record(&self, record: Record) -> Answer<u64> {
        self.write(Weight::Audited, move |connection| audit::append(connection, &[record]).map(Ok))
    }

    fn refused(&self, record: Record) {
        let is_first = lock(&self.pending).add(record);
        if let (true, Backend::Threaded { queue, .. }) = (is_first, &self.writing) {
            queue.expect_refusals();
        }
    }

    fn flush(&self) -> Answer<()> {
        self.write(Weight::Audited, |_| Ok(Ok(())))
    }

    fn end(&self) -> Answer<Known> {
        Answer::now(self.read(audit::end))
    }

    fn entries(&self, after: u64, limit: usize) -> Answer<Vec<Linked>> {
        Answer::now(self.read(|connection| audit::entries(connection, after, limit)).and_then(|entries| entries))
    }

    fn verify(&self, known: Option<Known>) -> Answer<Verified> {
        Answer::now(self.read(|connection| audit::verify(connection, known)))
    }
}
