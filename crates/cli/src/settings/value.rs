//! Typed values: each setting is parsed once, before its command runs.

use super::kind;
use super::resolve::{Precedence, ResolvedSetting};
use super::{SettingSource, ValueKind};
use crate::problem::Problem;
use sabir_client::Binding;
use sabir_client::signature::SignatureMode;
use std::time::Duration;
use url::Url;

/// The type of a setting's value.
pub(crate) trait ParseSetting: Sized {
    fn parse_setting(kind: ValueKind, text: &str) -> Result<Self, String>;
}

/// A setting with at most one value.
#[derive(Debug)]
pub(crate) struct SettingValue<T> {
    /// The setting as it was given.
    pub(crate) given: ResolvedSetting,
    value: Option<T>,
}

/// A setting with a list of values.
#[derive(Debug)]
pub(crate) struct SettingList<T> {
    /// The setting as it was given.
    pub(crate) given: ResolvedSetting,
    values: Vec<T>,
}

/// A header or metadata entry that is sent with every call.
#[derive(Debug)]
pub(crate) struct ServiceParameter {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl<T: ParseSetting> SettingValue<T> {
    pub(super) fn read(given: &ResolvedSetting) -> Result<Self, Problem> {
        let value = given.values.first().map(|text| given.parse(text)).transpose()?;
        Ok(Self { given: given.clone(), value })
    }
}

impl<T: ParseSetting> SettingList<T> {
    pub(super) fn read(given: &ResolvedSetting) -> Result<Self, Problem> {
        let values = given.values.iter().map(|text| given.parse(text)).collect::<Result<_, _>>()?;
        Ok(Self { given: given.clone(), values })
    }
}

impl<T> SettingValue<T> {
    pub(crate) const fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    pub(crate) const fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Whether the flag was typed.
    pub(crate) fn is_typed(&self) -> bool {
        self.given.source == SettingSource::Flag
    }

    pub(super) const fn precedence(&self) -> Precedence {
        self.given.source.precedence()
    }
}

impl<T: Copy> SettingValue<T> {
    pub(crate) const fn copied(&self) -> Option<T> {
        self.value
    }
}

impl SettingValue<bool> {
    /// Whether a switch is on. A switch that is not set is off.
    pub(crate) fn is_on(&self) -> bool {
        self.value.unwrap_or(false)
    }
}

impl SettingValue<String> {
    pub(crate) fn text(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// Sets a value as if its flag had been typed.
    pub(crate) fn set(&mut self, text: &str) {
        self.given.values = vec![text.to_owned()];
        self.given.source = SettingSource::Flag;
        self.value = Some(text.to_owned());
    }
}

impl<T> SettingList<T> {
    pub(crate) fn list(&self) -> &[T] {
        &self.values
    }
}

impl ParseSetting for bool {
    fn parse_setting(_: ValueKind, text: &str) -> Result<Self, String> {
        kind::switch(text)
    }
}

impl ParseSetting for String {
    fn parse_setting(_: ValueKind, text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl ParseSetting for Duration {
    fn parse_setting(_: ValueKind, text: &str) -> Result<Self, String> {
        kind::duration(text)
    }
}

impl ParseSetting for u32 {
    fn parse_setting(_: ValueKind, text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| kind::NOT_A_COUNT.into())
    }
}

impl ParseSetting for u64 {
    fn parse_setting(kind: ValueKind, text: &str) -> Result<Self, String> {
        match kind {
            ValueKind::Bytes => kind::bytes(text),
            _ => text.parse().map_err(|_| kind::NOT_A_COUNT.into()),
        }
    }
}

impl ParseSetting for Binding {
    fn parse_setting(_: ValueKind, text: &str) -> Result<Self, String> {
        kind::transport(text)
    }
}

impl ParseSetting for SignatureMode {
    fn parse_setting(_: ValueKind, text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "it is off, if-present or require".into())
    }
}

impl ParseSetting for Url {
    fn parse_setting(_: ValueKind, text: &str) -> Result<Self, String> {
        kind::web_url(text)
    }
}

impl ParseSetting for ServiceParameter {
    fn parse_setting(_: ValueKind, text: &str) -> Result<Self, String> {
        kind::pair(text).map(|(name, value)| Self { name: name.into(), value: value.into() })
    }
}
