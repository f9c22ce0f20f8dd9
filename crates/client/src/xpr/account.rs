//! The credential of a client that signs each request as an account of XPR Network.

use super::{ACCOUNT, SIGNATURE, SignerFault, TIMESTAMP, XprSigner, is_header};
use crate::clock::{Clock as _, WallClock};
use crate::http_client::sensitive_header;
use crate::request_credential::{AuthHeadersFuture, RequestCredential, UnsentRequest};
use crate::{Error, Secret};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sabir_proto::card::SecurityScheme;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// The largest difference between the date of a request and the clock, in seconds. Agents accept five minutes.
const AHEAD_MAX: i64 = 60;

/// Signs each request just before it is sent.
///
/// The same body signed in the same second has the same signature, which an agent may refuse as a replay. So each
/// repetition within a second is dated one second later, up to a limit. GET requests keep their date: agents allow
/// repeats of them, and they are frequent.
#[derive(Debug)]
pub struct XprAccount {
    signer: XprSigner,
    /// The last date of each body, by its hash. Entries of past seconds are removed.
    dated: Mutex<HashMap<u64, i64>>,
}

impl XprAccount {
    /// A credential for an account and its key, which is `PVT_K1_…` or WIF.
    pub fn new(name: &str, key: &Secret) -> Result<Self, SignerFault> {
        Ok(XprSigner::new(name, key)?.into())
    }

    /// The date of a request with this body.
    fn date(&self, method: &Method, body: &[u8], now: i64) -> i64 {
        if *method == Method::GET {
            return now;
        }
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let mut dated = self.dated.lock().unwrap_or_else(PoisonError::into_inner);
        dated.retain(|_, date| *date >= now);
        let later = |date: &mut i64| *date = (*date + 1).min(now + AHEAD_MAX);
        *dated.entry(hasher.finish()).and_modify(later).or_insert(now)
    }

    /// Builds the three headers. The account is not secret.
    fn headers(&self, timestamp: HeaderValue, signature: HeaderValue) -> HeaderMap {
        let account = HeaderValue::from_str(self.signer.account()).expect("names of accounts are letters and digits");
        [(ACCOUNT, account), (TIMESTAMP, timestamp), (SIGNATURE, signature)]
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), value))
            .collect()
    }
}

impl From<XprSigner> for XprAccount {
    fn from(signer: XprSigner) -> Self {
        Self { signer, dated: Mutex::default() }
    }
}

impl RequestCredential for XprAccount {
    fn authorise<'a>(&'a self, request: UnsentRequest<'a>) -> AuthHeadersFuture<'a> {
        Box::pin(async move {
            let Some(body) = request.body else {
                return Err(Error::Usage("a request of gRPC cannot be signed as an account of XPR Network".into()));
            };
            let now = i64::try_from(WallClock.now()).unwrap_or(i64::MAX);
            let date = self.date(request.method, body, now);
            let [_, _, (_, signature)] = self.signer.headers(body, date);
            // Valid for minutes, at any agent.
            Ok(self.headers(HeaderValue::from(date), sensitive_header(&signature)?))
        })
    }

    fn preview(&self) -> HeaderMap {
        let mut later = HeaderValue::from_static("made when it is sent");
        later.set_sensitive(true);
        self.headers(later.clone(), later)
    }

    /// Cards have no scheme for this. A card may declare the headers as API keys, or an HTTP scheme that begins with
    /// `xpr`.
    fn satisfies(&self, scheme: &SecurityScheme) -> bool {
        match scheme {
            SecurityScheme::ApiKey { location, name, .. } => location == "header" && is_header(name),
            SecurityScheme::HttpAuth { scheme, .. } => scheme.to_ascii_lowercase().starts_with("xpr"),
            _ => false,
        }
    }

    fn signs_bodies(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> XprAccount {
        XprAccount::new("alice", &Secret::new("5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU")).unwrap()
    }

    #[test]
    fn what_is_sent_twice_in_a_second_is_dated_apart() {
        let account = alice();
        let date = |body: &[u8], now| account.date(&Method::POST, body, now);
        assert_eq!((date(b"a", 100), date(b"b", 100), date(b"a", 100), date(b"a", 100)), (100, 100, 101, 102));
        assert_eq!((date(b"a", 101), date(b"b", 101)), (103, 101), "still ahead of the clock");
        assert_eq!(date(b"a", 200), 200);
        assert_eq!(account.dated.lock().unwrap().len(), 1, "what has passed is forgotten");
        let far = (0..2 * AHEAD_MAX).map(|_| date(b"a", 200)).max();
        assert_eq!(far, Some(200 + AHEAD_MAX));
        assert_eq!(account.date(&Method::GET, b"", 200), account.date(&Method::GET, b"", 200));
    }

    #[test]
    fn a_rehearsal_shows_the_account_and_nothing_that_could_be_sent() {
        let shown = alice().preview();
        assert_eq!(shown[ACCOUNT], "alice");
        assert!(shown[TIMESTAMP].is_sensitive() && shown[SIGNATURE].is_sensitive());
        assert!(!format!("{:?}", alice()).contains("5JMh"));
    }
}
