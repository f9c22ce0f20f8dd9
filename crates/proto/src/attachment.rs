//! Values that ride with a call to the agent that answers it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that a server attaches to a call, and that the agent reads from the context of its turn. It is never stored:
/// a turn that resumes after a crash has none, so what such a turn needs belongs into the message.
#[derive(Clone, Default)]
pub struct CallAttachment(Option<Arc<AttachedValue>>);

struct AttachedValue {
    value: Box<dyn Any + Send + Sync>,
    delivered: AtomicBool,
}

impl CallAttachment {
    /// An attachment that no turn has seen yet.
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(AttachedValue { value: Box::new(value), delivered: AtomicBool::new(false) })))
    }

    /// Returns the value, if there is one of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.value.downcast_ref()
    }

    /// Records that a turn has begun with the value. The engine calls this.
    pub fn set_delivered(&self) {
        if let Some(attached) = &self.0 {
            attached.delivered.store(true, Ordering::Release);
        }
    }

    /// Whether a turn has begun with the value. No turn begins for a repeated send, which gets the answer of the first.
    pub fn is_delivered(&self) -> bool {
        self.0.as_ref().is_some_and(|attached| attached.delivered.load(Ordering::Acquire))
    }
}

impl fmt::Debug for CallAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallAttachment").field("is_some", &self.0.is_some()).finish_non_exhaustive()
    }
}

/// Two attachments are equal if they are the same one.
impl PartialEq for CallAttachment {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(this), Some(other)) => Arc::ptr_eq(this, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for CallAttachment {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_type_and_known_as_delivered_by_every_copy() {
        let attachment = CallAttachment::new(7_u8);
        assert_eq!((attachment.get::<u8>(), attachment.get::<u16>()), (Some(&7), None));
        let copy = attachment.clone();
        assert!(!copy.is_delivered());
        attachment.set_delivered();
        assert!(copy.is_delivered() && copy == attachment && copy != CallAttachment::new(7_u8));
        let none = CallAttachment::default();
        none.set_delivered();
        assert!(!none.is_delivered() && none.get::<u8>().is_none());
    }
}
