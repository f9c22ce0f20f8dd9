//! Transcodes committed JSON of 1.0 straight to JSON of 0.3, without parsing it into a tree.
//!
//! Nearly all committed JSON differs from 0.3 only in a few words, with its members in the same order, so values are
//! copied as bytes. Unusual values (a state or an attribute that 0.3 does not have, data that is no object) are not
//! transcoded: the functions return `None`, and the caller converts through the canonical types, which also notes
//! losses. A test checks that both ways give the same bytes.
//!
//! The input is JSON that we wrote ourselves, compact and checked. On any other input the functions return `None`; they
//! cannot read out of bounds.

/// Writes a committed task.
pub(crate) fn task(json: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut reader = Reader { json };
    write_task(&mut reader, out)?;
    reader.json.is_empty().then_some(())
}

/// Writes a committed event. `last`: no event follows it on this stream.
pub(crate) fn event(json: &[u8], last: bool, out: &mut Vec<u8>) -> Option<()> {
    let mut reader = Reader { json };
    reader.byte(b'{')?;
    match reader.key()? {
        b"task" => write_task(&mut reader, out)?,
        b"statusUpdate" => {
            out.extend_from_slice(b"{\"kind\":\"status-update\"");
            let mut metadata = None;
            reader.members(|key, reader| match key {
                b"status" => {
                    out.extend_from_slice(b",\"status\":");
                    write_status(reader, out)
                }
                b"metadata" => reader.value().map(|value| metadata = Some(value)),
                b"taskId" | b"contextId" => copy_member(key, reader, out),
                _ => None,
            })?;
            out.extend_from_slice(if last { b",\"final\":true" } else { b",\"final\":false" });
            write_member(b"metadata", metadata, out);
            out.push(b'}');
        }
        b"artifactUpdate" => {
            out.extend_from_slice(b"{\"kind\":\"artifact-update\"");
            reader.members(|key, reader| match key {
                b"artifact" => {
                    out.extend_from_slice(b",\"artifact\":");
                    write_artifact(reader, out)
                }
                b"taskId" | b"contextId" | b"append" | b"lastChunk" | b"metadata" => copy_member(key, reader, out),
                _ => None,
            })?;
            out.push(b'}');
        }
        _ => return None,
    }
    reader.byte(b'}')?;
    reader.json.is_empty().then_some(())
}

fn write_task(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{\"kind\":\"task\"");
    reader.members(|key, reader| match key {
        b"id" | b"contextId" | b"metadata" => copy_member(key, reader, out),
        b"status" => {
            out.extend_from_slice(b",\"status\":");
            write_status(reader, out)
        }
        b"history" => write_list(b",\"history\":", reader, out, write_message),
        b"artifacts" => write_list(b",\"artifacts\":", reader, out, write_artifact),
        _ => None,
    })?;
    out.push(b'}');
    Some(())
}

fn write_status(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'{');
    reader.members(|key, reader| match key {
        b"state" => {
            out.extend_from_slice(b"\"state\":");
            out.extend_from_slice(match reader.value()? {
                b"\"TASK_STATE_SUBMITTED\"" => b"\"submitted\"",
                b"\"TASK_STATE_WORKING\"" => b"\"working\"",
                b"\"TASK_STATE_INPUT_REQUIRED\"" => b"\"input-required\"",
                b"\"TASK_STATE_COMPLETED\"" => b"\"completed\"",
                b"\"TASK_STATE_CANCELED\"" => b"\"canceled\"",
                b"\"TASK_STATE_FAILED\"" => b"\"failed\"",
                b"\"TASK_STATE_REJECTED\"" => b"\"rejected\"",
                b"\"TASK_STATE_AUTH_REQUIRED\"" => &b"\"auth-required\""[..],
                _ => return None,
            });
            Some(())
        }
        b"message" => {
            out.extend_from_slice(b",\"message\":");
            write_message(reader, out)
        }
        b"timestamp" => copy_member(key, reader, out),
        _ => None,
    })?;
    out.push(b'}');
    Some(())
}

