//! A part of a message or an artifact: text, bytes, a link, or data.

use crate::{Json, Object};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD};
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The content of a part. The JSON has no tag: the member that is set decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// `text`
    Text(String),
    /// `raw`: bytes, base64 in JSON
    Raw(Vec<u8>),
    /// `url`
    Url(String),
    /// `data`: any JSON
    Data(Json),
}

/// A piece of content with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The content: text, bytes, a URL or data.
    pub content: Content,
    /// Metadata of any shape.
    pub metadata: Option<Object>,
    /// The file name, allowed for every kind of content. It is only data: never use it as a path.
    pub filename: Option<String>,
    /// The media type, allowed for every kind of content.
    pub media_type: Option<String>,
}

impl Part {
    /// A part without attributes.
    pub const fn new(content: Content) -> Self {
        Self { content, metadata: None, filename: None, media_type: None }
    }

    /// A part with this text and no attributes.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Content::Text(text.into()))
    }

    /// A part with this data and no attributes.
    pub const fn data(json: Json) -> Self {
        Self::new(Content::Data(json))
    }

    /// Whether this is text without attributes, except perhaps a media type.
    pub const fn is_plain_text(&self) -> bool {
        matches!(self.content, Content::Text(_)) && self.metadata.is_none() && self.filename.is_none()
    }

    /// Whether the text of `next` continues this text: both are plain text of one media type.
    pub fn is_continued_by(&self, next: &Self) -> bool {
        self.is_plain_text() && next.is_plain_text() && self.media_type == next.media_type
    }

    /// Appends the text of `next` if it continues this text; returns false otherwise.
    pub(crate) fn extend_text(&mut self, next: &Self) -> bool {
        let continues = self.is_continued_by(next);
        match (&mut self.content, &next.content) {
            (Content::Text(text), Content::Text(more)) if continues => text.push_str(more),
            _ => return false,
        }
        true
    }

    /// The text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Raw(_) | Content::Url(_) | Content::Data(_) => None,
        }
    }
}

/// Both alphabets, padded or not: ProtoJSON requires decoders to accept all four.
const ANY_PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const READ_STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
const READ_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_PADDING);

/// Decodes base64 in either alphabet, padded or not.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let engine = if text.contains(['-', '_']) { &READ_URL_SAFE } else { &READ_STANDARD };
    engine.decode(text).map_err(|e| e.to_string())
}

/// Encodes base64 as all dialects do: standard alphabet, padded.
pub fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        match &self.content {
            Content::Text(text) => map.serialize_entry("text", text)?,
            Content::Raw(bytes) => map.serialize_entry("raw", &encode_base64(bytes))?,
            Content::Url(url) => map.serialize_entry("url", url)?,
            Content::Data(json) => map.serialize_entry("data", json)?,
        }
        if let Some(metadata) = &self.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        if let Some(filename) = &self.filename {
            map.serialize_entry("filename", filename)?;
        }
        if let Some(media_type) = &self.media_type {
            map.serialize_entry("mediaType", media_type)?;
        }
        map.end()
    }
}

// `field_identifier` lets error messages name the member they are about.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum PartMember {
    Text,
    Raw,
    Url,
    Data,
    Metadata,
    Filename,
    #[serde(alias = "media_type")]
    MediaType,
    #[serde(other)]
    Unknown,
}

/// Sets a member that may appear once; readers disagree on which of two counts.
fn set_once<T, E: Error>(slot: &mut Option<T>, value: T, name: &'static str) -> Result<(), E> {
    if slot.replace(value).is_some() { Err(E::duplicate_field(name)) } else { Ok(()) }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct PartVisitor;
        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part: an object with exactly one of text, raw, url, data")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
                let mut content: Option<Content> = None;
                let (mut metadata, mut filename, mut media_type) = (None, None, None);
                while let Some(member) = map.next_key::<PartMember>()? {
                    let found = match member {
                        PartMember::Text => map.next_value::<Option<String>>()?.map(Content::Text),
                        PartMember::Url => map.next_value::<Option<String>>()?.map(Content::Url),
                        // `"data": null` is a value like any other: the JSON null.
                        PartMember::Data => Some(Content::Data(map.next_value()?)),
                        PartMember::Raw => match map.next_value::<Option<String>>()? {
                            None => None,
                            Some(text) => Some(Content::Raw(
                                decode_base64(&text)
                                    .map_err(|e| A::Error::custom(format_args!("raw is not base64: {e}")))?,
                            )),
                        },
                        PartMember::Metadata => {
                            set_once::<_, A::Error>(&mut metadata, map.next_value()?, "metadata")?;
                            None
                        }
                        PartMember::Filename => {
                            set_once::<_, A::Error>(&mut filename, map.next_value()?, "filename")?;
                            None
                        }
                        PartMember::MediaType => {
                            set_once::<_, A::Error>(&mut media_type, map.next_value()?, "mediaType")?;
                            None
                        }
                        PartMember::Unknown => {
                            map.next_value::<IgnoredAny>()?;
                            None
                        }
                    };
                    if let Some(found) = found
                        && content.replace(found).is_some()
                    {
                        return Err(A::Error::custom(
                            "a part has exactly one of text, raw, url, data; this one has several",
                        ));
                    }
                }
                let content = content.ok_or_else(|| {
                    A::Error::custom("a part has exactly one of text, raw, url, data; this one has none")
                })?;
                let text = |given: Option<Option<String>>| given.flatten().filter(|s| !s.is_empty());
                Ok(Part {
                    content,
                    metadata: metadata.flatten(),
                    filename: text(filename),
                    media_type: text(media_type),
                })
            }
        }
        d.deserialize_map(PartVisitor)
    }
}

/// The JSON of the first data part of a message or an artifact.
pub fn first_data(parts: &[Part]) -> Option<&Json> {
    parts.iter().find_map(|part| match &part.content {
        Content::Data(json) => Some(json),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> String {
        serde_json::to_string(&serde_json::from_str::<Part>(text).unwrap()).unwrap()
    }

    #[test]
    fn each_kind_reads_back() {
        for text in [
            r#"{"text":"hi"}"#,
            r#"{"text":""}"#,
            r#"{"raw":"AAEC/w==","filename":"a.bin","mediaType":"application/octet-stream"}"#,
            r#"{"url":"https://example.com/x.png","mediaType":"image/png"}"#,
            r#"{"data":{"n":12345678901234567890,"a":[1,null]},"metadata":{"k":"v"}}"#,
            r#"{"data":null}"#,
        ] {
            assert_eq!(round(text), text);
        }
        assert_eq!(round(r#"{"raw":"AAEC_w"}"#), r#"{"raw":"AAEC/w=="}"#);
        assert_eq!(
            round(r#"{"media_type":"text/x","text":"a","newMember":[1]}"#),
            r#"{"text":"a","mediaType":"text/x"}"#
        );
    }

    #[test]
    fn none_or_several_kinds_are_refused() {
        for text in [
            "{}",
            r#"{"text":null}"#,
            r#"{"text":"a","url":"b"}"#,
            r#"{"raw":"%%%"}"#,
            r#"{"kind":"text"}"#,
            "[]",
            "3",
            r#"{"text":"a","filename":"b","filename":"b"}"#,
            r#"{"text":"a","mediaType":"b","media_type":"b"}"#,
        ] {
            assert!(serde_json::from_str::<Part>(text).is_err(), "{text}");
        }
    }
}
