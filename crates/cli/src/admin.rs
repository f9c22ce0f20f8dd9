//! Commands that administer a server: its agents, its inbox, its keys, its organisations, its audit, its webhooks, its
//! booking network, its files.
//!
//! A verb is one operation of `sabir_server::admin`: its options are the parameters, and what the operation gives back is
//! printed. The operation runs in the server that runs on the files; in the command, where none runs; or on a server
//! elsewhere, over its API. A user who may read the data directory may administer it, so there is nothing to log in to.

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
mod remote;
mod span;
pub(crate) mod venue;
pub(crate) mod webhook;

use crate::output::Output;
use crate::problem::{ErrorCode, Problem, Stop};
use crate::run::serve::configured;
use clap::Args;
use remote::RemoteServer;
use sabir_server::Config;
use sabir_server::admin::{AdminError, AdminErrorCode, AdminOperation, CheckProgress, administer, guard_file};
use serde::Serialize;
use std::path::PathBuf;
use url::Url;

/// The variable with the URL of the server that commands administer.
const SERVER_VARIABLE: &str = "SABIR_ADMIN_SERVER";

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
    /// The configuration, as `serve` would read it.
    pub(crate) fn config(&self) -> Result<Config, Problem> {
        let wrong = |e: anyhow::Error| {
            Problem::usage(format!("{e:#}")).hint("give the file of the server with --server-config")
        };
        configured(self.config.clone(), self.data.clone()).map_err(wrong)
    }
}

/// The options that name the server which a command administers: by its files on this machine, or by its URL.
#[derive(Debug, Args)]
pub(crate) struct ServerTarget {
    #[command(flatten)]
    files: ServerFiles,
    /// URL of a server elsewhere, which is asked over its API; SABIR_ADMIN_SERVER does the same.
    #[arg(long = "server", value_name = "URL", conflicts_with_all = ["config", "data"])]
    server_url: Option<String>,
    /// Where the key for the server elsewhere is: env:NAME or file:PATH; the variable SABIR_ADMIN_KEY by default.
    #[arg(long, value_name = "REFERENCE")]
    server_key: Option<String>,
}

impl ServerTarget {
    /// The server of these files, for a command whose own flags have other names.
    pub(crate) const fn local(config: Option<PathBuf>, data: Option<PathBuf>) -> Self {
        Self { files: ServerFiles { config, data }, server_url: None, server_key: None }
    }

    /// Runs an operation: on the server elsewhere, on the server that runs on the files, or on the files.
    pub(crate) fn ask<O: AdminOperation>(&self, operation: O) -> Result<O::Output, Stop> {
        block_on(self.ask_async(operation))?
    }

    async fn ask_async<O: AdminOperation>(&self, operation: O) -> Result<O::Output, Stop> {
        let answered = match self.remote()? {
            Some(server) => server.ask(operation).await?,
            None => administer(&self.files.config()?, operation).await,
        };
        Ok(answered.map_err(problem)?)
    }

    /// Like [`Self::ask`]; `None` if the thing that the operation is about does not exist.
    fn ask_if_exists<O: AdminOperation>(
        &self,
        operation: O,
        absent: AdminErrorCode,
    ) -> Result<Option<O::Output>, Stop> {
        match self.ask(operation) {
            Err(Stop::Problem(problem)) if problem.code == ErrorCode::Vendor(absent.name()) => Ok(None),
            answered => answered.map(Some),
        }
    }

    fn remote(&self) -> Result<Option<RemoteServer>, Problem> {
        let variable = || match (&self.files.config, &self.files.data) {
            (None, None) => std::env::var(SERVER_VARIABLE).ok().filter(|url| !url.is_empty()),
            _ => None,
        };
        match self.server_url.clone().or_else(variable) {
            Some(text) => {
                let wrong = || Problem::usage(format!("{text:?} is no URL of a server")).hint("--server https://HOST");
                let url = Url::parse(&text).map_err(|_| wrong())?;
                RemoteServer::new(url, self.server_key.as_deref()).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Whether the server is asked over its API.
    fn is_remote(&self) -> bool {
        matches!(self.remote(), Ok(Some(_)) | Err(_))
    }

    /// Says where the store is that a command has changed, if it is on this machine.
    fn note_store(&self, out: &Output) -> Result<(), Stop> {
        if !self.is_remote()
            && let Some(file) = guard_file(&self.files.config()?)
        {
            out.note(&format!("Store: {}", file.display()));
        }
        Ok(())
    }
}

/// Converts an error into a problem with a hint that says what to type next.
fn problem(error: AdminError) -> Problem {
    let code = match error.code {
        AdminErrorCode::Invalid => ErrorCode::Usage,
        AdminErrorCode::Unauthenticated | AdminErrorCode::Forbidden => ErrorCode::AuthFailed,
        code => ErrorCode::Vendor(code.name()),
    };
    let problem = Problem::new(code, error.message);
    match error.hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

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

/// Waits for work on the files of a store.
fn wait<T>(work: impl Future<Output = Result<T, AdminError>>) -> Result<T, Stop> {
    Ok(block_on(work)?.map_err(problem)?)
}

/// Runs work to its end on this thread.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Problem::internal(format!("cannot start: {e}")))?;
    Ok(runtime.block_on(work))
}

/// Prints what an operation gave back as one JSON document, if JSON was asked for.
fn print_json(out: &Output, output: &impl Serialize) -> Result<(), Stop> {
    if !out.is_json() {
        return Ok(());
    }
    let text = serde_json::to_string(output).map_err(|error| Problem::internal(error.to_string()))?;
    out.document(&text)
}
