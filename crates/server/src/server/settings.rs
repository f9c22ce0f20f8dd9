//! The checked configuration, with what is read from it before anything is opened.

use crate::auth_setup::{AuthSetup, ConfiguredSecrets};
use crate::config::Config;
use crate::cors::Cors;
use crate::start_error::StartError;
use crate::tls::ServerCertificate;
use std::sync::Arc;

pub(super) struct Settings {
    pub(super) config: Arc<Config>,
    pub(super) secrets: Arc<ConfiguredSecrets>,
    pub(super) tls: Option<Arc<ServerCertificate>>,
    pub(super) cors: Cors,
}

impl Settings {
    /// Checks a configuration. The error says what cannot be served.
    pub(super) fn check(config: Config) -> Result<Self, StartError> {
        let config = Arc::new(config);
        config.refuse_plain_http().map_err(StartError::Config)?;
        config.limits.check_bytes().map_err(StartError::Config)?;
        let tls = ServerCertificate::open(&config).map_err(StartError::Config)?;
        let cors = Cors::new(&config.server.cors).map_err(StartError::Config)?;
        let secrets = Arc::new(ConfiguredSecrets::new(&config));
        Ok(Self { config, secrets, tls, cors })
    }

    /// The rules of callers.
    pub(super) fn auth_setup(&self) -> Result<AuthSetup, StartError> {
        AuthSetup::new(self.config.clone(), self.secrets.clone())
    }

    /// The rules of callers that an interceptor authenticates.
    pub(super) fn auth_setup_behind_interceptor(&self) -> Result<AuthSetup, StartError> {
        AuthSetup::behind_interceptor(self.config.clone(), self.secrets.clone())
    }
}
