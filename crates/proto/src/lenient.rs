//! Where ProtoJSON lets a reader be generous: `null` and the empty string mean "not set".

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// `null` reads as the default: ProtoJSON writers may send it for any unset member.
pub(crate) fn null_default<'de, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(d)?.unwrap_or_default())
}

/// `""` and `null` read as absent: a proto3 string without presence cannot tell the two apart.
pub(crate) fn empty_none<'de, D, T>(d: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromText,
{
    struct OptionalText<T>(PhantomData<T>);
    impl<'de, T: FromText> Visitor<'de> for OptionalText<T> {
        type Value = Option<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
            from_text(d, |text| if text.is_empty() { Ok(None) } else { T::from_text(text).map(Some) })
        }
    }
    d.deserialize_option(OptionalText(PhantomData))
}

/// Reads a string without keeping a copy of it (serde's own `Cow` always copies).
pub(crate) fn from_text<'de, D: Deserializer<'de>, T>(
    d: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Text<F>(F);
    impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Text<F> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).map_err(E::custom)
        }
    }
    d.deserialize_str(Text(read))
}

/// What [`empty_none`] can make of a text.
pub(crate) trait FromText: Sized {
    fn from_text(text: &str) -> Result<Self, String>;
}

impl FromText for String {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
}

impl FromText for crate::TaskRef {
    fn from_text(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|e| format!("task id {e}"))
    }
}

impl FromText for crate::ContextId {
    fn from_text(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|e| format!("context id {e}"))
    }
}

pub(crate) const fn is_false(value: &bool) -> bool {
    !*value
}
