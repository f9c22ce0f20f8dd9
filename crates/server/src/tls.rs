//! TLS: the certificate of this server, and the client certificates it accepts.
//!
//! The files are loaded and checked at the start, and again when they change: new connections get the new certificate,
//! open ones keep the old one. New files that cannot be used are only logged, so a failed renewal causes no outage.
//!
//! rustls with aws-lc-rs, as in all crates. No early data, because it can be replayed; no renegotiation; TLS 1.3 if the
//! peer has it.

mod load;

use crate::config::Config;
use crate::metrics::Metrics;
use load::{FileStamps, LoadedTls, TlsFiles};
use rustls::ServerConfig;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the files are checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A certificate that expires sooner than this should have been renewed.
const RENEWAL_DUE: Duration = Duration::from_secs(14 * 24 * 3600);

/// The present certificate of this server.
pub(crate) struct ServerCertificate {
    files: TlsFiles,
    /// The state of the files before they were first read, so that every later change is seen.
    first: FileStamps,
    loaded: RwLock<Arc<LoadedTls>>,
    /// Set up at the start, because a SIGHUP without a handler ends the process.
    hangups: Mutex<Option<Signal>>,
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ServerCertificate {
    /// Loads the configured files. `None` if this server speaks plain HTTP. An error names the file.
    pub(crate) fn open(config: &Config) -> Result<Option<Arc<Self>>, String> {
        let Some(tls) = config.server.own_tls() else { return Ok(None) };
        let files = TlsFiles::new(tls, |path| config.resolve(path))?;
        let first = files.stamp();
        let loaded = files.load().map_err(|problem| problem.to_string())?;
        loaded.warn_of_expiry(SystemTime::now());
        let hangups = signal(SignalKind::hangup()).map_err(|e| format!("cannot listen for SIGHUP: {e}"))?;
        Ok(Some(Arc::new(Self {
            files,
            first,
            loaded: RwLock::new(Arc::new(loaded)),
            hangups: Mutex::new(Some(hangups)),
        })))
    }

    fn loaded(&self) -> Arc<LoadedTls> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The TLS settings for a new connection.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.loaded().config.clone()
    }

    /// Whether the certificate is for a host of this name.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        self.loaded().is_for(host)
    }

    /// Follows the files for as long as it is polled: checks them every second, and at once after a SIGHUP.
    pub(crate) async fn follow(self: Arc<Self>, metrics: &Metrics) {
        metrics.tls_begin();
        metrics.tls_expiry(self.loaded().not_after);
        let mut hangups = self.hangups.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut known = Some(self.first.clone());
        let mut seen = known.clone();
        loop {
            let asked = tokio::select! {
                () = hangup(&mut hangups) => true,
                () = tokio::time::sleep(POLL_INTERVAL) => false,
            };
            let now = self.stamp().await;
            // The same state twice: an operator may replace first the certificate and then its key.
            if asked || (now != known && now == seen) {
                known.clone_from(&now);
                self.reload(metrics).await;
            }
            seen = now;
        }
    }

    async fn stamp(self: &Arc<Self>) -> Option<FileStamps> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.files.stamp()).await.ok()
    }

    async fn reload(self: &Arc<Self>, metrics: &Metrics) {
        let this = self.clone();
        let outcome = tokio::task::spawn_blocking(move || this.files.load()).await;
        match outcome {
            Ok(Ok(loaded)) => {
                tracing::info!("new connections get the certificate as it is in its files now");
                loaded.warn_of_expiry(SystemTime::now());
                metrics.tls_expiry(loaded.not_after);
                *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                metrics.tls_reload("ok");
            }
            Ok(Err(problem)) => {
                tracing::error!(%problem, "the certificate changed and cannot be used; the one before it stays");
                metrics.tls_reload("failed");
            }
            // The runtime is shutting down.
            Err(_) => {}
        }
    }
}

async fn hangup(signals: &mut Option<Signal>) {
    let came = match signals {
        Some(signals) => signals.recv().await,
        None => None,
    };
    if came.is_none() {
        pending::<()>().await;
    }
}

impl LoadedTls {
    /// Logs a warning for a certificate that has expired, expires soon, or is not valid yet.
    fn warn_of_expiry(&self, now: SystemTime) {
        if self.not_after <= now {
            tracing::error!(
                "the certificate of server.tls.cert has expired; clients will refuse it until it is renewed"
            );
        } else if self.not_after <= now + RENEWAL_DUE {
            tracing::warn!("the certificate of server.tls.cert ends within two weeks; renew it");
        } else if self.not_before > now {
            tracing::warn!("the certificate of server.tls.cert is not valid yet; is the clock of this machine right?");
        }
    }
}
