//! Push notification configurations in protobuf.

use crate::path::{MemberError, Path, non_empty};
use crate::pb::lf_a2a_v1 as pb;
use sabir_proto::{Authentication, PushConfig};

/// Reads a configuration; the caller reads its task and tenant.
pub(super) fn read_push(config: pb::TaskPushNotificationConfig, path: &Path<'_>) -> Result<PushConfig, MemberError> {
    let authentication = path.member("authentication");
    Ok(PushConfig {
        id: non_empty(config.id),
        url: path.member("url").required_text(config.url)?,
        token: non_empty(config.token),
        authentication: config.authentication.map(|info| read_authentication(info, &authentication)).transpose()?,
    })
}

fn read_authentication(info: pb::AuthenticationInfo, path: &Path<'_>) -> Result<Authentication, MemberError> {
    let scheme = path.member("scheme").required_text(info.scheme)?;
    Ok(Authentication { scheme, credentials: non_empty(info.credentials) })
}

pub(super) fn write_push(tenant: String, task_id: String, config: PushConfig) -> pb::TaskPushNotificationConfig {
    let write_authentication = |authentication: Authentication| pb::AuthenticationInfo {
        scheme: authentication.scheme,
        credentials: authentication.credentials.unwrap_or_default(),
    };
    pb::TaskPushNotificationConfig {
        tenant,
        id: config.id.unwrap_or_default(),
        task_id,
        url: config.url,
        token: config.token.unwrap_or_default(),
        authentication: config.authentication.map(write_authentication),
    }
}
