//! A wake-up signal for one listener: set from any thread, and kept until the listener looks.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Tells the listener that there is something to look at, not what.
#[derive(Debug, Default)]
pub struct WakeSignal(Mutex<SignalState>);

#[derive(Debug, Default)]
struct SignalState {
    is_set: bool,
    waker: Option<Waker>,
}

impl WakeSignal {
    /// Sets the signal and wakes the listener. Setting it twice before the listener looks counts once.
    pub fn notify(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_set = true;
        let listener = state.waker.take();
        drop(state);
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// Ready if the signal was set since this was last ready; otherwise the waker of the last poll is woken when it is
    /// set.
    pub fn poll_notified(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_set) {
            state.waker = None;
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until the signal is set.
    pub async fn notified(&self) {
        poll_fn(|cx| self.poll_notified(cx)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_ring_is_heard_once_whenever_it_came() {
        let (bell, woken) = (WakeSignal::default(), Arc::new(WakeCounter::default()));
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        bell.notify();
        bell.notify();
        assert!(bell.poll_notified(&mut cx).is_ready(), "rung before anybody listened");
        assert!(bell.poll_notified(&mut cx).is_pending());
        bell.notify();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(bell.poll_notified(&mut cx).is_ready());
        assert!(bell.poll_notified(&mut cx).is_pending());
    }
}
