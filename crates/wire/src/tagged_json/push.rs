//! Push configurations of the older dialects: the same members, with a list of authentication schemes.

use crate::path::Path;
use crate::{LossKind, Losses};
use sabir_proto::lenient::{empty_none, null_default, optional_object};
use sabir_proto::{Authentication, PushConfig};
use serde::{Deserialize, Serialize};

/// `PushNotificationConfig` of the older dialects.
#[derive(Serialize, Deserialize)]
pub(crate) struct TaggedPushConfig {
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    url: String,
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    authentication: Option<AuthenticationSchemes>,
}

#[derive(Serialize, Deserialize)]
struct AuthenticationSchemes {
    #[serde(default, deserialize_with = "null_default")]
    schemes: Vec<String>,
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    credentials: Option<String>,
}

impl TaggedPushConfig {
    /// Converts to the canonical configuration, which has one scheme: the first.
    pub(crate) fn read(self, path: &Path<'_>, losses: &mut Losses) -> PushConfig {
        let authentication = self.authentication.and_then(|given| {
            let mut schemes = given.schemes.into_iter();
            let scheme = schemes.next();
            if schemes.next().is_some() || (scheme.is_none() && given.credentials.is_some()) {
                losses.note(LossKind::PushAuthentication, path.member("authentication"));
            }
            scheme.map(|scheme| Authentication { scheme, credentials: given.credentials })
        });
        PushConfig { id: self.id, url: self.url, token: self.token, authentication }
    }

    /// Converts from the canonical configuration.
    pub(crate) fn write(config: &PushConfig) -> Self {
        let authentication = config
            .authentication
            .as_ref()
            .map(|a| AuthenticationSchemes { schemes: vec![a.scheme.clone()], credentials: a.credentials.clone() });
        Self { id: config.id.clone(), url: config.url.clone(), token: config.token.clone(), authentication }
    }

    /// Converts without the id, for a dialect whose tasks have only one configuration: its id is that of `task`.
    pub(crate) fn write_unnamed(config: &PushConfig, task: &str, path: &Path<'_>, losses: &mut Losses) -> Self {
        if config.id.as_deref().is_some_and(|id| id != task) {
            losses.note(LossKind::PushConfigId, path.member("id"));
        }
        Self { id: None, ..Self::write(config) }
    }
}