fn write_message(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{\"kind\":\"message\"");
    reader.members(|key, reader| match key {
        b"role" => {
            out.extend_from_slice(match reader.value()? {
                b"\"ROLE_USER\"" => b",\"role\":\"user\"",
                b"\"ROLE_AGENT\"" => &b",\"role\":\"agent\""[..],
                _ => return None,
            });
            Some(())
        }
        b"parts" => write_list(b",\"parts\":", reader, out, write_part),
        b"messageId" | b"contextId" | b"taskId" | b"metadata" | b"extensions" | b"referenceTaskIds" => {
            copy_member(key, reader, out)
        }
        _ => None,
    })?;
    out.push(b'}');
    Some(())
}

fn write_artifact(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'{');
    reader.members(|key, reader| match key {
        b"artifactId" => {
            out.extend_from_slice(b"\"artifactId\":");
            out.extend_from_slice(reader.value()?);
            Some(())
        }
        b"parts" => write_list(b",\"parts\":", reader, out, write_part),
        b"name" | b"description" | b"metadata" | b"extensions" => copy_member(key, reader, out),
        _ => None,
    })?;
    out.push(b'}');
    Some(())
}

fn write_part(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (mut text, mut raw, mut url, mut data) = (None, None, None, None);
    let (mut metadata, mut filename, mut media_type) = (None, None, None);
    reader.members(|key, reader| {
        let slot = match key {
            b"text" => &mut text,
            b"raw" => &mut raw,
            b"url" => &mut url,
            b"data" => &mut data,
            b"metadata" => &mut metadata,
            b"filename" => &mut filename,
            b"mediaType" => &mut media_type,
            _ => return None,
        };
        *slot = Some(reader.value()?);
        Some(())
    })?;
    match (text, data, raw, url) {
        (Some(text), None, None, None) if filename.is_none() && media_type.is_none() => {
            out.extend_from_slice(b"{\"kind\":\"text\",\"text\":");
            out.extend_from_slice(text);
        }
        // With metadata, an object may have the mark of wrapped data; any other value has to be wrapped.
        (None, Some(data @ [b'{', ..]), None, None)
            if filename.is_none() && media_type.is_none() && metadata.is_none() =>
        {
            out.extend_from_slice(b"{\"kind\":\"data\",\"data\":");
            out.extend_from_slice(data);
        }
        (None, None, bytes, uri) if bytes.is_some() != uri.is_some() => {
            out.extend_from_slice(b"{\"kind\":\"file\",\"file\":{");
            for (key, value) in [(&b"name"[..], filename), (b"mimeType", media_type), (b"bytes", bytes), (b"uri", uri)]
            {
                write_member(key, value, out);
            }
            out.push(b'}');
        }
        _ => return None,
    }
    write_member(b"metadata", metadata, out);
    out.push(b'}');
    Some(())
}

/// Writes a member that may be absent, with a comma unless it is the first of its object.
fn write_member(key: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(value) = value else { return };
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(key);
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value);
}

fn copy_member(key: &[u8], reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
    write_member(key, Some(reader.value()?), out);
    Some(())
}

fn write_list<'a>(
    open: &[u8],
    reader: &mut Reader<'a>,
    out: &mut Vec<u8>,
    write: impl Fn(&mut Reader<'a>, &mut Vec<u8>) -> Option<()>,
) -> Option<()> {
    out.extend_from_slice(open);
    reader.byte(b'[')?;
    out.push(b'[');
    if reader.byte(b']').is_none() {
        loop {
            write(reader, out)?;
            if reader.byte(b']').is_some() {
                break;
            }
            reader.byte(b',')?;
            out.push(b',');
        }
    }
    out.push(b']');
    Some(())
}

