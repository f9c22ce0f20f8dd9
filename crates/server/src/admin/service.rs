//! The service that runs the requests of operators, whichever transport they came by.
//!
//! A server has one for as long as it runs. A command has one for a single request, where no server runs. Every change
//! is in the audit with the operator who made it: the guard's store writes the entry of a change of its own in the same
//! commit, and the operations on tasks, deliveries and the booking network write one after the change.

use super::bookings::NetworkAdmin;
use super::operation::{AdminRequest, AdminResponse, OperationAccess, StorePart};
use super::{AdminError, AdminErrorCode};
use crate::auth_setup::{AuthSetup, ConfiguredSecrets};
use crate::booking::KeyHolders;
use crate::card::PublicAddress;
use crate::config::Config;
use crate::public_address::{authorities, public_address};
use crate::tokio_host::{ServerTasks, TokioHost};
use sabir_engine::{Engine, Host as _, Limits, Metrics};
use sabir_guard::authenticator::SecretResolver;
use sabir_proto::{Caller, Timestamp};
use sabir_store::{
    AdminQueries, AuditActor, AuditRecord, AuditSubject, GuardStore, OpenError, TaskLog, TaskStore, WriterMode,
};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The authentication scheme of an operator on this machine, as the audit has it.
const LOCAL_SCHEME: &str = "local";
/// Characters of a user name that are kept.
const USER_CHARS_MAX: usize = 64;

/// The person or the program that administers a server.
#[derive(Debug, Clone)]
pub struct Operator {
    caller: Caller,
    scheme: &'static str,
    /// The name without what only the audit needs.
    name: String,
}

impl Operator {
    /// A user of this machine. The operating system vouches for the id, and the environment of the command gave the
    /// name.
    pub fn local(user: &str, uid: u32) -> Self {
        let user: String = user.chars().filter(|c| !c.is_control() && *c != '/').take(USER_CHARS_MAX).collect();
        let name = format!("operator:{user}");
        Self { caller: Caller::named(&format!("{name}/uid-{uid}")), scheme: LOCAL_SCHEME, name }
    }

    /// The user who runs this process.
    pub fn of_this_process() -> Self {
        Self::local(&user(), rustix::process::getuid().as_raw())
    }

    /// A caller of the API that the guard has authenticated.
    pub(crate) fn authenticated(caller: &Caller, scheme: &'static str) -> Self {
        Self { caller: caller.clone(), scheme, name: caller.name().to_owned() }
    }

    /// The name under which the operator answers questions and moves bookings.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name without `operator:`, as the owner of a key.
    pub(crate) fn short_name(&self) -> &str {
        self.name.strip_prefix("operator:").unwrap_or(&self.name)
    }

    /// The operator and the present time, for the audit.
    pub(crate) fn actor(&self) -> AuditActor {
        AuditActor { caller: self.caller.clone(), scheme: self.scheme, at: now() }
    }
}

/// The name of the user at this machine, as the environment has it.
pub(crate) fn user() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let uid = || format!("uid-{}", rustix::process::getuid().as_raw());
    named.filter(|name| !name.is_empty()).unwrap_or_else(uid)
}

/// The present time, from the same clock as the engine's.
pub(crate) fn now() -> Timestamp {
    TokioHost.now()
}

/// Where a service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceHost {
    /// In the server: secrets and networks are those that its agents have.
    Server,
    /// In a command, where no server runs.
    Command,
}

/// The parts of a service that work on tasks.
pub(crate) struct TaskAdmin {
    pub(crate) log: Arc<dyn TaskLog>,
    pub(crate) queries: Arc<dyn AdminQueries>,
    pub(crate) engine: Engine,
    pub(crate) network: NetworkAdmin,
}

/// The parts of a running server that its service needs beside the tasks.
pub(crate) struct ServerAdminParts {
    pub(crate) config: Arc<Config>,
    pub(crate) store: Arc<dyn GuardStore>,
    pub(crate) secrets: Arc<dyn SecretResolver>,
    pub(crate) public: PublicAddress,
    /// The addresses under which the server is called, as `host:port`.
    pub(crate) ours: Vec<String>,
    pub(crate) jobs: ServerTasks,
}

/// Runs the requests of operators.
pub struct AdminService {
    pub(super) config: Arc<Config>,
    pub(super) host: ServiceHost,
    pub(super) store: Arc<dyn GuardStore>,
    pub(super) secrets: Arc<dyn SecretResolver>,
    pub(super) public: PublicAddress,
    /// The addresses under which the server is called, as `host:port`.
    pub(super) ours: Vec<String>,
    /// Absent in a command whose request is about the guard's part of the store alone.
    tasks: Option<TaskAdmin>,
    /// Runs the changes that go on without their requester.
    jobs: ServerTasks,
}

