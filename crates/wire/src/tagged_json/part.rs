//! Parts with a tag: `{"kind":"text","text":"hi"}`, or with `type` instead of `kind`.

use super::{Tag, TaggedStyle};
use crate::jsonrpc::present;
use crate::path::Path;
use crate::{LossKind, Losses};
use sabir_proto::{Content, Json, Object, Part, decode_base64, encode_base64};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;

/// The mark in the metadata of a data part that holds a value other than an object, wrapped as `{"value": …}`. The
/// Python SDK's layer for 0.3 reads and writes it in every binding.
pub(crate) const WRAPPED: &str = "data_part_compat";

/// A part as read, and the member that tagged it.
#[derive(Debug)]
pub(crate) struct TaggedPart {
    pub(crate) part: Part,
    pub(crate) tag: Tag,
}

#[derive(Deserialize)]
struct PartMembers {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default, rename = "type")]
    type_: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default, deserialize_with = "sabir_proto::lenient::optional_object")]
    file: Option<FileIn>,
    // `null` is valid data, and servers send it.
    #[serde(default, deserialize_with = "present")]
    data: Option<Json>,
    #[serde(default)]
    metadata: Option<Object>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileIn {
    #[serde(default)]
    name: Option<String>,
    #[serde(default, alias = "mime_type")]
    mime_type: Option<String>,
    // fasta2a uses the other names.
    #[serde(default, alias = "data")]
    bytes: Option<String>,
    #[serde(default, alias = "url")]
    uri: Option<String>,
}

impl<'de> Deserialize<'de> for TaggedPart {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let members: PartMembers = sabir_proto::lenient::object(d)?;
        let (word, tag) = match (&members.kind, &members.type_) {
            (Some(kind), None) => (kind.clone(), Tag::Kind),
            (None, Some(word)) => (word.clone(), Tag::Type),
            (Some(kind), Some(word)) if kind == word => (kind.clone(), Tag::Kind),
            (Some(_), Some(_)) => return Err(D::Error::custom("kind and type disagree; send one of them")),
            (None, None) => {
                return Err(D::Error::custom("a part needs a kind (0.2, 0.3) or a type (0.1): text, file or data"));
            }
        };
        let missing = |member| D::Error::custom(format_args!("a {word} part needs the member {member}"));
        let (content, filename, media_type) = match &*word {
            "text" => (Content::Text(members.text.ok_or_else(|| missing("text"))?), None, None),
            "data" => (Content::Data(members.data.ok_or_else(|| missing("data"))?), None, None),
            "file" => {
                let file = members.file.ok_or_else(|| missing("file"))?;
                let content = match (file.bytes, file.uri) {
                    (Some(bytes), None) => Content::Raw(
                        decode_base64(&bytes)
                            .map_err(|e| D::Error::custom(format_args!("file.bytes is not base64: {e}")))?,
                    ),
                    (None, Some(uri)) => Content::Url(uri),
                    _ => return Err(D::Error::custom("a file has exactly one of bytes and uri")),
                };
                let given = |text: Option<String>| text.filter(|t| !t.is_empty());
                (content, given(file.name), given(file.mime_type))
            }
            other => {
                let shown: String = other.chars().take(32).collect();
                return Err(D::Error::custom(format_args!("unknown part {shown:?}; there are text, file and data")));
            }
        };
        let mut part = Part { content, metadata: members.metadata, filename, media_type };
        unwrap_data(&mut part);
        Ok(Self { part, tag })
    }
}

/// Unwraps data that [`DataOut`] and [`metadata_with_mark`] have wrapped.
pub(crate) fn unwrap_data(part: &mut Part) {
    let Content::Data(data) = &part.content else { return };
    let Some(mut metadata) = part.metadata.as_ref().map(Object::to_map) else { return };
    if metadata.remove(WRAPPED) != Some(serde_json::Value::Bool(true)) {
        return;
    }
    // Reads the text of the value, so that long integers keep all digits.
    #[derive(Deserialize)]
    struct WrappedValue {
        value: Json,
    }
    if let Ok(WrappedValue { value }) = serde_json::from_str(data.as_str()) {
        part.content = Content::Data(value);
        part.metadata = if metadata.is_empty() { None } else { Object::from_map(&metadata).ok() };
    }
}

/// A part as it is written.
#[derive(Debug, Serialize)]
pub(crate) struct PartOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FileOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<DataOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Cow<'a, Object>>,
}

