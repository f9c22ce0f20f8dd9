//! The encodings that peers of 0.3 use in `file_with_bytes`, over gRPC and REST.
//!
//! The type of the field is bytes, but the SDKs for Python, Go and Java put the base64 *text* of the file there, as in
//! their own type of a file, and read the field as such text. So over REST a file is base64 twice, and over gRPC a file
//! that is not text makes their readers fail. The SDK for JavaScript puts the bytes of the file there.
//!
//! A message does not tell the encoding, and guessing would damage files that happen to look like base64. So the
//! software of the sender decides, as far as it names itself: base64 text is the rule, and a peer on a JavaScript
//! runtime is the exception. A client names itself in `User-Agent`, a server in `X-Powered-By` or `Server`. A gRPC
//! server says nothing; the program that served its card is most likely the same. Servers in Go send no such header,
//! which is why silence means the rule. A program of another author on a JavaScript runtime is taken for the SDK.
//!
//! In JSON-RPC files are base64 once. So are those of the same shape that some peers send over REST.

use sabir_proto::{
    Call, Content, Event, Message, Part, TaskStatus, WireEvent, WireReply, WireTask, decode_base64, encode_base64,
};

/// The encoding of files that a peer uses, and whether its proto has a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEncoding {
    /// The bytes of the file.
    Bytes,
    /// The base64 text of the file.
    Base64,
    /// The base64 text of the file, and over REST the `name` that the release does not have: the SDK for Python, since
    /// 0.3.2.
    NamedBase64,
}

/// The beginnings of `User-Agent` for the libraries of the Python SDK: grpcio, with and without asyncio, and httpx.
const PYTHON: [&str; 3] = ["grpc-python-asyncio/", "grpc-python/", "python-httpx/"];

/// The names of the servers that run the Python SDK, in `Server`.
const PYTHON_SERVERS: [&str; 2] = ["uvicorn", "hypercorn"];

/// The beginnings of `User-Agent` for JavaScript programs: gRPC for Node.js, the `fetch` of Node.js (22 and before:
/// `node`, older still: `undici`), of Deno, of Bun, and of browsers.
const JAVASCRIPT: [&str; 6] = ["grpc-node-js/", "node", "undici", "Deno/", "Bun/", "Mozilla/"];

/// The names of servers in JavaScript: the SDK's run on Express, which says so in `X-Powered-By`.
const JAVASCRIPT_SERVERS: [&str; 1] = ["Express"];

impl FileEncoding {
    /// The encoding of a client with this `User-Agent`.
    pub fn of_client(user_agent: Option<&str>) -> Self {
        // A program may put its own name before that of the library: `shop/2.0 grpc-node-js/1.14.3`.
        let is_one_of = |known: &[&str]| {
            let is = |word: &str, name: &str| if name.ends_with('/') { word.starts_with(name) } else { word == name };
            let mut words = user_agent.unwrap_or_default().split_ascii_whitespace();
            words.any(|word| known.iter().any(|name| is(word, name)))
        };
        if is_one_of(&JAVASCRIPT) {
            Self::Bytes
        } else if is_one_of(&PYTHON) {
            Self::NamedBase64
        } else {
            Self::Base64
        }
    }

    /// The encoding of a server with this `X-Powered-By` or `Server`; over gRPC, of the server whose card came with it.
    pub fn of_server(software: Option<&str>) -> Self {
        let is_one_of = |known: &[&str]| known.iter().any(|name| software.is_some_and(|word| word.starts_with(name)));
        if is_one_of(&JAVASCRIPT_SERVERS) {
            Self::Bytes
        } else if is_one_of(&PYTHON_SERVERS) {
            Self::NamedBase64
        } else {
            Self::Base64
        }
    }

    /// The text of a file in JSON, as the peer expects it.
    pub(crate) fn to_json(self, bytes: &[u8]) -> String {
        let text = encode_base64(bytes);
        if self == Self::Bytes { text } else { encode_base64(text.as_bytes()) }
    }

    /// Whether the peer reads a file's name over REST; other readers refuse the unknown member.
    pub(crate) fn has_names(self) -> bool {
        self == Self::NamedBase64
    }

    /// Decodes the files of a call to their bytes. Bytes that are not base64 stay as they are.
    pub fn read_call(self, call: &mut Call) {
        self.change_call(call, unwrap);
    }

    /// Decodes the files of a message in a request.
    pub(crate) fn read_message(self, message: &mut Message) {
        if self != Self::Bytes {
            change_message(message, unwrap);
        }
    }

    /// Encodes the files of a call for the server, before the call is written.
    pub fn write_call(self, call: &mut Call) {
        self.change_call(call, wrap);
    }

    /// Decodes the files of an answer to their bytes. Bytes that are not base64 stay as they are.
    pub fn read_answer(self, answer: &mut WireReply) {
        self.change_answer(answer, unwrap);
    }

    /// Encodes the files of an answer for the client, before the answer is written.
    pub fn write_answer(self, answer: &mut WireReply) {
        self.change_answer(answer, wrap);
    }

    /// Decodes the files of an event, as [`FileEncoding::read_answer`] does for an answer.
    pub fn read_event(self, event: &mut WireEvent) {
        self.change_event(event, unwrap);
    }

