//! A name that answers differently each time is called where its address was checked, and nowhere else.

use crate::stub::{StubAction, StubServer, card, client, task};
use sabir_client::egress::{Lookup, LookupFuture};
use sabir_client::{Client, Egress, Error, text_message};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;

/// A resolver that gives the next answer each time, and the last one again and again.
struct ChangingAnswers {
    answers: Vec<IpAddr>,
    asked: AtomicUsize,
}

impl ChangingAnswers {
    fn new(answers: &[&str]) -> Arc<Self> {
        let answers = answers.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self { answers, asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Lookup for ChangingAnswers {
    fn look_up(&self, _: &str) -> LookupFuture {
        let n = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
        let address = self.answers[n];
        Box::pin(async move { Ok(vec![address]) })
    }
}

/// Of this machine one address may be called.
fn policy(names: &Arc<ChangingAnswers>) -> Egress {
    Egress::public().and_network("127.0.0.1/32".parse().unwrap()).with_resolver(names.clone())
}

/// A listener that counts the connections it gets and closes each of them.
async fn count_connections(at: &str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(at).await.unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(connection);
        }
    });
    (port, count)
}

#[track_caller]
fn check_refused(error: &Error, address: &str) {
    let mut told = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        told += &format!(": {error}");
        cause = error.source();
    }
    assert!(told.contains(address) && told.contains("not allowed"), "{told}");
}

#[tokio::test]
async fn an_agent_whose_name_moves_to_an_inner_address_is_not_called_there() {
    // The card is at the name, and so is the agent; each of its answers closes the connection, so each call looks the name up.
    let stub = StubServer::start(
        |base| card(&base.replace("127.0.0.1", "rebind.example"), "{}", ""),
        |_, _| StubAction::HangUp,
    )
    .await;
    let port: u16 = stub.url.rsplit_once(':').unwrap().1.parse().unwrap();
    let (_, trap) = count_connections(&format!("127.0.0.2:{port}")).await;
    let names = ChangingAnswers::new(&["127.0.0.1", "127.0.0.2"]);
    let client = Client::builder().egress(policy(&names)).without_retries().build().unwrap();
    let agent = client.connect(&format!("http://rebind.example:{port}").parse().unwrap()).await.unwrap();
    assert_eq!(names.asked(), 1, "one look-up for one connection");
    // The connection that fetched the card is broken off; the next one asks the resolver again, and is refused.
    drop(agent.send(text_message("hello")).await);
    let refused = agent.send(text_message("hello")).await.unwrap_err();
    check_refused(&refused, "127.0.0.2");
    assert_eq!(trap.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn with_tls_the_address_that_was_checked_is_the_one_that_is_dialled() {
    let (port, open) = count_connections("127.0.0.1:0").await;
    let (_, trap) = count_connections(&format!("127.0.0.2:{port}")).await;
    let names = ChangingAnswers::new(&["127.0.0.1", "127.0.0.2"]);
    let client = Client::builder().egress(policy(&names)).without_retries().build().unwrap();
    let url = format!("https://rebind.example:{port}").parse().unwrap();
    // The first answer leads to the listener, which speaks no TLS.
    assert!(client.connect(&url).await.is_err());
    assert!(open.load(Ordering::Relaxed) >= 1);
    assert_eq!(trap.load(Ordering::Relaxed), 0);
    let Err(refused) = client.connect(&url).await else { panic!("it is connected") };
    check_refused(&refused, "127.0.0.2");
    assert_eq!(trap.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_redirect_to_a_name_of_an_inner_address_is_not_followed() {
    let (port, trap) = count_connections("127.0.0.2:0").await;
    let stub = StubServer::bare(move |_, _| {
        StubAction::Answer(302, format!("location: http://inner.example:{port}/card\r\n"), String::new())
    })
    .await;
    let names = ChangingAnswers::new(&["127.0.0.2"]);
    let client = Client::builder().egress(policy(&names)).without_retries().build().unwrap();
    assert!(client.connect(&stub.url.parse().unwrap()).await.is_err());
    assert_eq!(trap.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_name_that_stays_where_it_is_is_called_there() {
    let stub = StubServer::start(
        |base| card(&base.replace("127.0.0.1", "steady.example"), "{}", ""),
        |_, _| StubAction::Result(format!(r#"{{"task":{}}}"#, task("COMPLETED"))),
    )
    .await;
    let port = stub.url.rsplit_once(':').unwrap().1;
    let names = ChangingAnswers::new(&["127.0.0.1"]);
    let client = client().egress(policy(&names)).build().unwrap();
    let agent = client.connect(&format!("http://steady.example:{port}").parse().unwrap()).await.unwrap();
    agent.send(text_message("hello")).await.unwrap();
    assert_eq!(stub.calls().len(), 1);
}
