//! The parameters of a send. Three dialects have the method `message/send`, so one reader accepts the members of all
//! three. The dialect is decided by the members that were found, and the parameters are parsed only once.

use super::message::MessageIn;
use super::push::TaggedPushConfig;
use super::{Mint, Tag};
use crate::Losses;
use crate::card::modes::media_type;
use crate::detect::has_xpr_members;
use crate::path::Path;
use sabir_proto::lenient::{empty_none, int32, null_default, object, optional_object};
use sabir_proto::{ContextId, Fault, Object, SendConfiguration, SendMessage, Tenant};
use serde::Deserialize;

/// The `params` of a send.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SendIn {
    #[serde(deserialize_with = "object")]
    pub(crate) message: MessageIn,
    #[serde(default, deserialize_with = "optional_object")]
    configuration: Option<ConfigurationIn>,
    #[serde(default)]
    pub(crate) metadata: Option<Object>,
    /// agent-native and XPR have the context id beside the message.
    #[serde(default, deserialize_with = "empty_none")]
    pub(crate) context_id: Option<ContextId>,
    #[serde(default, rename = "async")]
    pub(crate) asynchronous: Option<serde_json::Value>,
    #[serde(default)]
    pub(crate) idempotency_key: Option<serde_json::Value>,
    /// agent-native: actions that a user approved on its pages. We have no such pages.
    #[serde(default)]
    pub(crate) approved_actions: Option<serde::de::IgnoredAny>,
    /// XPR: the caller's own id for the task.
    #[serde(default, deserialize_with = "empty_none")]
    pub(crate) id: Option<String>,
    #[serde(default, rename = "xpr:callerAccount", deserialize_with = "empty_none")]
    pub(crate) caller_account: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigurationIn {
    #[serde(default, deserialize_with = "null_default")]
    accepted_output_modes: Vec<String>,
    #[serde(default)]
    blocking: Option<bool>,
    #[serde(default, deserialize_with = "int32")]
    history_length: Option<i32>,
    // The proto of 0.3 has the shorter name, and some clients use it here too.
    #[serde(default, alias = "pushNotification", deserialize_with = "optional_object")]
    push_notification_config: Option<TaggedPushConfig>,
}

impl SendIn {
    /// The marks in the parameters that point at one dialect.
    pub(crate) fn marks(&self) -> crate::detect::DialectMarks {
        crate::detect::DialectMarks {
            kind_parts: self.message.tag() == Some(Tag::Kind) || self.message.is_named(),
            type_parts: self.message.tag() == Some(Tag::Type),
            xpr: self.caller_account.is_some() || self.metadata.as_ref().is_some_and(|m| has_xpr_members(m.as_str())),
            native: self.asynchronous.is_some() || self.idempotency_key.is_some(),
        }
    }

    /// Converts to the canonical request, by the rules of 0.3.
    pub(crate) fn read(self, mint: Mint<'_>, losses: &mut Losses) -> Result<SendMessage, Fault> {
        let configuration = match self.configuration {
            None => SendConfiguration::default(),
            Some(given) => given.read(losses),
        };
        Ok(SendMessage {
            tenant: Tenant::none(),
            message: self.message.into_message(mint),
            configuration,
            metadata: self.metadata,
            alias: None,
            wants_task: false,
        })
    }
}

impl ConfigurationIn {
    fn read(self, losses: &mut Losses) -> SendConfiguration {
        let path = Path::Root.member("configuration");
        let path = path.member("taskPushNotificationConfig");
        SendConfiguration {
            accepted_output_modes: media_types(self.accepted_output_modes),
            task_push_notification_config: self.push_notification_config.map(|c| c.read(&path, losses)),
            history_length: self.history_length,
            // Without the member the send blocks: that is what the SDKs of 0.3 do.
            return_immediately: self.blocking == Some(false),
        }
    }
}

/// Replaces words by media types; the tutorials for 0.2 and 0.3 still write `text`.
pub(crate) fn media_types(given: Vec<String>) -> Vec<String> {
    given.into_iter().map(|mode| media_type(&mode).map_or(mode, str::to_owned)).collect()
}
