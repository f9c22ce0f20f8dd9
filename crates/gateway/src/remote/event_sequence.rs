//! The numbers of remote events: whether an event follows the last one.
//!
//! Numbers need not be without holes, but they rise. Some agents begin anew with every stream, and some have none.

/// The place of an event in the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventOrder {
    /// It follows the last one.
    Next,
    /// It cannot be told.
    Unknown,
    /// It was received before, or is late.
    Behind,
}

/// The event numbers of one stream.
#[derive(Debug)]
pub(super) struct EventSequence {
    /// The event after which the stream was to go on.
    after: Option<String>,
    /// The highest number in this stream.
    highest: Option<u64>,
}

impl EventSequence {
    /// A stream that was to go on after an event, if there was one.
    pub(super) const fn after(after: Option<String>) -> Self {
        Self { after, highest: None }
    }

    /// Classifies the next event, by its number.
    pub(super) fn classify(&mut self, id: Option<&str>) -> EventOrder {
        let Some(number) = id.and_then(|id| id.parse::<u64>().ok()) else { return EventOrder::Unknown };
        if self.highest.is_some_and(|highest| number <= highest) {
            return EventOrder::Behind;
        }
        let first = self.highest.replace(number).is_none();
        match self.after.take() {
            // The agent was asked to go on after that event and began with a higher one.
            Some(after) if first && after.parse::<u64>().is_ok_and(|after| number > after) => EventOrder::Next,
            None if !first => EventOrder::Next,
            _ => EventOrder::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(after: Option<&str>, ids: &[Option<&str>], expected: &[EventOrder]) {
        let mut numbers = EventSequence::after(after.map(str::to_owned));
        let told: Vec<EventOrder> = ids.iter().map(|id| numbers.classify(*id)).collect();
        assert_eq!(told, expected, "{after:?} {ids:?}");
    }

    #[test]
    fn numbers_rise_and_what_does_not_is_behind() {
        use EventOrder::{Behind, Next, Unknown};
        check(None, &[Some("1"), Some("2"), Some("2"), Some("4"), Some("3")], &[Unknown, Next, Behind, Next, Behind]);
        check(Some("7"), &[Some("8"), Some("9")], &[Next, Next]);
        // Begun anew: the numbers are others, and say nothing about what was missed.
        check(Some("7"), &[Some("1"), Some("2")], &[Unknown, Next]);
        check(None, &[None, None], &[Unknown, Unknown]);
        check(Some("x"), &[Some("x1")], &[Unknown]);
    }
}
