//! Commands that administer a server: its agents, its inbox, its keys, its organisations, its audit, its webhooks, its
//! booking network, its files.
//!
//! They work on the files of a server, whether it runs or not. A running server reads a change before the command
//! ends. A user who may read the data directory may administer it, so there is nothing to log in to.

pub(crate) mod agent;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod billing;
pub(crate) mod booking;
pub(crate) mod card;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod exchange_log;
pub(crate) mod explain;
pub(crate) mod inbox;
pub(crate) mod key;
pub(crate) mod org;
pub(crate) mod push;
pub(crate) mod rank;
mod span;
pub(crate) mod venue;
pub(crate) mod webhook;

use crate::output::Output;
use crate::problem::{ErrorCode, Problem, Stop};
use crate::run::serve::configured;
use clap::Args;
use sabir_server::Config;
use sabir_server::admin::{Admin, AdminError, ChangeError, CheckProgress, CopyError, Expect, OpenError, user};
use std::path::PathBuf;

/// The options that name the files of a server.
#[derive(Debug, Args)]
pub(crate) struct ServerFiles {
    /// Configuration file of the server; ./sabir.toml if there is one.
    #[arg(long = "server-config", alias = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of the server, where it is not the configured one.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl ServerFiles {
    /// Builds the options for a command whose own flags have other names.
    pub(crate) const fn new(config: Option<PathBuf>, data: Option<PathBuf>) -> Self {
        Self { config, data }
    }

    /// The configuration, as `serve` would read it.
    pub(crate) fn config(&self) -> Result<Config, Problem> {
        let wrong = |e: anyhow::Error| {
            Problem::usage(format!("{e:#}")).hint("give the file of the server with --server-config")
        };
        configured(self.config.clone(), self.data.clone()).map_err(wrong)
    }

    fn open(&self, expect: Expect) -> Result<Admin, Problem> {
        Admin::open(&self.config()?, &user(), expect).map_err(problem)
    }
}

/// Converts an error into a problem with a hint that says what to type next.
fn problem(error: AdminError) -> Problem {
    let (code, hint) = match &error {
        AdminError::Open(OpenError::Missing(_)) | AdminError::Copy(CopyError::Open(OpenError::Missing(_))) => (
            "SABIR_ERR_NO_STORE",
            "name the server's files with --server-config FILE or --data DIR; sabir serve makes them when it starts",
        ),
        AdminError::Open(OpenError::InMemory)
        | AdminError::Copy(CopyError::Open(OpenError::InMemory))
        | AdminError::Url(_) => {
            ("SABIR_ERR_NO_STORE", "name the server's files with --server-config FILE or --data DIR")
        }
        AdminError::Copy(CopyError::Exists(_)) => ("SABIR_ERR_EXISTS", EXISTS_HINT),
        AdminError::Open(OpenError::Locked(_)) | AdminError::Copy(CopyError::Open(OpenError::Locked(_))) => {
            ("SABIR_ERR_IN_USE", "stop the server that has it; this needs a store that no other process uses")
        }
        AdminError::Copy(CopyError::Damaged { .. }) => {
            ("SABIR_ERR_DAMAGED", "sabir db check tells all that is wrong; take another copy, or an older one")
        }
        AdminError::Open(OpenError::Damaged { .. }) | AdminError::Copy(CopyError::Open(OpenError::Damaged { .. })) => {
            ("SABIR_ERR_DAMAGED", "bring it back from a copy: sabir restore")
        }
        AdminError::Copy(CopyError::Write { .. }) => {
            ("SABIR_ERR_STORE", "is there room, and may this user write there?")
        }
        AdminError::Operator { .. } => {
            ("SABIR_ERR_OPERATOR", "run this as the user whose server it is, on its machine; or stop the server first")
        }
        AdminError::Secret { .. } => {
            ("SABIR_ERR_SECRET", "set the variable where the server starts and restart it, or use --secret file:PATH")
        }
        AdminError::Agent(fault) => agent::code_and_hint(fault),
        AdminError::Change(ChangeError::AgentTaken(_)) => {
            ("SABIR_ERR_NAME_TAKEN", "give it another name with --name; sabir agent list shows all of them")
        }
        AdminError::Change(ChangeError::NoSuchKey(_)) => ("SABIR_ERR_UNKNOWN_KEY", "sabir key list shows all of them"),
        AdminError::Change(ChangeError::Revoked(_)) => ("SABIR_ERR_REVOKED", "sabir key create makes a new one"),
        AdminError::Change(ChangeError::TooMany { .. }) => {
            ("SABIR_ERR_TOO_MANY", "wait until the texts before it have ended, or take --grace 0")
        }
        _ => (
            "SABIR_ERR_STORE",
            "is the disk full, or does the file belong to another user? sabir audit verify checks all of it",
        ),
    };
    Problem::new(ErrorCode::Vendor(code), error.to_string()).hint(hint)
}

const EXISTS_HINT: &str = "a copy gets a name of its own; sabir restore --replace puts what is there aside";

/// Shows how far the store is read or copied, if standard error is a terminal.
fn progress_reporter(out: &Output) -> impl FnMut(CheckProgress) {
    let mut turn = 0;
    move |looked| {
        if out.shows_progress() {
            turn += 1;
            match looked {
                CheckProgress::Copying(path) => out.spin(turn, &format!("copying {}", path.display())),
                CheckProgress::Pages(path) => out.spin(turn, &format!("reading the pages of {}", path.display())),
                CheckProgress::Tasks(read, of) => out.bar(read, of, "tasks read"),
                CheckProgress::Audit => out.spin(turn, "following the audit"),
            }
        }
    }
}

/// Waits for the store, which answers at once.
fn wait<T>(work: impl Future<Output = Result<T, AdminError>>) -> Result<T, Stop> {
    Ok(block_on(work)?.map_err(problem)?)
}

/// Runs work to its end on this thread.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Problem::internal(format!("cannot start: {e}")))?;
    Ok(runtime.block_on(work))
}
