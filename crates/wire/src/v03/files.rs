//! What peers of 0.3 put into `file_with_bytes`, over gRPC and REST.
//!
//! Its type says bytes, and the SDKs for JavaScript and Go put the bytes of the file there. The one for Python, in 0.3
//! and in the 0.3 layer of 1.x, puts the base64 *text* of the file there, because that is what its own type of a file
//! holds; and it reads whatever it finds there as such text. So over REST a file is base64 twice, and over gRPC a file
//! that is not text makes its reader fail.
//!
//! Nothing in a message tells which of the two it is, and guessing would damage files that happen to look like base64. So
//! the software that sent it decides, as far as it says what it is; the SDK has no word of its own in either direction.
//! A client is known by the library in its `User-Agent`, a server by the one in its `Server`. A gRPC server says nothing;
//! whoever served its card is most likely the same program. Somebody else's program on the same library is taken for the
//! SDK, and one behind a proxy that hides the library is not known.
//!
//! JSON-RPC has no such trouble: its files are base64, once.

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

/// What the servers that run it call themselves in `Server`.
const PYTHON_SERVERS: [&str; 2] = ["uvicorn", "hypercorn"];

impl Form {
    /// What to expect of a client that calls itself so in `User-Agent`.
    pub fn of(user_agent: Option<&str>) -> Self {
        Self::by(user_agent, &PYTHON)
    }

    /// What to expect of a server that calls itself so in `Server`; over gRPC, of one whose card was served so.
    pub fn of_server(server: Option<&str>) -> Self {
        Self::by(server, &PYTHON_SERVERS)
    }

    fn by(said: Option<&str>, known: &[&str]) -> Self {
        // grpcio puts what a program says about itself before its own word.
        let mut words = said.unwrap_or_default().split_ascii_whitespace();
        let is_python = words.any(|word| known.iter().any(|name| word.starts_with(name)));
        if is_python { Self::Base64 } else { Self::Bytes }
    }

    /// Makes the files of a call that was read what they are inside: bytes. What is not base64 stays as it is.
    pub fn read_call(self, call: &mut Call) {
        self.in_call(call, unwrap);
    }

    /// Makes the files of a call what the server looks for, before it is written.
    pub fn write_call(self, call: &mut Call) {
        self.in_call(call, wrap);
    }

    /// Makes the files of an answer that was read what they are inside: bytes. What is not base64 stays as it is.
    pub fn read_answer(self, answer: &mut Answer) {
        self.in_answer(answer, unwrap);
    }

    /// Makes the files of an answer what the client looks for, before it is written.
    pub fn write_answer(self, answer: &mut Answer) {
        self.in_answer(answer, wrap);
    }

    /// The same as [`Form::read_answer`] for an event of a stream.
    pub fn read_event(self, event: &mut TheirEvent) {
        self.in_event(event, unwrap);
    }

    /// The same as [`Form::write_answer`] for an event of a stream.
    pub fn write_event(self, event: &mut TheirEvent) {
        self.in_event(event, wrap);
    }

    fn in_call(self, call: &mut Call, change: Change) {
        if let (Self::Base64, Call::Send(send) | Call::Stream(send)) = (self, call) {
            in_message(&mut send.message, change);
        }
    }

    fn in_answer(self, answer: &mut Answer, change: Change) {
        if self == Self::Bytes {
            return;
        }
        match answer {
            Answer::SentTask(task) | Answer::Task(task) => in_task(task, change),
            Answer::SentMessage(message) => in_message(message, change),
            Answer::Tasks { tasks, .. } => tasks.iter_mut().for_each(|task| in_task(task, change)),
            Answer::Push(..) | Answer::Pushes(..) | Answer::Deleted | Answer::Card(_) => {}
        }
    }

    fn in_event(self, event: &mut TheirEvent, change: Change) {
        if self == Self::Bytes {
            return;
        }
        match event {
            Event::Task(task) => in_task(task, change),
            Event::Message(message) => in_message(message, change),
            Event::StatusUpdate(update) => in_status(&mut update.status, change),
            Event::ArtifactUpdate(update) => in_parts(&mut update.artifact.parts, change),
        }
    }
}

/// From the bytes of a file to what is sent, or back.
type Change = fn(&mut Vec<u8>);

fn wrap(bytes: &mut Vec<u8>) {
    *bytes = encode_base64(bytes).into_bytes();
}

fn unwrap(bytes: &mut Vec<u8>) {
    if let Some(file) = str::from_utf8(bytes).ok().and_then(|text| decode_base64(text).ok()) {
        *bytes = file;
    }
}

fn in_task(task: &mut TheirTask, change: Change) {
    in_status(&mut task.status, change);
    task.history.iter_mut().for_each(|message| in_message(message, change));
    task.artifacts.iter_mut().for_each(|artifact| in_parts(&mut artifact.parts, change));
}

fn in_status(status: &mut TaskStatus, change: Change) {
    status.message.iter_mut().for_each(|message| in_message(message, change));
}

fn in_message(message: &mut Message, change: Change) {
    in_parts(&mut message.parts, change);
}

fn in_parts(parts: &mut [Part], change: Change) {
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
        for (server, expected) in [
            ("uvicorn", Form::Base64),
            ("hypercorn-h11", Form::Base64),
            ("nginx/1.29.0", Form::Bytes),
            ("python", Form::Bytes),
            ("", Form::Bytes),
        ] {
            assert_eq!(Form::of_server(Some(server)), expected, "{server}");
        }
        assert_eq!(Form::of_server(None), Form::Bytes);
    }

    #[test]
    fn what_is_wrapped_for_a_server_is_unwrapped_from_it() {
        let mut part = Part::text("a");
        part.content = Content::Raw(vec![0, 255]);
        let mut message = Message::text(sabir_proto::MessageId::parse("m").unwrap(), sabir_proto::Role::Agent, "hi");
        message.parts.push(part);
        for form in [Form::Bytes, Form::Base64] {
            let mut event = TheirEvent::Message(message.clone());
            form.write_event(&mut event);
            assert_eq!(event == TheirEvent::Message(message.clone()), form == Form::Bytes);
            form.read_event(&mut event);
            assert_eq!(event, TheirEvent::Message(message.clone()));
            let mut answer = Answer::SentMessage(Box::new(message.clone()));
            form.write_answer(&mut answer);
            form.read_answer(&mut answer);
            assert_eq!(answer, Answer::SentMessage(Box::new(message.clone())));
        }
        let mut no_base64 = b"h?".to_vec();
        unwrap(&mut no_base64);
        assert_eq!(no_base64, b"h?");
    }
}
