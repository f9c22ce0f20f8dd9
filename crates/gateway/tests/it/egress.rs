//! Where a delivery may not go, however the address is written.

use crate::stub::{Server, ServerReply, answer};
use crate::webhook_fixtures::{deliver, inside, parcel, webhooks};
use sabir_engine::DeliveryOutcome;
use sabir_gateway::{Egress, Lookup, WebhookSigner};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `PORT` stands for the port of a server that would answer, were it asked.
const REFUSED: &[&str] = &[
    // This machine.
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.1.2.3:PORT/",
    "http://127.1:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://0.0.0.0:PORT/",
    "http://0:PORT/",
    "http://[::1]:PORT/",
    "http://[::]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    // The same in other numbers.
    "http://2130706433:PORT/",
    "http://017700000001:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7f.0.0.1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://0177.0x0.0.1:PORT/",
    "http://127.0.1:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://１２７.０.０.１:PORT/",
    "http://127。0。0。1:PORT/",
    // The same inside IPv6: mapped, compatible, NAT64, local NAT64, 6to4, Teredo, translated.
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[64:ff9b::7f00:1]:PORT/",
    "http://[64:ff9b:1::7f00:1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:7f00:1::]:PORT/",
    "http://[::ffff:0:127.0.0.1]:PORT/",
    // Private networks.
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://3232235777/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[64:ff9b::a00:1]/",
    // Link-local addresses.
    "http://169.254.1.1/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    // Metadata services of clouds, which hand out credentials.
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[fd00:ec2::254]/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://metadata.google.internal./",
    "http://metadata/",
    "http://168.63.129.16/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    // Addresses of no single host.
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    // Names and passwords that look like hosts.
    "http://hooks.example@127.0.0.1:PORT/",
    "http://hooks.example:443@127.0.0.1:PORT/",
    "http://hooks.example%40127.0.0.1:PORT/",
    "http://hooks.example\\@127.0.0.1:PORT/",
    "http://user:pass@hooks.example/",
    "http://@127.0.0.1:PORT/",
    // Other schemes.
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_GET",
    "ws://127.0.0.1:PORT/",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "javascript:alert(1)",
    "data:text/plain,x",
    "//127.0.0.1:PORT/",
    "http:127.0.0.1:PORT/",
    "http:/127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "127.0.0.1:PORT",
    "",
    // Ports of services that are no web servers.
    "http://1.1.1.1:22/",
    "http://1.1.1.1:25/",
    "http://1.1.1.1:53/",
    "http://1.1.1.1:6379/",
    "http://1.1.1.1:11211/",
    "http://1.1.1.1:0/",
    "http://1.1.1.1:65536/",
    // Blanks and line breaks.
    " http://127.0.0.1:PORT/",
    "http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: x",
    "http://127.0.\t0.1:PORT/",
];

#[tokio::test]
async fn every_inner_address_is_refused_however_it_is_written() {
    let server = Server::start(|_| ServerReply::All(answer(200, "", "{}"))).await;
    let port = server.url.port().unwrap().to_string();
    let webhooks = webhooks(Egress::public(), WebhookSigner::default());
    assert!(REFUSED.len() >= 40);
    for url in REFUSED {
        let url = url.replace("PORT", &port);
        let told = deliver(&webhooks, parcel(&url)).await;
        assert!(matches!(told, DeliveryOutcome::Forbidden { .. }), "{url}: {told:?}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_refusal_says_what_to_write_where() {
    let told =
        deliver(&webhooks(Egress::public(), WebhookSigner::default()), parcel("http://127.0.0.1:8080/SECRET")).await;
    let DeliveryOutcome::Forbidden { reason } = told else { panic!("{told:?}") };
    assert!(reason.contains("127.0.0.1") && reason.contains("loopback") && reason.contains("[egress]"), "{reason}");
    assert!(!reason.contains("SECRET"), "{reason}");
}

#[tokio::test]
async fn what_is_allowed_is_allowed_and_nothing_beside_it() {
    let server = Server::start(|_| ServerReply::All(answer(200, "", "{}"))).await;
    let allowed = webhooks(inside(), WebhookSigner::default());
    assert_eq!(deliver(&allowed, parcel(server.url.as_str())).await, DeliveryOutcome::Accepted { status: 200 });
    for url in ["http://127.0.0.2/", "http://10.0.0.1/", "http://169.254.169.254/", "http://[::1]/"] {
        assert!(matches!(deliver(&allowed, parcel(url)).await, DeliveryOutcome::Forbidden { .. }), "{url}");
    }
}

/// Answers each look-up with the next list, and then always with the last one.
struct Rebinding {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Rebinding {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let read = |one: &&[&str]| one.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self { answers: answers.iter().map(read).collect(), asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Lookup for Rebinding {
    fn look_up(&self, _: &str) -> sabir_client::egress::LookupFuture {
        let n = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
        let answer = self.answers[n].clone();
        Box::pin(async move { Ok(answer) })
    }
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_what_was_judged_is_dialled() {
    // Two servers behind one name and one port: one that may be called, and one that an attacker wants us to call.
    let open = Server::start(|_| ServerReply::All(answer(200, "", "{}"))).await;
    let port = open.url.port().unwrap();
    let trap = Server::start_at(&format!("127.0.0.2:{port}"), |_| ServerReply::All(answer(200, "", "{}"))).await;
    let names = Rebinding::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let webhooks = webhooks(inside().with_resolver(names.clone()), WebhookSigner::default());
    let url = format!("http://rebind.example:{port}/");
    assert_eq!(deliver(&webhooks, parcel(&url)).await, DeliveryOutcome::Accepted { status: 200 });
    // A second look-up between judging and dialling would have found the other address.
    assert_eq!(names.asked(), 1);
    let told = deliver(&webhooks, parcel(&url)).await;
    assert!(matches!(&told, DeliveryOutcome::Forbidden { reason } if reason.contains("127.0.0.2")), "{told:?}");
    assert_eq!((names.asked(), open.requests().len(), trap.requests().len()), (2, 1, 0));
}

#[tokio::test]
async fn of_a_name_with_many_addresses_only_those_that_may_be_called_are() {
    let open = Server::start(|_| ServerReply::All(answer(200, "", "{}"))).await;
    let port = open.url.port().unwrap();
    let trap = Server::start_at(&format!("127.0.0.3:{port}"), |_| ServerReply::All(answer(200, "", "{}"))).await;
    let names = Rebinding::new(&[&["127.0.0.3", "::1", "10.0.0.1", "127.0.0.1", "169.254.169.254"]]);
    let webhooks = webhooks(inside().with_resolver(names), WebhookSigner::default());
    let told = deliver(&webhooks, parcel(&format!("http://many.example:{port}/"))).await;
    assert_eq!(told, DeliveryOutcome::Accepted { status: 200 });
    assert_eq!((open.requests().len(), trap.requests().len()), (1, 0));
}

#[tokio::test]
async fn a_name_that_leads_nowhere_may_lead_somewhere_later() {
    let names = Rebinding::new(&[&[]]);
    let webhooks = webhooks(Egress::public().with_resolver(names), WebhookSigner::default());
    let told = deliver(&webhooks, parcel("http://nowhere.example/")).await;
    assert!(matches!(told, DeliveryOutcome::Unreachable { .. }), "{told:?}");
}
