//! One attempt at a delivery: what the receiver gets, and what its answer means.

use crate::stub::{Server, ServerReply, answer};
use crate::webhook_fixtures::{PATIENCE, deliver, inside, parcel, webhooks, webhooks_under};
use sabir_engine::DeliveryOutcome;
use sabir_gateway::{WebhookSigner, WebhookTokenKey};
use sabir_guard::sign::SigningKey;
use sabir_guard::sign::webhook::{AgntReceivedHeaders, ReceivedHeaders, WebhookSecret};
use sabir_proto::{Authentication, Secret, Timestamp};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use url::Url;

/// A header of a request, as it was written.
fn header<'a>(heard: &'a str, name: &str) -> Option<&'a str> {
    let head = heard.split_once("\r\n\r\n").unwrap().0;
    let line = |line: &'a str| line.split_once(": ").filter(|(found, _)| found.eq_ignore_ascii_case(name));
    head.lines().find_map(line).map(|(_, value)| value)
}

async fn heard_with(authentication: Option<(&str, Option<&str>)>, token: Option<&str>, seal: WebhookSigner) -> String {
    let server = Server::start(|_| ServerReply::All(answer(204, "", ""))).await;
    let mut parcel = parcel(server.url.as_str());
    parcel.config.token = token.map(Into::into);
    parcel.config.authentication = authentication.map(|(scheme, credentials)| Authentication {
        scheme: scheme.into(),
        credentials: credentials.map(Into::into),
    });
    assert_eq!(deliver(&webhooks(inside(), seal), parcel).await, DeliveryOutcome::Accepted { status: 204 });
    server.requests().remove(0)
}

fn seal_with_key() -> WebhookSigner {
    let key = Arc::new(SigningKey::generate(Some("k1")).unwrap().0);
    let keys_url = Url::parse("https://agents.example/.well-known/jwks.json").unwrap();
    WebhookSigner {
        secrets: Vec::new(),
        token_key: Some(WebhookTokenKey { key, keys_url, issuer: "https://agents.example".into() }),
    }
}

#[tokio::test]
async fn a_delivery_is_one_post_with_an_id_that_stays() {
    let heard = heard_with(None, Some("tok-7"), WebhookSigner::default()).await;
    assert!(heard.starts_with("POST / HTTP/1.1\r\n"), "{heard}");
    assert_eq!(heard.split_once("\r\n\r\n").unwrap().1.as_bytes(), &*parcel("http://x/").event.json);
    assert_eq!(header(&heard, "content-type"), Some("application/a2a+json"));
    assert_eq!(header(&heard, "x-a2a-notification-token"), Some("tok-7"));
    assert_eq!(header(&heard, "webhook-id"), Some(&*parcel("http://x/").id));
    for absent in ["authorization", "webhook-signature", "x-a2a-signature", "cookie"] {
        assert_eq!(header(&heard, absent), None);
    }
}

#[tokio::test]
async fn each_scheme_is_sent_as_it_was_registered() {
    let cases = [
        (("Bearer", Some("abc")), Some("Bearer abc")),
        (("bearer", Some("abc")), Some("bearer abc")),
        // Already encoded, or still to be.
        (("Basic", Some("dTpw")), Some("Basic dTpw")),
        (("Basic", Some("u:p")), Some("Basic dTpw")),
        (("ApiKey", Some("k-1")), Some("ApiKey k-1")),
        (("Digest", Some("username=\"u\"")), Some("Digest username=\"u\"")),
        (("Bearer", None), None),
        (("Basic", None), None),
    ];
    for (authentication, expected) in cases {
        let heard = heard_with(Some(authentication), None, WebhookSigner::default()).await;
        assert_eq!(header(&heard, "authorization"), expected, "{authentication:?}");
        let key = (authentication.0 == "ApiKey").then_some("k-1");
        assert_eq!(header(&heard, "x-api-key"), key);
    }
}

