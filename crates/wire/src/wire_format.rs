//! Walks the protobuf wire format of a gRPC request before it is decoded: tags and lengths, no allocation.
//!
//! Two bytes on the wire can become a struct of a hundred bytes in memory, so the length of a message does not tell the
//! cost of decoding it. [`RequestShape`] knows where a request of each method has repeated members, and
//! [`RequestShape::count_members`] counts them. The same walk finds the tenant, by which the server finds the agent, so
//! that it can authenticate a caller whose message it has not decoded.
//!
//! Bytes that are not of the wire format are an error here already. If the decoder reported them, both would have to
//! agree where the error begins.

/// The number of nested messages that are walked into. The decoder refuses more than a hundred, so deeper members need
/// not be counted.
const DEPTH_MAX: usize = 128;

/// The request of one method: where its tenant and its repeated members are.
#[derive(Debug, Clone, Copy)]
pub struct RequestShape(&'static MessageShape);

/// The number of members of a message that cost memory of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberCount {
    /// The number of parts of the message.
    pub parts: usize,
    /// The number of all entries of lists and members of objects, parts included.
    pub all: usize,
}

/// Why the walk over a message stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// The bytes are not a protobuf message.
    #[error("the bytes are not of the wire format of protobuf")]
    Malformed,
    /// The message has more parts than allowed.
    #[error("more than {0} parts")]
    Parts(usize),
    /// The message has more members than allowed.
    #[error("more than {0} entries of lists and members of objects")]
    Members(usize),
}

impl RequestShape {
    /// The request of the method at this path, such as `/lf.a2a.v1.A2AService/SendMessage`.
    pub fn of_path(path: &str) -> Option<Self> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        let methods = match service {
            "lf.a2a.v1.A2AService" => V1,
            "a2a.v1.A2AService" => V03,
            _ => return None,
        };
        methods.iter().find(|(name, _)| *name == method).map(|(_, shape)| Self(shape))
    }

    /// The tenant of a message; empty if it names none. The last one counts, as for a decoder.
    pub fn tenant(self, message: &[u8]) -> Result<&str, WalkError> {
        let mut tenant = "";
        let mut fields = Fields(message);
        while let Some((number, content)) = fields.next()? {
            if self.0.member(number) == Some(FieldKind::Tenant)
                && let Content::Bytes(text) = content
            {
                tenant = std::str::from_utf8(text).map_err(|_| WalkError::Malformed)?;
            }
        }
        Ok(tenant)
    }

    /// Counts the repeated members of a message. Fails as soon as there are more than allowed.
    pub fn count_members(self, message: &[u8], limits: MemberCount) -> Result<MemberCount, WalkError> {
        let mut counted = MemberCount::default();
        count(message, self.0, limits, &mut counted, 0)?;
        Ok(counted)
    }
}

