//! The losses of a translation: what the other dialect cannot carry. A translator that drops something without a note
//! here has a bug.

use std::fmt;

/// The number of notes that one translation keeps; later ones are only counted. A task with ten thousand parts that
/// each lose a name must not cost ten thousand strings.
pub const LOSSES_MAX: usize = 64;

/// The kind of a loss: something is missing, or shown as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKind {
    /// A task state the dialect does not have, shown as its nearest.
    State,
    /// The id of a task.
    TaskId,
    /// The id of a context.
    ContextId,
    /// The id of a message.
    MessageId,
    /// The id of an artifact.
    ArtifactId,
    /// A file name or media type, on a kind of part that cannot carry it.
    PartAttribute,
    /// The content of a part, or a whole part.
    Part,
    /// Free metadata of any object.
    Metadata,
    /// The URIs of extensions.
    Extensions,
    /// The other tasks that a message refers to.
    References,
    /// Messages of a history.
    History,
    /// When a status was reported.
    Timestamp,
    /// The answer was moved or copied to where clients of the dialect look for it.
    AnswerPlace,
    /// How a caller wants a send to be handled.
    Configuration,
    /// How to authenticate to a webhook.
    PushAuthentication,
    /// The id of a push configuration.
    PushConfigId,
    /// The page token and the size of a list.
    Paging,
    /// The tenant a request or an interface names.
    Tenant,
    /// An interface on a card.
    Interface,
    /// How a caller may authenticate.
    Security,
    /// A member of a card that the dialect does not have.
    CardMember,
    /// A signature, which is not valid for another form of the card.
    Signature,
    /// The details of an error.
    ErrorDetails,
}

impl LossKind {
    /// Every kind of loss, in the order of the enum.
    pub const ALL: [Self; 23] = [
        Self::State,
        Self::TaskId,
        Self::ContextId,
        Self::MessageId,
        Self::ArtifactId,
        Self::PartAttribute,
        Self::Part,
        Self::Metadata,
        Self::Extensions,
        Self::References,
        Self::History,
        Self::Timestamp,
        Self::AnswerPlace,
        Self::Configuration,
        Self::PushAuthentication,
        Self::PushConfigId,
        Self::Paging,
        Self::Tenant,
        Self::Interface,
        Self::Security,
        Self::CardMember,
        Self::Signature,
        Self::ErrorDetails,
    ];

    /// The name in metrics, logs and `sabir convert`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::TaskId => "task-id",
            Self::ContextId => "context-id",
            Self::MessageId => "message-id",
            Self::ArtifactId => "artifact-id",
            Self::PartAttribute => "part-attribute",
            Self::Part => "part",
            Self::Metadata => "metadata",
            Self::Extensions => "extensions",
            Self::References => "references",
            Self::History => "history",
            Self::Timestamp => "timestamp",
            Self::AnswerPlace => "answer-place",
            Self::Configuration => "configuration",
            Self::PushAuthentication => "push-authentication",
            Self::PushConfigId => "push-config-id",
            Self::Paging => "paging",
            Self::Tenant => "tenant",
            Self::Interface => "interface",
            Self::Security => "security",
            Self::CardMember => "card-member",
            Self::Signature => "signature",
            Self::ErrorDetails => "error-details",
        }
    }
}

impl fmt::Display for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One loss of a translation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Loss {
    /// The kind of the loss.
    pub kind: LossKind,
    /// Its path in the canonical form, such as `history[0].messageId`; everything below it is lost too.
    pub path: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.path)
    }
}

/// The losses of one translation. Mostly there are none, and every open stream has one of these values, so an empty one
/// allocates nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    noted: Option<Box<LossNotes>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LossNotes {
    notes: Vec<Loss>,
    omitted: usize,
}

impl Losses {
    /// A translation that has lost nothing so far.
    pub const fn new() -> Self {
        Self { noted: None }
    }

    /// Notes a loss; one that is noted already is not repeated.
    pub(crate) fn note(&mut self, kind: LossKind, path: impl fmt::Display) {
        let noted = self.noted.get_or_insert_default();
        if noted.notes.len() == LOSSES_MAX {
            noted.omitted += 1;
            return;
        }
        let path = path.to_string();
        if !noted.notes.iter().any(|n| n.kind == kind && n.path == path) {
            noted.notes.push(Loss { kind, path });
        }
    }

    /// Adds the notes of a part of the translation, except those with a path in `kept`, whose content is carried
    /// elsewhere.
    pub(crate) fn take_except(&mut self, other: Self, kept: &[&str]) {
        let Some(other) = other.noted else { return };
        for note in other.notes {
            if !kept.contains(&&*note.path) {
                self.note(note.kind, note.path);
            }
        }
        if other.omitted > 0 {
            self.noted.get_or_insert_default().omitted += other.omitted;
        }
    }

    /// The losses that were noted.
    pub fn notes(&self) -> &[Loss] {
        self.noted.as_ref().map_or(&[], |noted| &noted.notes)
    }

    /// The number of losses that were only counted.
    pub fn omitted(&self) -> usize {
        self.noted.as_ref().map_or(0, |noted| noted.omitted)
    }

    /// Whether nothing was lost.
    pub const fn is_empty(&self) -> bool {
        self.noted.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = LossKind::ALL.iter().map(|k| k.name()).collect();
        assert_eq!(names.len(), LossKind::ALL.len());
    }

    #[test]
    fn notes_are_bounded_and_not_repeated() {
        let mut losses = Losses::new();
        for i in 0..LOSSES_MAX + 3 {
            losses.note(LossKind::Part, format_args!("parts[{i}]"));
        }
        losses.note(LossKind::Part, "parts[0]");
        assert_eq!((losses.notes().len(), losses.omitted()), (LOSSES_MAX, 4));
    }
}