/// Reads a compact JSON text; `json` is what is left of it.
struct Reader<'a> {
    json: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Takes this byte if it is next.
    fn byte(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.json.split_first()?;
        if *first != byte {
            return None;
        }
        self.json = rest;
        Some(())
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.json.split_at_checked(length)?;
        self.json = rest;
        Some(taken)
    }

    /// Takes the name of a member and its colon. Our names have no escapes.
    fn key(&mut self) -> Option<&'a [u8]> {
        let quoted = self.string()?;
        self.byte(b':')?;
        quoted.get(1..quoted.len() - 1)
    }

    /// Takes all members of an object; `member` must take each value.
    fn members(&mut self, mut member: impl FnMut(&'a [u8], &mut Self) -> Option<()>) -> Option<()> {
        self.byte(b'{')?;
        loop {
            let key = self.key()?;
            member(key, self)?;
            if self.byte(b'}').is_some() {
                return Some(());
            }
            self.byte(b',')?;
        }
    }

    /// Takes a string with its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        if self.json.first() != Some(&b'"') {
            return None;
        }
        let mut at = 1;
        loop {
            match self.json.get(at)? {
                b'"' => return self.take(at + 1),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    /// Takes any value.
    fn value(&mut self) -> Option<&'a [u8]> {
        match self.json.first()? {
            b'"' => self.string(),
            b'{' | b'[' => {
                let whole = self.json;
                let mut depth = 0_usize;
                loop {
                    match self.json.first()? {
                        b'"' => {
                            self.string()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.take(1)?;
                    if depth == 0 {
                        return whole.get(..whole.len() - self.json.len());
                    }
                }
            }
            _ => {
                let end = self.json.iter().position(|b| matches!(b, b',' | b'}' | b']'))?;
                self.take(end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = concat!(
        r#"{"id":"t","contextId":"c\"}","status":{"state":"TASK_STATE_WORKING","message":{"messageId":"m","#,
        r#""role":"ROLE_AGENT","parts":[{"text":"a\\"}]},"timestamp":"x"},"metadata":{"role":["ROLE_USER",{}]},"#,
        r#""history":[{"messageId":"h","role":"ROLE_USER","parts":[{"raw":"AA==","filename":"f"},{"data":{"text":1}}]}],"#,
        r#""artifacts":[{"artifactId":"a","name":"n","parts":[{"url":"u","metadata":{"k":"v"}}]}]}"#
    );

    #[test]
    fn what_is_usual_goes_the_short_way() {
        let mut out = Vec::new();
        task(TASK.as_bytes(), &mut out).unwrap();
        let expected = concat!(
            r#"{"kind":"task","id":"t","contextId":"c\"}","status":{"state":"working","message":{"kind":"message","#,
            r#""messageId":"m","role":"agent","parts":[{"kind":"text","text":"a\\"}]},"timestamp":"x"},"#,
            r#""metadata":{"role":["ROLE_USER",{}]},"history":[{"kind":"message","messageId":"h","role":"user","#,
            r#""parts":[{"kind":"file","file":{"name":"f","bytes":"AA=="}},{"kind":"data","data":{"text":1}}]}],"#,
            r#""artifacts":[{"artifactId":"a","name":"n","parts":[{"kind":"file","file":{"uri":"u"},"metadata":{"k":"v"}}]}]}"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn what_is_not_usual_and_what_is_damaged_is_left_alone() {
        for (usual, other) in [
            ("WORKING", "TRANSFERRED"),
            (r#"{"text":"a\\"}"#, r#"{"text":"a","mediaType":"b"}"#),
            (r#"{"data":{"text":1}}"#, r#"{"data":1}"#),
            (r#""artifactId""#, r#""new""#),
        ] {
            assert_eq!(task(TASK.replace(usual, other).as_bytes(), &mut Vec::new()), None, "{other}");
        }
        for end in 0..TASK.len() {
            assert_eq!(task(&TASK.as_bytes()[..end], &mut Vec::new()), None);
            let _ = event(&TASK.as_bytes()[end..], true, &mut Vec::new());
        }
        for bad in [&b"}"[..], b"{]", br#"{"id":]}"#, br#"{"id":"\"#, br#"{"metadata":}}"#] {
            assert_eq!(task(bad, &mut Vec::new()), None);
        }
    }
}