/// A message type, with those of its fields that are walked.
#[derive(Debug)]
struct MessageShape(&'static [(u32, FieldKind)]);

#[derive(Debug, Clone, Copy)]
enum FieldKind {
    /// The text that names an agent.
    Tenant,
    /// Repeated, with nothing repeated inside.
    List,
    /// Repeated messages, or the entries of a map.
    Messages(&'static MessageShape),
    /// Repeated parts.
    Parts(&'static MessageShape),
    /// One message.
    Message(&'static MessageShape),
}

impl PartialEq for FieldKind {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl MessageShape {
    fn member(&self, number: u32) -> Option<FieldKind> {
        self.0.iter().find(|(known, _)| *known == number).map(|(_, member)| *member)
    }
}

fn count(
    message: &[u8],
    shape: &MessageShape,
    limits: MemberCount,
    counted: &mut MemberCount,
    depth: usize,
) -> Result<(), WalkError> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    let mut fields = Fields(message);
    while let Some((number, content)) = fields.next()? {
        let (Some(member), Content::Bytes(bytes)) = (shape.member(number), content) else { continue };
        let inner = match member {
            FieldKind::Tenant => continue,
            FieldKind::Message(inner) => {
                count(bytes, inner, limits, counted, depth + 1)?;
                continue;
            }
            FieldKind::List => None,
            FieldKind::Messages(inner) => Some(inner),
            FieldKind::Parts(inner) => {
                counted.parts += 1;
                if counted.parts > limits.parts {
                    return Err(WalkError::Parts(limits.parts));
                }
                Some(inner)
            }
        };
        counted.all += 1;
        if counted.all > limits.all {
            return Err(WalkError::Members(limits.all));
        }
        if let Some(inner) = inner {
            count(bytes, inner, limits, counted, depth + 1)?;
        }
    }
    Ok(())
}

/// The fields of one message, in their order.
struct Fields<'a>(&'a [u8]);

/// What a field holds.
enum Content<'a> {
    Bytes(&'a [u8]),
    Other,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u32, Content<'a>)>, WalkError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.tag()?;
        Ok(Some((number, self.content(number, kind, 0)?)))
    }

    fn tag(&mut self) -> Result<(u32, u8), WalkError> {
        let tag = u32::try_from(self.varint()?).map_err(|_| WalkError::Malformed)?;
        match tag >> 3 {
            0 => Err(WalkError::Malformed),
            number => Ok((number, tag.to_le_bytes()[0] & 7)),
        }
    }

    fn content(&mut self, number: u32, kind: u8, depth: usize) -> Result<Content<'a>, WalkError> {
        match kind {
            0 => self.varint().map(|_| Content::Other),
            1 => self.take(8).map(|_| Content::Other),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| WalkError::Malformed)?;
                self.take(length).map(Content::Bytes)
            }
            3 if depth < DEPTH_MAX => {
                // A group, which proto3 no longer has; decoders skip it where they do not know the field.
                loop {
                    match self.tag()? {
                        (end, 4) if end == number => return Ok(Content::Other),
                        (inner, kind) => self.content(inner, kind, depth + 1).map(drop)?,
                    }
                }
            }
            5 => self.take(4).map(|_| Content::Other),
            _ => Err(WalkError::Malformed),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WalkError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WalkError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, WalkError> {
        let mut value = 0;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(WalkError::Malformed)
    }
}

// The messages of google.protobuf that hold JSON.
static STRUCT: MessageShape = MessageShape(&[(1, FieldKind::Messages(&STRUCT_ENTRY))]);
static STRUCT_ENTRY: MessageShape = MessageShape(&[(2, FieldKind::Message(&VALUE))]);
static VALUE: MessageShape = MessageShape(&[(5, FieldKind::Message(&STRUCT)), (6, FieldKind::Message(&VALUES))]);
static VALUES: MessageShape = MessageShape(&[(1, FieldKind::Messages(&VALUE))]);

/// The methods of 1.0, and their requests.
const V1: &[(&str, &MessageShape)] = &[
    ("SendMessage", &SEND),
    ("SendStreamingMessage", &SEND),
    ("GetTask", &OF_TENANT),
    ("ListTasks", &OF_TENANT),
    ("CancelTask", &CANCEL),
    ("SubscribeToTask", &OF_TENANT),
    ("CreateTaskPushNotificationConfig", &OF_TENANT),
    ("GetTaskPushNotificationConfig", &OF_TENANT),
    ("ListTaskPushNotificationConfigs", &LIST_PUSH),
    ("GetExtendedAgentCard", &OF_TENANT),
    ("DeleteTaskPushNotificationConfig", &OF_TENANT),
];
static OF_TENANT: MessageShape = MessageShape(&[(1, FieldKind::Tenant)]);
static LIST_PUSH: MessageShape = MessageShape(&[(4, FieldKind::Tenant)]);
static CANCEL: MessageShape = MessageShape(&[(1, FieldKind::Tenant), (3, FieldKind::Message(&STRUCT))]);
static SEND: MessageShape = MessageShape(&[
    (1, FieldKind::Tenant),
    (2, FieldKind::Message(&MESSAGE)),
    (3, FieldKind::Message(&CONFIGURATION)),
    (4, FieldKind::Message(&STRUCT)),
]);
static CONFIGURATION: MessageShape = MessageShape(&[(1, FieldKind::List)]);
static MESSAGE: MessageShape = MessageShape(&[
    (5, FieldKind::Parts(&PART)),
    (6, FieldKind::Message(&STRUCT)),
    (7, FieldKind::List),
    (8, FieldKind::List),
]);
static PART: MessageShape = MessageShape(&[(4, FieldKind::Message(&VALUE)), (5, FieldKind::Message(&STRUCT))]);

/// The methods of 0.3, and their requests.
const V03: &[(&str, &MessageShape)] = &[
    ("SendMessage", &SEND_V03),
    ("SendStreamingMessage", &SEND_V03),
    ("GetTask", &NOTHING),
    ("CancelTask", &NOTHING),
    ("TaskSubscription", &NOTHING),
    ("CreateTaskPushNotificationConfig", &CREATE_PUSH_V03),
    ("GetTaskPushNotificationConfig", &NOTHING),
    ("ListTaskPushNotificationConfig", &NOTHING),
    ("GetAgentCard", &NOTHING),
    ("DeleteTaskPushNotificationConfig", &NOTHING),
];
static NOTHING: MessageShape = MessageShape(&[]);
static SEND_V03: MessageShape = MessageShape(&[
    (1, FieldKind::Message(&MESSAGE_V03)),
    (2, FieldKind::Message(&CONFIGURATION_V03)),
    (3, FieldKind::Message(&STRUCT)),
]);
static MESSAGE_V03: MessageShape =
    MessageShape(&[(5, FieldKind::Parts(&PART_V03)), (6, FieldKind::Message(&STRUCT)), (7, FieldKind::List)]);
static PART_V03: MessageShape = MessageShape(&[(3, FieldKind::Message(&DATA_V03)), (4, FieldKind::Message(&STRUCT))]);
static DATA_V03: MessageShape = MessageShape(&[(1, FieldKind::Message(&STRUCT))]);
static CONFIGURATION_V03: MessageShape = MessageShape(&[(1, FieldKind::List), (2, FieldKind::Message(&PUSH_V03))]);
static CREATE_PUSH_V03: MessageShape = MessageShape(&[(3, FieldKind::Message(&TASK_PUSH_V03))]);
static TASK_PUSH_V03: MessageShape = MessageShape(&[(2, FieldKind::Message(&PUSH_V03))]);
static PUSH_V03: MessageShape = MessageShape(&[(4, FieldKind::Message(&AUTHENTICATION_V03))]);
static AUTHENTICATION_V03: MessageShape = MessageShape(&[(1, FieldKind::List)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::{a2a_v03, lf_a2a_v1};
    use prost::Message as _;
    use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
    use prost_types::value::Kind as ValueKind;
    use prost_types::{ListValue, Struct, Value};

    const PLENTY: MemberCount = MemberCount { parts: usize::MAX, all: usize::MAX };

    /// Whether a message can hold anything that repeats, at any depth.
    fn repeats(message: &MessageDescriptor, above: &mut Vec<String>) -> bool {
        if above.iter().any(|name| name == message.full_name()) {
            return false;
        }
        above.push(message.full_name().to_owned());
        let found = message.fields().any(|field| {
            field.is_list() || field.is_map() || inner(&field).is_some_and(|inner| repeats(&inner, above))
        });
        above.pop();
        found
    }

    fn inner(field: &FieldDescriptor) -> Option<MessageDescriptor> {
        match field.kind() {
            Kind::Message(inner) => Some(inner),
            _ => None,
        }
    }

    fn compare(message: &MessageDescriptor, shape: &MessageShape, above: &mut Vec<String>) {
        if above.iter().any(|name| name == message.full_name()) {
            return;
        }
        above.push(message.full_name().to_owned());
        for field in message.fields() {
            let (name, member) = (field.full_name().to_owned(), shape.member(field.number()));
            let nested = inner(&field).filter(|inner| field.is_map() || repeats(inner, &mut Vec::new()));
            match (field.is_list() || field.is_map(), nested, member) {
                (true, Some(inner), Some(FieldKind::Messages(shape) | FieldKind::Parts(shape))) => {
                    assert_eq!(inner.name() == "Part", member == Some(FieldKind::Parts(shape)), "{name}");
                    compare(&inner, shape, above);
                }
                (true, None, Some(FieldKind::List)) => {}
                (false, Some(inner), Some(FieldKind::Message(shape))) => compare(&inner, shape, above),
                (false, None, Some(FieldKind::Tenant)) => assert_eq!(field.name(), "tenant"),
                (false, None, None) => assert_ne!(field.name(), "tenant", "{name}"),
                (repeated, nested, member) => panic!("{name}: {repeated} {nested:?} {member:?}"),
            }
        }
        above.pop();
    }

    #[test]
    fn the_tables_name_every_repeated_member_that_a_request_can_have() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        for (file, methods) in [("a2a_v1.proto", V1), ("a2a_v03.proto", V03)] {
            let files = protox::compile([file], [directory]).unwrap();
            let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
            let service = pool.services().next().unwrap();
            assert_eq!(service.methods().len(), methods.len(), "{file}");
            for method in service.methods() {
                let path = format!("/{}/{}", service.full_name(), method.name());
                let RequestShape(shape) = RequestShape::of_path(&path).unwrap_or_else(|| panic!("{path}"));
                compare(&method.input(), shape, &mut Vec::new());
            }
        }
        for unknown in ["/lf.a2a.v1.A2AService/Nothing", "/a2a.v1.Other/SendMessage", "", "/", "SendMessage"] {
            assert!(RequestShape::of_path(unknown).is_none(), "{unknown:?}");
        }
    }

    fn list(values: Vec<Value>) -> Value {
        Value { kind: Some(ValueKind::ListValue(ListValue { values })) }
    }

    fn send() -> RequestShape {
        RequestShape::of_path("/lf.a2a.v1.A2AService/SendMessage").unwrap()
    }

    #[test]
    fn members_are_counted_wherever_they_are() {
        let truth = || Value { kind: Some(ValueKind::BoolValue(true)) };
        let object = || Struct { fields: [("a".into(), truth()), ("b".into(), list(vec![truth(); 3]))].into() };
        let data = lf_a2a_v1::part::Content::Data(list(vec![list(Vec::new()), truth()]));
        let parts = vec![lf_a2a_v1::Part { content: Some(data), metadata: Some(object()), ..Default::default() }; 2];
        let message = lf_a2a_v1::Message {
            parts,
            metadata: Some(object()),
            extensions: vec![String::new(); 4],
            reference_task_ids: vec!["t".into()],
            ..Default::default()
        };
        let request = lf_a2a_v1::SendMessageRequest {
            tenant: "desk".into(),
            message: Some(message),
            configuration: Some(lf_a2a_v1::SendMessageConfiguration {
                accepted_output_modes: vec!["text/plain".into()],
                ..Default::default()
            }),
            metadata: Some(object()),
        };
        let bytes = request.encode_to_vec();
        // Two parts with two values and five of metadata each, five of the message, five of the request, and 4 + 1 + 1
        // texts.
        let all = 2 * (1 + 2 + 5) + 5 + 5 + 6;
        assert_eq!(send().count_members(&bytes, PLENTY), Ok(MemberCount { parts: 2, all }));
        assert_eq!(send().tenant(&bytes), Ok("desk"));
        assert_eq!(
            send().count_members(&bytes, MemberCount { all: all - 1, ..PLENTY }),
            Err(WalkError::Members(all - 1))
        );
        assert_eq!(send().count_members(&bytes, MemberCount { parts: 1, ..PLENTY }), Err(WalkError::Parts(1)));

        let message = a2a_v03::Message { content: vec![a2a_v03::Part::default(); 7], ..Default::default() };
        let older = a2a_v03::SendMessageRequest { request: Some(message), ..Default::default() }.encode_to_vec();
        let shape = RequestShape::of_path("/a2a.v1.A2AService/SendStreamingMessage").unwrap();
        assert_eq!(shape.count_members(&older, PLENTY), Ok(MemberCount { parts: 7, all: 7 }));
        assert_eq!(shape.tenant(&older), Ok(""));
    }

    #[test]
    fn the_last_tenant_counts_as_it_does_for_a_decoder() {
        let bytes = [b"\x0a\x01a".as_slice(), b"\x0a\x01b"].concat();
        assert_eq!(send().tenant(&bytes), Ok("b"));
        assert_eq!(lf_a2a_v1::SendMessageRequest::decode(&*bytes).unwrap().tenant, "b");
        assert_eq!(
            RequestShape::of_path("/lf.a2a.v1.A2AService/ListTaskPushNotificationConfigs")
                .unwrap()
                .tenant(b"\x22\x01c"),
            Ok("c")
        );
    }

    #[test]
    fn what_is_cut_off_or_of_no_known_kind_is_malformed() {
        let varint_too_long = [0xff; 11];
        let bad: [&[u8]; 9] = [
            b"\x12",
            b"\x12\x05ab",
            b"\x00\x01",
            b"\x0e",
            b"\x0c",
            b"\x0b\x08\x01",
            b"\x0d\x01\x02",
            &varint_too_long,
            b"\x0a\x01\xff",
        ];
        for bytes in bad {
            assert_eq!(send().tenant(bytes), Err(WalkError::Malformed), "{bytes:?}");
            assert!(lf_a2a_v1::SendMessageRequest::decode(bytes).is_err(), "{bytes:?}");
        }
        // A group that the decoder skips is skipped, and members behind it are counted.
        let behind = [b"\x7b\x08\x01\x7c".as_slice(), b"\x12\x02\x2a\x00"].concat();
        assert!(lf_a2a_v1::SendMessageRequest::decode(&*behind).is_ok());
        assert_eq!(send().count_members(&behind, PLENTY), Ok(MemberCount { parts: 1, all: 1 }));
    }
}