    /// Encodes the files of an event, as [`FileEncoding::write_answer`] does for an answer.
    pub fn write_event(self, event: &mut WireEvent) {
        self.change_event(event, wrap);
    }

    fn change_call(self, call: &mut Call, change: FileTransform) {
        if self == Self::Bytes {
            return;
        }
        if let Call::Send(send) | Call::Stream(send) = call {
            change_message(&mut send.message, change);
        }
    }

    fn change_answer(self, answer: &mut WireReply, change: FileTransform) {
        if self == Self::Bytes {
            return;
        }
        match answer {
            WireReply::SentTask(task) | WireReply::Task(task) => change_task(task, change),
            WireReply::SentMessage(message) => change_message(message, change),
            WireReply::Tasks { tasks, .. } => tasks.iter_mut().for_each(|task| change_task(task, change)),
            WireReply::Push(..) | WireReply::Pushes(..) | WireReply::Deleted | WireReply::Card(_) => {}
        }
    }

    fn change_event(self, event: &mut WireEvent, change: FileTransform) {
        if self == Self::Bytes {
            return;
        }
        match event {
            Event::Task(task) => change_task(task, change),
            Event::Message(message) => change_message(message, change),
            Event::StatusUpdate(update) => change_status(&mut update.status, change),
            Event::ArtifactUpdate(update) => change_parts(&mut update.artifact.parts, change),
        }
    }
}

/// Encodes the bytes of a file in place, or decodes them.
type FileTransform = fn(&mut Vec<u8>);

fn wrap(bytes: &mut Vec<u8>) {
    *bytes = encode_base64(bytes).into_bytes();
}

fn unwrap(bytes: &mut Vec<u8>) {
    if let Some(file) = str::from_utf8(bytes).ok().and_then(|text| decode_base64(text).ok()) {
        *bytes = file;
    }
}

fn change_task(task: &mut WireTask, change: FileTransform) {
    change_status(&mut task.status, change);
    task.history.iter_mut().for_each(|message| change_message(message, change));
    task.artifacts.iter_mut().for_each(|artifact| change_parts(&mut artifact.parts, change));
}

fn change_status(status: &mut TaskStatus, change: FileTransform) {
    status.message.iter_mut().for_each(|message| change_message(message, change));
}

fn change_message(message: &mut Message, change: FileTransform) {
    change_parts(&mut message.parts, change);
}

fn change_parts(parts: &mut [Part], change: FileTransform) {
    for part in parts {
        if let Content::Raw(bytes) = &mut part.content {
            change(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_base64_text_to_every_peer_that_is_not_known_to_mean_bytes() {
        for (user_agent, expected) in [
            ("grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)", FileEncoding::NamedBase64),
            ("shop/2.0 grpc-python/1.85.1 grpc-c/58.0.0 (linux; chttp2)", FileEncoding::NamedBase64),
            ("python-httpx/0.28.1", FileEncoding::NamedBase64),
            ("grpc-go/1.76.0", FileEncoding::Base64),
            ("Go-http-client/1.1", FileEncoding::Base64),
            ("grpc-java-netty/1.75.0", FileEncoding::Base64),
            ("Java-http-client/21.0.8", FileEncoding::Base64),
            ("curl/8.14.1", FileEncoding::Base64),
            ("nodejs-like/1", FileEncoding::Base64),
            ("", FileEncoding::Base64),
            ("grpc-node-js/1.14.3", FileEncoding::Bytes),
            ("shop/2.0 grpc-node-js/1.14.3", FileEncoding::Bytes),
            ("node", FileEncoding::Bytes),
            ("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", FileEncoding::Bytes),
        ] {
            assert_eq!(FileEncoding::of_client(Some(user_agent)), expected, "{user_agent}");
        }
        assert_eq!(FileEncoding::of_client(None), FileEncoding::Base64);
        for (server, expected) in [
            (Some("uvicorn"), FileEncoding::NamedBase64),
            (Some("hypercorn-h11"), FileEncoding::NamedBase64),
            (Some("nginx/1.29.0"), FileEncoding::Base64),
            (None, FileEncoding::Base64),
            (Some("Express"), FileEncoding::Bytes),
        ] {
            assert_eq!(FileEncoding::of_server(server), expected, "{server:?}");
        }
    }

    #[test]
    fn what_is_wrapped_for_a_server_is_unwrapped_from_it() {
        let mut part = Part::text("a");
        part.content = Content::Raw(vec![0, 255]);
        let mut message = Message::text(sabir_proto::MessageId::parse("m").unwrap(), sabir_proto::Role::Agent, "hi");
        message.parts.push(part);
        for form in [FileEncoding::Bytes, FileEncoding::Base64, FileEncoding::NamedBase64] {
            let mut event = WireEvent::Message(message.clone());
            form.write_event(&mut event);
            assert_eq!(event == WireEvent::Message(message.clone()), form == FileEncoding::Bytes);
            form.read_event(&mut event);
            assert_eq!(event, WireEvent::Message(message.clone()));
            let mut answer = WireReply::SentMessage(Box::new(message.clone()));
            form.write_answer(&mut answer);
            form.read_answer(&mut answer);
            assert_eq!(answer, WireReply::SentMessage(Box::new(message.clone())));
        }
        let mut no_base64 = b"h?".to_vec();
        unwrap(&mut no_base64);
        assert_eq!(no_base64, b"h?");
    }
}
