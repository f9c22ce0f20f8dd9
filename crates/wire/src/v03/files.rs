//! What peers of 0.3 put into `file_with_bytes`, over gRPC and REST.
//!
//! Its type says bytes, and the SDKs for JavaScript and Go put the bytes of the file there. The one for Python, in 0.3
//! and in the 0.3 layer of 1.x, puts the base64 *text* of the file there, because that is what its own type of a file
//! holds; and it reads whatever it finds there as such text. So over REST a file is base64 twice, and over gRPC a file
//! that is not text makes its reader fail.
//!
//! Nothing in a message tells which of the two it is, and guessing would damage files that happen to look like base64.
//! So the `User-Agent` decides, by the library that sent the request; the SDK has no word of its own there. Somebody
//! else's program on the same library is taken for the SDK.

use sabir_proto::{
    Answer, Call, Content, Event, Message, Part, TaskStatus, TheirEvent, TheirTask, decode_base64, encode_base64,
};

/// What a peer means by the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The bytes.
    Bytes,
    /// Their base64 text.
    Base64,
}

/// How the libraries under the Python SDK begin their word in `User-Agent`: grpcio, with and without asyncio, and httpx.
const PYTHON: [&str; 3] = ["grpc-python-asyncio/", "grpc-python/", "python-httpx/"];

impl Form {
    /// What to expect of whoever calls itself so.
    pub fn of(user_agent: Option<&str>) -> Self {
        // grpcio puts what a program says about itself before its own word.
        let mut words = user_agent.unwrap_or_default().split_ascii_whitespace();
        let is_python = words.any(|word| PYTHON.iter().any(|name| word.starts_with(name)));
        if is_python { Self::Base64 } else { Self::Bytes }
    }

    /// Makes the files of a call that was read what they are inside: bytes. What is not base64 stays as it is.
    pub fn read_call(self, call: &mut Call) {
        if self == Self::Bytes {
            return;
        }
        if let Call::Send(send) | Call::Stream(send) = call {
            for part in &mut send.message.parts {
                if let Content::Raw(bytes) = &mut part.content
                    && let Some(file) = str::from_utf8(bytes).ok().and_then(|text| decode_base64(text).ok())
                {
                    *bytes = file;
                }
            }
        }
    }

    /// Makes the files of an answer what the peer looks for, before it is written.
    pub fn write_answer(self, answer: &mut Answer) {
        if self == Self::Bytes {
            return;
        }
        match answer {
            Answer::SentTask(task) | Answer::Task(task) => wrap_task(task),
            Answer::SentMessage(message) => wrap_message(message),
            Answer::Tasks { tasks, .. } => tasks.iter_mut().for_each(wrap_task),
            Answer::Push(..) | Answer::Pushes(..) | Answer::Deleted | Answer::Card(_) => {}
        }
    }

    /// The same for an event of a stream.
    pub fn write_event(self, event: &mut TheirEvent) {
        if self == Self::Bytes {
            return;
        }
        match event {
            Event::Task(task) => wrap_task(task),
            Event::Message(message) => wrap_message(message),
            Event::StatusUpdate(update) => wrap_status(&mut update.status),
            Event::ArtifactUpdate(update) => wrap_parts(&mut update.artifact.parts),
        }
    }
}

fn wrap_task(task: &mut TheirTask) {
    wrap_status(&mut task.status);
    task.history.iter_mut().for_each(wrap_message);
    task.artifacts.iter_mut().for_each(|artifact| wrap_parts(&mut artifact.parts));
}

fn wrap_status(status: &mut TaskStatus) {
    status.message.iter_mut().for_each(wrap_message);
}

fn wrap_message(message: &mut Message) {
    wrap_parts(&mut message.parts);
}

fn wrap_parts(parts: &mut [Part]) {
    for part in parts {
        if let Content::Raw(bytes) = &mut part.content {
            *bytes = encode_base64(bytes).into_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_python_sdk_is_known_by_the_libraries_it_uses() {
        for (user_agent, expected) in [
            ("grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)", Form::Base64),
            ("grpc-python/1.85.1 grpc-c/58.0.0 (linux; chttp2)", Form::Base64),
            ("shop/2.0 grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)", Form::Base64),
            ("python-httpx/0.28.1", Form::Base64),
            ("grpc-node-js/1.14.3", Form::Bytes),
            ("grpc-go/1.76.0", Form::Bytes),
            ("grpc-c/58.0.0 (linux; chttp2)", Form::Bytes),
            ("python-requests/2.32.5", Form::Bytes),
            ("like-python-httpx/1", Form::Bytes),
            ("node", Form::Bytes),
            ("", Form::Bytes),
        ] {
            assert_eq!(Form::of(Some(user_agent)), expected, "{user_agent}");
        }
        assert_eq!(Form::of(None), Form::Bytes);
    }
}
