//! The shared capacity for all answers, from any server and in any form.

use crate::stub::{StreamEnd, StubAction, StubServer, client, frame, task};
use sabir_client::{Capacity, Error, FollowOptions, text_message};
use std::time::Duration;

const MIB: usize = 1 << 20;

fn long(bytes: usize) -> String {
    format!(
        r#"{{"task":{}}}"#,
        task("COMPLETED").replace("}}", &format!(r#"}},"metadata":{{"x":"{}"}}}}"#, "x".repeat(bytes)))
    )
}

/// Streams begin an event of one MiB and never end it; the text of a message is the length of its answer.
async fn agent() -> StubServer {
    StubServer::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            let begun = frame(None, &long(MIB));
            StubAction::Stream(vec![begun.trim_end().to_owned()], StreamEnd::Silence)
        }
        _ => StubAction::Result(long(
            heard.json()["params"]["message"]["parts"][0]["text"].as_str().unwrap().parse().unwrap(),
        )),
    })
    .await
}

#[tokio::test]
async fn who_finds_no_room_fails_alone_and_others_go_on() {
    let stub = agent().await;
    // A growing buffer takes up to twice the size of the event.
    let room = Capacity::new(3 * MIB);
    let client = client().capacity(room.clone()).without_retries().build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await.unwrap();
    let send = |bytes: usize| agent.send(text_message(bytes.to_string()));
    send(2 * MIB).await.unwrap();
    assert!(
        matches!(send(3 * MIB).await, Err(Error::CapacityExceeded)),
        "one that is larger than all the room there is"
    );
    let mut stream = agent.stream(text_message("go"), FollowOptions::default()).await.unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(500), stream.next()).await;
    assert!(waited.is_err(), "the event has no end");
    assert!(matches!(send(2 * MIB).await, Err(Error::CapacityExceeded)), "an event that never ends takes its room");
    send(1000).await.unwrap();
    drop(stream);
    send(2 * MIB).await.unwrap();
}

#[tokio::test]
async fn clients_with_one_room_share_it() {
    let stub = agent().await;
    // A growing buffer takes up to twice the size of the event.
    let room = Capacity::new(3 * MIB);
    let connect = async |room: Capacity| {
        client().capacity(room).without_retries().build().unwrap().connect(&stub.url.parse().unwrap()).await.unwrap()
    };
    let (greedy, other) = (connect(room.clone()).await, connect(room.clone()).await);
    let mut stream = greedy.stream(text_message("go"), FollowOptions::default()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(500), stream.next()).await.is_err());
    let answer = other.send(text_message((2 * MIB).to_string())).await;
    assert!(matches!(answer, Err(Error::CapacityExceeded)), "{answer:?}");
    other.send(text_message("1000")).await.unwrap();
}
