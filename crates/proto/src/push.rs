//! Push notification configurations.

use crate::lenient::{empty_none, optional_object};
use serde::{Deserialize, Serialize};
use std::fmt;

/// `TaskPushNotificationConfig` without the task and the tenant, which are stored beside it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushConfig {
    /// The id, unique within the task; the server makes one when the client gives none.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The URL of the webhook.
    pub url: String,
    /// A token that is repeated to the receiver, so that it can recognise its own tasks.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How to authenticate to the receiver.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

impl PushConfig {
    /// The configuration without its secrets, which the server never returns.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        self.token = None;
        if let Some(authentication) = &mut self.authentication {
            authentication.credentials = None;
        }
        self
    }

    /// Serialises the configuration for the store.
    ///
    /// # Panics
    /// Never: strings serialise.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings serialise")
    }

    /// Parses the JSON of [`PushConfig::to_json`].
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// How the server authenticates to a webhook (`AuthenticationInfo`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// An IANA scheme such as `Bearer`.
    pub scheme: String,
    /// The secret of the scheme, such as a token.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// Secrets never reach a log, so the output leaves them out.
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