impl std::fmt::Debug for AdminService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminService").field("host", &self.host).finish_non_exhaustive()
    }
}

impl AdminService {
    /// The service of a running server.
    pub(crate) fn in_server(parts: ServerAdminParts, tasks: TaskAdmin) -> Self {
        let ServerAdminParts { config, store, secrets, public, ours, jobs } = parts;
        Self { config, host: ServiceHost::Server, store, secrets, public, ours, tasks: Some(tasks), jobs }
    }

    /// Opens the part of the store that a request needs, in a command.
    pub(crate) async fn open(config: &Config, part: StorePart) -> Result<Self, AdminError> {
        let url = config.store_url().map_err(|problem| AdminError::new(AdminErrorCode::NoStore, problem))?;
        let guard_file = url.guard_file().ok_or(OpenError::InMemory)?;
        match part {
            StorePart::ExistingGuard if !guard_file.exists() => drop(url.existing_file()?),
            StorePart::ExistingTasks => drop(url.existing_file()?),
            StorePart::ExistingGuard | StorePart::Guard | StorePart::Tasks => {}
        }
        url.create_directory()?;
        let options = config.open_options(WriterMode::Inline);
        let tasks = match part {
            StorePart::ExistingGuard | StorePart::Guard => None,
            StorePart::ExistingTasks | StorePart::Tasks => Some(sabir_store::open_tasks(&url, options.clone())?),
        };
        let store = sabir_store::open_guard(&url, options)?;
        let config = Arc::new(config.clone());
        let tasks = match tasks {
            Some(TaskStore { log, ledger, queries, .. }) => {
                let engine =
                    Engine::open(log.clone(), Arc::new(TokioHost), Limits::default(), Metrics::default()).await?;
                let holders = Arc::new(KeyHolders::new(store.clone()));
                let network = NetworkAdmin::new(&config, engine.clone(), log.clone(), ledger, holders)
                    .map_err(|problem| AdminError::new(AdminErrorCode::Settings, problem))?;
                Some(TaskAdmin { log, queries, engine, network })
            }
            None => None,
        };
        let secrets = Arc::new(ConfiguredSecrets::new(&config));
        let public = public_address(&config, config.server.listen);
        let ours = authorities(&public, config.server.listen);
        let jobs = ServerTasks::default();
        Ok(Self { host: ServiceHost::Command, store, secrets, public, ours, tasks, config, jobs })
    }

    /// Runs a request of an operator. The transport has checked that the operator may ask for it.
    ///
    /// A change goes on when its requester leaves or loses patience: it is made with its audit entry, or not at all.
    pub async fn handle(
        self: &Arc<Self>,
        operator: &Operator,
        request: AdminRequest,
    ) -> Result<AdminResponse, AdminError> {
        if request.access() == OperationAccess::Look {
            return request.perform(self, operator).await;
        }
        let (service, operator) = (self.clone(), operator.clone());
        let (answer, answered) = oneshot::channel();
        self.jobs.spawn_work(async move {
            // The requester may be gone.
            drop(answer.send(request.perform(&service, &operator).await));
        });
        let ended = || AdminError::new(AdminErrorCode::Timeout, "the server ends, and with it this request");
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    /// The parts that work on tasks.
    pub(crate) fn tasks(&self) -> Result<&TaskAdmin, AdminError> {
        self.tasks.as_ref().ok_or_else(|| AdminError::new(AdminErrorCode::Store, "the tasks of the store are not open"))
    }

    pub(crate) fn network(&self) -> Result<&NetworkAdmin, AdminError> {
        Ok(&self.tasks()?.network)
    }

    /// Writes a change that an operator has made into the audit.
    pub(crate) async fn record_change(
        &self,
        operator: &Operator,
        operation: &'static str,
        about: Option<AuditSubject>,
    ) -> Result<(), AdminError> {
        self.store.record(AuditRecord::change(&operator.actor(), operation, about)).await?;
        Ok(())
    }

    /// The authentication of the configuration, with secrets from the given resolver.
    pub(crate) fn auth_setup(&self, secrets: Arc<dyn SecretResolver>) -> Result<AuthSetup, AdminError> {
        let wrong = |problem: String| AdminError::new(AdminErrorCode::Settings, problem);
        AuthSetup::new(self.config.clone(), secrets).map_err(|error| wrong(error.to_string()))
    }
}