#[tokio::test]
async fn what_no_header_can_carry_is_refused_without_being_repeated() {
    let server = Server::start(|_| ServerReply::All(answer(204, "", ""))).await;
    let webhooks = webhooks(inside(), WebhookSigner::default());
    for (scheme, credentials, token) in [
        ("Bearer", "hunter2\r\nX-Other: 1", None),
        ("Bear er", "hunter2", None),
        ("", "hunter2", None),
        ("Bearer", "x", Some("hunter2\n")),
    ] {
        let mut parcel = parcel(server.url.as_str());
        parcel.config.authentication =
            Some(Authentication { scheme: scheme.into(), credentials: Some(credentials.into()) });
        parcel.config.token = token.map(Into::into);
        let DeliveryOutcome::Forbidden { reason } = deliver(&webhooks, parcel).await else { panic!("{scheme}") };
        assert!(!reason.contains("hunter2"), "{reason}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn every_attempt_is_signed_anew_with_each_secret() {
    let secrets = Secret::new("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let secrets = WebhookSecret::read_all(&secrets).unwrap();
    let heard = heard_with(None, None, WebhookSigner { secrets: secrets.clone(), token_key: None }).await;
    let body = heard.split_once("\r\n\r\n").unwrap().1;
    let header = |name| header(&heard, name).unwrap();
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let received = ReceivedHeaders { id, timestamp, signature: header("webhook-signature") };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now = Timestamp::from_millis(i64::try_from(now).unwrap());
    assert_eq!(received.verify(body.as_bytes(), &secrets, now), Ok(()));
}

#[tokio::test]
async fn a_receiver_with_secrets_of_its_own_can_check_either_pair_of_headers() {
    let (new, old) =
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
    let everybodys = Secret::new("whsec_////////////////////////////////////////////");
    let everybodys = WebhookSecret::read_all(&everybodys).unwrap();
    let server = Server::start(|_| ServerReply::All(answer(204, "", ""))).await;
    let webhooks = webhooks_under(vec![new, old], WebhookSigner { secrets: everybodys.clone(), token_key: None });
    assert_eq!(deliver(&webhooks, parcel(server.url.as_str())).await, DeliveryOutcome::Accepted { status: 204 });
    let heard = server.requests().remove(0);
    let body = heard.split_once("\r\n\r\n").unwrap().1.as_bytes();
    let header = |name| header(&heard, name).unwrap();
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let received = ReceivedHeaders { id, timestamp, signature: header("webhook-signature") };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now = Timestamp::from_millis(i64::try_from(now).unwrap());
    for secret in [new, old] {
        let secret = WebhookSecret::read(&Secret::new(secret)).unwrap();
        assert_eq!(received.verify(body, &[secret], now), Ok(()));
    }
    assert!(received.verify(body, &everybodys, now).is_err(), "nobody else can have sent it");
    let agnt = AgntReceivedHeaders { timestamp: header("x-agnt-timestamp"), signature: header("x-agnt-signature") };
    assert_eq!(agnt.verify(body, &[Secret::new(new)], now), Ok(()));
    assert!(agnt.verify(body, &[Secret::new(old)], now).is_err());
}

#[tokio::test]
async fn a_bearer_without_credentials_shows_the_token_that_says_who_we_are() {
    let heard = heard_with(Some(("Bearer", None)), None, seal_with_key()).await;
    let token = header(&heard, "x-a2a-signature").unwrap();
    assert_eq!(token.split('.').count(), 3);
    assert_eq!(header(&heard, "authorization"), Some(&*format!("Bearer {token}")));
    let own = heard_with(Some(("Bearer", Some("own"))), None, seal_with_key()).await;
    assert_eq!(header(&own, "authorization"), Some("Bearer own"));
    assert!(header(&own, "x-a2a-signature").is_some());
}

#[tokio::test]
async fn the_status_of_the_answer_is_all_that_counts() {
    let after = |seconds| Some(Duration::from_secs(seconds));
    let refused = |status, retry_after| DeliveryOutcome::Refused { status, retry_after };
    for (status, headers, expected) in [
        (200, "", DeliveryOutcome::Accepted { status: 200 }),
        (202, "", DeliveryOutcome::Accepted { status: 202 }),
        (410, "", DeliveryOutcome::Gone { status: 410 }),
        (404, "", refused(404, None)),
        (401, "", refused(401, None)),
        (429, "retry-after: 7\r\n", refused(429, after(7))),
        (503, "retry-after: 120\r\n", refused(503, after(120))),
        (500, "retry-after: soon\r\n", refused(500, None)),
    ] {
        let server = Server::start(move |_| ServerReply::All(answer(status, headers, "{}"))).await;
        let told = deliver(&webhooks(inside(), WebhookSigner::default()), parcel(server.url.as_str())).await;
        assert_eq!(told, expected);
    }
    let date = "retry-after: Fri, 31 Dec 2100 23:59:59 GMT\r\n";
    let server = Server::start(move |_| ServerReply::All(answer(503, date, "{}"))).await;
    let told = deliver(&webhooks(inside(), WebhookSigner::default()), parcel(server.url.as_str())).await;
    let DeliveryOutcome::Refused { retry_after: Some(delay), .. } = told else { panic!("{told:?}") };
    assert!(delay > Duration::from_secs(86_400), "until the date: {delay:?}");
}

#[tokio::test]
async fn a_redirect_is_a_refusal_and_nobody_is_asked_elsewhere() {
    let elsewhere = Server::start(|_| ServerReply::All(answer(200, "", "{}"))).await;
    for status in [301, 302, 307, 308] {
        let location = format!("location: {}\r\n", elsewhere.url);
        let server = Server::start(move |_| ServerReply::All(answer(status, &location, ""))).await;
        let told = deliver(&webhooks(inside(), WebhookSigner::default()), parcel(server.url.as_str())).await;
        assert_eq!(told, DeliveryOutcome::Refused { status, retry_after: None });
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn whatever_follows_the_status_is_thrown_away() {
    for say in [
        || ServerReply::Flood("HTTP/1.1 200 X\r\n\r\n".to_owned()),
        || ServerReply::Flood("HTTP/1.1 200 X\r\ncontent-length: 1000000000\r\n\r\n".to_owned()),
        || ServerReply::Drip("HTTP/1.1 200 X\r\ncontent-length: 60\r\n\r\n".to_owned()),
        // Ends in the middle of its body.
        || ServerReply::All("HTTP/1.1 200 X\r\ncontent-length: 60\r\n\r\nxx".to_owned()),
        || ServerReply::AndWait("HTTP/1.1 200 X\r\ncontent-length: 60\r\n\r\nxx".to_owned()),
    ] {
        let server = Server::start(move |_| say()).await;
        let told = deliver(&webhooks(inside(), WebhookSigner::default()), parcel(server.url.as_str())).await;
        assert_eq!(told, DeliveryOutcome::Accepted { status: 200 });
    }
}

#[tokio::test]
async fn who_does_not_answer_is_not_waited_for() {
    let silent = Server::start(|_| ServerReply::AndWait(String::new())).await;
    let half = Server::start(|_| ServerReply::AndWait("HTTP/1.1 20".into())).await;
    let closing = Server::start(|_| ServerReply::All(String::new())).await;
    let dripping = Server::start(|_| ServerReply::Drip("HTTP/1.1 200 OK\r\nx-slow: ".into())).await;
    for server in [silent, half, closing, dripping] {
        let told = deliver(&webhooks(inside(), WebhookSigner::default()), parcel(server.url.as_str())).await;
        assert!(matches!(told, DeliveryOutcome::NoAnswer { .. }), "somebody is there: {told:?}");
    }
    let nobody = deliver(&webhooks(inside(), WebhookSigner::default()), parcel("http://127.0.0.1:9999/SECRET")).await;
    let DeliveryOutcome::Unreachable { reason } = nobody else { panic!("{nobody:?}") };
    assert!(!reason.contains("SECRET"), "{reason}");
    assert!(PATIENCE < Duration::from_secs(1));
}

/// Every connection is a file descriptor, and callers may name any number of receivers.
#[tokio::test]
async fn a_connection_to_a_webhook_is_not_kept_for_long() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let receiver = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 8192];
        let heard = socket.read(&mut buffer).await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        (heard, socket.read(&mut buffer).await.unwrap())
    });
    let webhooks = webhooks(inside(), WebhookSigner::default());
    assert_eq!(deliver(&webhooks, parcel(&url)).await, DeliveryOutcome::Accepted { status: 200 });
    // Kept for a next delivery, and closed long before those to agents are.
    let (heard, then) = tokio::time::timeout(Duration::from_secs(30), receiver).await.expect("it is closed").unwrap();
    assert!(heard > 0 && then == 0, "{heard}, {then}");
}
