//! Readers for the cases where ProtoJSON is lenient: `null` and the empty string mean "not set".

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// `null` reads as the default: ProtoJSON writers may send it for any unset member.
pub fn null_default<'de, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(d)?.unwrap_or_default())
}

/// `""` and `null` read as absent: a proto3 string without presence cannot tell the two apart.
pub fn empty_none<'de, D, T>(d: D) -> Result<Option<T>, D::Error>
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

/// Deserialises a structure from an object only: derived readers also accept an array of the members in order, which no
/// protocol allows.
pub fn object<'de, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct OnlyObject<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyObject<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    d.deserialize_map(OnlyObject(PhantomData))
}

/// Like [`object`], for a member that may be absent or `null`.
pub fn optional_object<'de, D, T>(d: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Wrapped<T>(T);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Wrapped<T> {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            object(d).map(Self)
        }
    }
    Ok(Option::<Wrapped<T>>::deserialize(d)?.map(|wrapped| wrapped.0))
}

/// Parses a string without copying it (serde's own `Cow` always copies).
pub fn from_text<'de, D: Deserializer<'de>, T>(
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

/// A type that [`empty_none`] can parse from a text.
pub trait FromText: Sized {
    /// Parses the text; the error says what is wrong.
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

/// A 32-bit integer in the forms that ProtoJSON allows: `5`, `5.0`, `"5"`; `null` is absent. `5.5` is refused.
pub fn int32<'de, D: Deserializer<'de>>(d: D) -> Result<Option<i32>, D::Error> {
    struct Int32;
    impl Visitor<'_> for Int32 {
        type Value = Option<i32>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number of 32 bits")
        }
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_i64<E: Error>(self, n: i64) -> Result<Self::Value, E> {
            i32::try_from(n).map(Some).map_err(|_| E::custom("must be a whole number of 32 bits"))
        }
        fn visit_u64<E: Error>(self, n: u64) -> Result<Self::Value, E> {
            i32::try_from(n).map(Some).map_err(|_| E::custom("must be a whole number of 32 bits"))
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and within range by the check before it")]
        fn visit_f64<E: Error>(self, n: f64) -> Result<Self::Value, E> {
            if n.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&n) {
                return Ok(Some(n as i32));
            }
            Err(E::custom("must be a whole number of 32 bits"))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            text.parse().map(Some).map_err(|_| E::custom("must be a whole number of 32 bits"))
        }
    }
    d.deserialize_any(Int32)
}

/// For `skip_serializing_if` on members whose default is `false`.
pub const fn is_false(value: &bool) -> bool {
    !*value
}
