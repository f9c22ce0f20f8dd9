//! The limit of connections per client address.

use sabir_guard::address_prefix;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

type ConnectionCounts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The number of connections of each address.
pub(super) struct ConnectionShares {
    /// The maximum per address; 0 for no limit.
    most: usize,
    counts: ConnectionCounts,
}

impl ConnectionShares {
    pub(super) fn new(most: usize) -> Self {
        Self { most, counts: ConnectionCounts::default() }
    }

    /// Admits one more connection of an address, if it is below the limit. Boxed, because a connection keeps it, and
    /// usually there is none.
    pub(super) fn acquire(&self, address: IpAddr) -> Result<Option<Box<ConnectionShare>>, AddressLimitReached> {
        if self.most == 0 {
            return Ok(None);
        }
        let of = address_prefix(address);
        let mut taken = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(of).or_default();
        if *count >= self.most {
            return Err(AddressLimitReached);
        }
        *count += 1;
        drop(taken);
        Ok(Some(Box::new(ConnectionShare { address: of, counts: self.counts.clone() })))
    }
}

/// The address has reached its limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AddressLimitReached;

/// One counted connection of an address; uncounted when this is dropped.
pub(super) struct ConnectionShare {
    address: IpAddr,
    counts: ConnectionCounts,
}

impl Drop for ConnectionShare {
    fn drop(&mut self) {
        let mut taken = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_share_and_gets_it_back() {
        let shares = ConnectionShares::new(2);
        let take = |text: &str| shares.acquire(text.parse().unwrap());
        let mut held = vec![take("2001:db8::1").ok(), take("2001:db8::2").ok()];
        assert!(take("2001:db8::3").is_err(), "the same network");
        held.extend([take("2001:db8:0:1::1").ok(), take("192.0.2.1").ok(), take("::ffff:192.0.2.1").ok()]);
        assert!(take("192.0.2.1").is_err() && take("192.0.2.2").is_ok());
        drop(held);
        assert!(take("192.0.2.1").is_ok());
        assert!(shares.counts.lock().unwrap().is_empty(), "nothing is remembered of those who left");
        assert!(matches!(ConnectionShares::new(0).acquire([192, 0, 2, 1].into()), Ok(None)));
    }
}
