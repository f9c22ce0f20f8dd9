//! The limit of connections per client address.

use sabir_guard::household;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

type Taken = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The number of connections of each address.
pub(super) struct Shares {
    /// The maximum per address; 0 for no limit.
    most: usize,
    taken: Taken,
}

impl Shares {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Taken::default() }
    }

    /// Admits one more connection of an address, if it is below the limit. Boxed, because a connection keeps it, and
    /// usually there is none.
    pub(super) fn take(&self, address: IpAddr) -> Result<Option<Box<Share>>, Full> {
        if self.most == 0 {
            return Ok(None);
        }
        let of = household(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(of).or_default();
        if *count >= self.most {
            return Err(Full);
        }
        *count += 1;
        drop(taken);
        Ok(Some(Box::new(Share { of, taken: self.taken.clone() })))
    }
}

/// The address has reached its limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// One counted connection of an address; uncounted when this is dropped.
pub(super) struct Share {
    of: IpAddr,
    taken: Taken,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_share_and_gets_it_back() {
        let shares = Shares::new(2);
        let take = |text: &str| shares.take(text.parse().unwrap());
        let mut held = vec![take("2001:db8::1").ok(), take("2001:db8::2").ok()];
        assert!(take("2001:db8::3").is_err(), "the same network");
        held.extend([take("2001:db8:0:1::1").ok(), take("192.0.2.1").ok(), take("::ffff:192.0.2.1").ok()]);
        assert!(take("192.0.2.1").is_err() && take("192.0.2.2").is_ok());
        drop(held);
        assert!(take("192.0.2.1").is_ok());
        assert!(shares.taken.lock().unwrap().is_empty(), "nothing is remembered of those who left");
        assert!(matches!(Shares::new(0).take([192, 0, 2, 1].into()), Ok(None)));
    }
}
