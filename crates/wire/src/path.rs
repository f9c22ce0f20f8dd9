//! The path of a member in a request or a response, in the names of its JSON form: `message.parts[2].raw`.

use sabir_proto::{Fault, FieldViolation};
use std::fmt;

/// The path of the member being read. It is a chain on the stack, so that nothing is allocated unless an error is
/// reported.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The whole message.
    Root,
    /// A member by name.
    Member(&'a Path<'a>, &'static str),
    /// An element of a list.
    Item(&'a Path<'a>, usize),
    /// A value of a map.
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    pub(crate) const fn member(&'a self, name: &'static str) -> Self {
        Self::Member(self, name)
    }

    pub(crate) const fn item(&'a self, index: usize) -> Self {
        Self::Item(self, index)
    }

    pub(crate) const fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub(crate) fn error(&self, description: impl fmt::Display) -> MemberError {
        MemberError(FieldViolation { field: self.to_string(), description: description.to_string() })
    }

    /// Checks that an optional member is there.
    pub(crate) fn required<T>(&self, value: Option<T>) -> Result<T, MemberError> {
        value.ok_or_else(|| self.error("is required"))
    }

    /// Checks that a text is not empty.
    pub(crate) fn required_text(&self, text: String) -> Result<String, MemberError> {
        self.required(non_empty(text))
    }

    /// Reads each element of a list.
    pub(crate) fn each<T, U>(
        &self,
        list: Vec<T>,
        read: impl Fn(T, &Path<'_>) -> Result<U, MemberError>,
    ) -> Result<Vec<U>, MemberError> {
        list.into_iter().enumerate().map(|(i, item)| read(item, &self.item(i))).collect()
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Path::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
        }
    }
}

/// `None` for an empty text, which stands for an unset one.
pub(crate) fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// A member that is wrong. Which side is to blame depends on who sent it.
#[derive(Debug)]
pub(crate) struct MemberError(FieldViolation);

impl MemberError {
    /// The fault for a client, whose server sent the wrong member.
    pub(crate) fn in_reply(self) -> Fault {
        let FieldViolation { field, description } = self.0;
        Fault::InvalidAgentResponse(if field.is_empty() { description } else { format!("{field}: {description}") })
    }
}

/// The fault for a server, whose client sent the wrong member.
impl From<MemberError> for Fault {
    fn from(wrong: MemberError) -> Self {
        Self::InvalidParams(vec![wrong.0])
    }
}
