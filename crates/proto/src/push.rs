//! Push notification configurations.

use crate::lenient::{empty_none, optional_object};
use serde::{Deserialize, Serialize};
use std::fmt;

/// `TaskPushNotificationConfig`, less the task and tenant, which say where it belongs rather than what it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushConfig {
    /// Unique within its task; given by us when the client gives none.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where to deliver.
    pub url: String,
    /// Echoed to the receiver so that it can tell its own tasks.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How to authenticate to the receiver.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

impl PushConfig {
    /// What anybody may see of it: secrets go in and never come out.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        self.token = None;
        if let Some(authentication) = &mut self.authentication {
            authentication.credentials = None;
        }
        self
    }

    /// As stored.
    ///
    /// # Panics
    /// Never: strings serialise.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings serialise")
    }

    /// From [`PushConfig::to_json`].
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// `AuthenticationInfo`
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// An IANA scheme such as `Bearer`.
    pub scheme: String,
    /// A secret.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// Secrets never reach a log.
impl fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushConfig").field("id", &self.id).field("url", &"…").finish_non_exhaustive()
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}