/// The data of a part: an object as it is, any other value as the only member of an object, because the older dialects
/// have only objects as data.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum DataOut<'a> {
    Object(&'a Json),
    Wrapped { value: &'a Json },
}

impl<'a> DataOut<'a> {
    pub(crate) fn of(json: &'a Json, metadata: Option<&Object>) -> Self {
        if is_wrapped(json, metadata) { Self::Wrapped { value: json } } else { Self::Object(json) }
    }
}

/// Whether a value is an object, so that a data part of the older dialects can hold it as it is.
pub(crate) fn is_object(json: &Json) -> bool {
    json.as_str().starts_with('{')
}

/// Whether a value has to be wrapped. An object that has the mark of its own is wrapped too, or a reader would unwrap
/// it.
pub(crate) fn is_wrapped(json: &Json, metadata: Option<&Object>) -> bool {
    !is_object(json) || own_mark(metadata) == Some(true.into())
}

/// The value that the metadata has under the name of the mark.
fn own_mark(metadata: Option<&Object>) -> Option<serde_json::Value> {
    metadata.filter(|m| m.as_str().contains(WRAPPED)).and_then(|m| m.get(WRAPPED))
}

/// Notes the loss of a metadata member that a reader will take for our mark, and remove.
pub(crate) fn note_own_mark(part: &Part, path: &Path<'_>, losses: &mut Losses) {
    let Content::Data(json) = &part.content else { return };
    let metadata = part.metadata.as_ref();
    if own_mark(metadata).is_some() && is_wrapped(json, metadata) {
        losses.note(LossKind::Metadata, path.member("metadata"));
    }
}

/// The metadata of a part as it is written, with the mark if the data is wrapped.
pub(crate) fn metadata_with_mark(part: &Part) -> Option<Cow<'_, Object>> {
    let metadata = part.metadata.as_ref();
    match &part.content {
        Content::Data(json) if is_wrapped(json, metadata) => {
            let mut marked = metadata.map(Object::to_map).unwrap_or_default();
            marked.insert(WRAPPED.into(), true.into());
            Object::from_map(&marked).ok().map(Cow::Owned)
        }
        _ => metadata.map(Cow::Borrowed),
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
}

/// Writes a part in the style of a dialect.
pub(crate) fn write<'a>(part: &'a Part, style: TaggedStyle, path: &Path<'_>, losses: &mut Losses) -> PartOut<'a> {
    let (filename, media_type) = (part.filename.as_deref(), part.media_type.as_deref());
    let file = |bytes, uri| Some(FileOut { name: filename, mime_type: media_type, bytes, uri });
    let word = match &part.content {
        Content::Text(_) => "text",
        Content::Data(_) => "data",
        Content::Raw(_) | Content::Url(_) => "file",
    };
    let (kind, type_) = match style.tag {
        Tag::Kind => (Some(word), None),
        Tag::Type => (None, Some(word)),
    };
    let mut out = PartOut { kind, type_, text: None, file: None, data: None, metadata: metadata_with_mark(part) };
    match &part.content {
        Content::Text(text) => out.text = Some(text),
        Content::Raw(bytes) => out.file = file(Some(encode_base64(bytes)), None),
        Content::Url(url) => out.file = file(None, Some(url)),
        Content::Data(json) => {
            out.data = Some(DataOut::of(json, part.metadata.as_ref()));
            note_own_mark(part, path, losses);
        }
    }
    if word != "file" {
        if filename.is_some() {
            losses.note(LossKind::PartAttribute, path.member("filename"));
        }
        if media_type.is_some() {
            losses.note(LossKind::PartAttribute, path.member("mediaType"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;

    #[test]
    fn data_as_deep_as_json_may_be_is_wrapped_all_the_same() {
        let deep = format!("{}{}", "[".repeat(sabir_proto::JSON_DEPTH_MAX), "]".repeat(sabir_proto::JSON_DEPTH_MAX));
        let part = Part::data(Json::parse(&deep).unwrap());
        let mut losses = Losses::new();
        let written = write(&part, TaggedStyle::of(Dialect::V03), &Path::Root, &mut losses);
        let expected = format!(r#"{{"kind":"data","data":{{"value":{deep}}},"metadata":{{"data_part_compat":true}}}}"#);
        assert_eq!(serde_json::to_string(&written).unwrap(), expected);
    }
}
