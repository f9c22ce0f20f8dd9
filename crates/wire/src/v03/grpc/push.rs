//! Push notification configurations in protobuf.

use super::name;
use crate::losses::{LossKind, Losses};
use crate::path::{MemberError, Path, non_empty};
use crate::pb::a2a_v03 as pb;
use sabir_proto::{Authentication, PushConfig, TaskRef};

/// Reads a configuration. `at` is its path in 0.3, `canonical` its path in 1.0.
pub(super) fn read_push(
    config: pb::PushNotificationConfig,
    at: &Path<'_>,
    canonical: &Path<'_>,
    losses: &mut Losses,
) -> Result<PushConfig, MemberError> {
    let authentication = match config.authentication {
        Some(info) => read_authentication(info, &at.member("authentication"), canonical, losses)?,
        None => None,
    };
    Ok(PushConfig {
        id: non_empty(config.id),
        url: at.member("url").required_text(config.url)?,
        token: non_empty(config.token),
        authentication,
    })
}

fn read_authentication(
    info: pb::AuthenticationInfo,
    at: &Path<'_>,
    canonical: &Path<'_>,
    losses: &mut Losses,
) -> Result<Option<Authentication>, MemberError> {
    let credentials = non_empty(info.credentials);
    let mut schemes = info.schemes.into_iter().filter(|scheme| !scheme.is_empty());
    match (schemes.next(), credentials) {
        // The member is there but empty.
        (None, None) => Ok(None),
        (None, Some(_)) => Err(at.member("schemes").error("is required")),
        (Some(scheme), credentials) => {
            if schemes.next().is_some() {
                losses.note(LossKind::PushAuthentication, canonical.member("authentication").member("scheme"));
            }
            Ok(Some(Authentication { scheme, credentials }))
        }
    }
}

pub(super) fn write_push(config: &PushConfig) -> pb::PushNotificationConfig {
    let write_authentication = |authentication: &Authentication| pb::AuthenticationInfo {
        schemes: vec![authentication.scheme.clone()],
        credentials: authentication.credentials.clone().unwrap_or_default(),
    };
    pb::PushNotificationConfig {
        id: config.id.clone().unwrap_or_default(),
        url: config.url.clone(),
        token: config.token.clone().unwrap_or_default(),
        authentication: config.authentication.as_ref().map(write_authentication),
    }
}

/// Reads a configuration with its task. The id is its own, or else the one in its name.
pub(super) fn read_task_push(
    config: pb::TaskPushNotificationConfig,
    at: &Path<'_>,
    canonical: &Path<'_>,
    losses: &mut Losses,
) -> Result<(TaskRef, PushConfig), MemberError> {
    let (task, id) = name::read_push_in_reply(&config.name)?;
    let inner = at.member("pushNotificationConfig");
    let mut config = read_push(inner.required(config.push_notification_config)?, &inner, canonical, losses)?;
    config.id = config.id.or(id);
    Ok((task, config))
}

pub(super) fn write_task_push(task: &TaskRef, config: &PushConfig) -> pb::TaskPushNotificationConfig {
    pb::TaskPushNotificationConfig {
        name: name::push_name(task, config.id.as_deref()),
        push_notification_config: Some(write_push(config)),
    }
}
