//! The limits of each address that publishes records.
//!
//! For a record of an unknown network the server fetches keys from a foreign host, and that host may be slow on
//! purpose. So each address has a rate and a small share of the checks that run at the same time; others are served
//! meanwhile. IPv6 addresses count by their /64, which is what one customer has.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Records that an address may publish in a minute: a network renews its lease every few minutes.
const RECORDS_PER_MINUTE_MAX: u32 = 30;
/// Records of one address that are checked at the same time.
const CHECKS_PER_ADDRESS_MAX: u32 = 2;
/// Records of all addresses that are checked at the same time; each check holds a connection to the host of its network
/// for at most the five seconds that the HTTP client allows.
const CHECKS_MAX: u32 = 64;
/// Addresses that are remembered. If more publish within a minute, those without a running check are forgotten.
const ADDRESSES_MAX: usize = 10_000;
/// The period in which records are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts the records and checks of each address.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    counts: Mutex<PublisherCounts>,
}

#[derive(Debug, Default)]
struct PublisherCounts {
    addresses: HashMap<IpAddr, Publisher>,
    checks: u32,
}

#[derive(Debug)]
struct Publisher {
    since: Instant,
    records: u32,
    checks: u32,
}

/// The limit of running checks is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy;

/// One running check of a record, until this is dropped.
#[derive(Debug)]
pub(super) struct RecordCheck<'a> {
    publishers: &'a Publishers,
    address: IpAddr,
}

impl Publishers {
    /// Counts a record. An error is the time to wait, if there were too many within a minute.
    pub(super) fn count(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut counted = self.counts();
        if counted.addresses.len() >= ADDRESSES_MAX {
            counted.addresses.retain(|_, one| one.checks > 0 || now.duration_since(one.since) < WINDOW);
        }
        if counted.addresses.len() >= ADDRESSES_MAX {
            counted.addresses.retain(|_, one| one.checks > 0);
        }
        let fresh = Publisher { since: now, records: 0, checks: 0 };
        let publisher = counted.addresses.entry(network_of(address)).or_insert(fresh);
        let elapsed = now.duration_since(publisher.since);
        if elapsed >= WINDOW {
            (publisher.since, publisher.records) = (now, 0);
        } else if publisher.records >= RECORDS_PER_MINUTE_MAX {
            return Err(WINDOW - elapsed);
        }
        publisher.records += 1;
        Ok(())
    }

    /// Begins the check of a record whose address was counted.
    pub(super) fn begin_check(&self, address: IpAddr) -> Result<RecordCheck<'_>, Busy> {
        let address = network_of(address);
        let mut counted = self.counts();
        if counted.checks >= CHECKS_MAX {
            return Err(Busy);
        }
        let publisher = counted.addresses.get_mut(&address).ok_or(Busy)?;
        if publisher.checks >= CHECKS_PER_ADDRESS_MAX {
            return Err(Busy);
        }
        publisher.checks += 1;
        counted.checks += 1;
        Ok(RecordCheck { publishers: self, address })
    }

    fn counts(&self) -> MutexGuard<'_, PublisherCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RecordCheck<'_> {
    fn drop(&mut self) {
        let mut counted = self.publishers.counts();
        counted.checks -= 1;
        if let Some(publisher) = counted.addresses.get_mut(&self.address) {
            publisher.checks -= 1;
        }
    }
}

/// The network of one customer, for an address.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn who_publishes_too_often_waits_and_others_do_not() {
        let (publishers, now) = (Publishers::default(), Instant::now());
        for _ in 0..RECORDS_PER_MINUTE_MAX {
            assert_eq!(publishers.count(ip("2001:db8::1"), now), Ok(()));
        }
        let later = now + Duration::from_secs(10);
        assert_eq!(publishers.count(ip("2001:db8::2"), later), Err(Duration::from_secs(50)), "one customer, one rate");
        assert_eq!(publishers.count(ip("2001:db8:0:1::1"), later), Ok(()));
        assert_eq!(publishers.count(ip("2001:db8::1"), now + WINDOW), Ok(()));
    }

    #[test]
    fn slow_hosts_of_one_address_keep_nobody_else_waiting() {
        let (publishers, now) = (Publishers::default(), Instant::now());
        let (slow, other) = (ip("192.0.2.1"), ip("192.0.2.2"));
        for address in [slow, slow, slow, other] {
            publishers.count(address, now).unwrap();
        }
        let held = [publishers.begin_check(slow).unwrap(), publishers.begin_check(slow).unwrap()];
        assert_eq!(publishers.begin_check(slow).err(), Some(Busy));
        assert!(publishers.begin_check(other).is_ok());
        drop(held);
        assert!(publishers.begin_check(slow).is_ok());
        assert_eq!(publishers.counts().checks, 0);
    }

    #[test]
    fn so_many_addresses_are_remembered_and_no_more() {
        let (publishers, now) = (Publishers::default(), Instant::now());
        let held = ip("192.0.2.1");
        publishers.count(held, now).unwrap();
        let look = publishers.begin_check(held).unwrap();
        for number in 0..u32::try_from(ADDRESSES_MAX).unwrap() + 5 {
            publishers.count(IpAddr::V4(number.into()), now).unwrap();
        }
        assert!(publishers.counts().addresses.len() <= ADDRESSES_MAX);
        drop(look);
        assert_eq!(publishers.counts().checks, 0);
    }
}
