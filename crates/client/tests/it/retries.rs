//! The requests that are retried, and those that are not.

use crate::stub::{StubAction, StubServer, client, task};
use sabir_client::{Error, text_message};
use sabir_proto::TaskRef;

fn t1() -> TaskRef {
    TaskRef::parse("t-1").unwrap()
}

#[tokio::test]
async fn a_read_is_repeated_after_a_passing_failure() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Answer(503, String::new(), String::new()),
        1 => StubAction::HangUp,
        _ => StubAction::Result(task("WORKING")),
    })
    .await;
    assert!(stub.connect().await.task(&t1()).await.is_ok());
    assert_eq!(stub.calls().len(), 3);
}

#[tokio::test]
async fn a_message_that_may_have_arrived_is_not_sent_again() {
    for answer in [|| StubAction::HangUp, || StubAction::Answer(503, String::new(), String::new())] {
        let stub = StubServer::agent(move |_, _| answer()).await;
        assert!(stub.connect().await.send(text_message("x")).await.is_err());
        assert_eq!(stub.calls().len(), 1);
    }
}

#[tokio::test]
async fn a_message_that_cannot_have_arrived_is_sent_again_under_the_same_name() {
    // A port that refuses connections at first: bound, then free, then bound again by the stub.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), crate::stub::card(&format!("http://127.0.0.1:{port}"), "{}", "")).unwrap();
    let agent = client().build().unwrap().connect(&file.path().display().to_string().parse().unwrap()).await.unwrap();
    let error = agent.send(text_message("x")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { safe: true, .. }), "{error:?}");
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_not_repeated() {
    let stub = StubServer::agent(|_, _| StubAction::Error(-32001, "no such task")).await;
    let error = stub.connect().await.task(&t1()).await.unwrap_err();
    assert_eq!(error.to_string(), "no such task");
    assert_eq!(stub.calls().len(), 1);
}

#[tokio::test]
async fn a_long_stay_away_is_not_waited_out() {
    let stub = StubServer::agent(|_, _| StubAction::Answer(429, "retry-after: 3600\r\n".into(), String::new())).await;
    let error = stub.connect().await.task(&t1()).await.unwrap_err();
    assert!(matches!(&error, Error::Fault { retry_after: Some(after), .. } if after.as_secs() == 3600), "{error:?}");
    assert_eq!(stub.calls().len(), 1);
}

#[tokio::test]
async fn an_answer_to_another_request_is_not_taken_for_ours() {
    let body = r#"{"jsonrpc":"2.0","id":"not-yours","result":{"id":"t-1","status":{"state":"TASK_STATE_WORKING"}}}"#;
    let json = "content-type: application/json\r\n";
    let stub = StubServer::agent(move |_, _| StubAction::Answer(200, json.into(), body.into())).await;
    let error = stub.connect().await.task(&t1()).await.unwrap_err();
    assert!(error.to_string().contains("another request"), "{error}");
}

#[tokio::test]
async fn what_the_card_rules_out_never_leaves() {
    let stub = StubServer::start(|base| crate::stub::card(base, "{}", ""), |_, _| StubAction::HangUp).await;
    let agent = stub.connect().await;
    assert!(agent.subscribe(t1(), sabir_client::FollowOptions::default()).await.is_err());
    assert!(agent.extended_card().await.is_err());
    let config = serde_json::from_str(r#"{"url":"https://h/hook"}"#).unwrap();
    assert!(agent.create_push(t1(), config).await.is_err());
    assert!(stub.calls().is_empty());
}

#[tokio::test]
async fn members_nobody_knows_survive_in_the_json() {
    let odd = r#"{"id":"t-1","contextId":"c","status":{"state":"TASK_STATE_WORKING","mood":"calm"},"zeta":[1,2.50]}"#;
    let stub = StubServer::agent(move |_, _| StubAction::Result(odd.into())).await;
    assert_eq!(stub.connect().await.task(&t1()).await.unwrap().json(), odd);
}

#[tokio::test]
async fn a_deletion_is_done_whatever_is_said_about_it() {
    // The JavaScript SDK answers `null`, the Python SDK of 0.3 with neither member.
    for result in [r#","result":null"#, "", r#","result":{}"#] {
        let stub = StubServer::agent(move |_, heard| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{}{result}}}"#, heard.json()["id"]);
            StubAction::Answer(200, "content-type: application/json\r\n".into(), body)
        })
        .await;
        let request = sabir_proto::DeletePush { tenant: sabir_proto::Tenant::none(), task_id: t1(), id: "p".into() };
        stub.connect().await.delete_push(request).await.unwrap();
    }
}

#[tokio::test]
async fn words_of_gateways_are_told_apart_from_those_of_agents() {
    let json = "content-type: application/json\r\n";
    let asked = |status: u16, body: &'static str| async move {
        let stub = StubServer::agent(move |_, _| StubAction::Answer(status, json.into(), body.into())).await;
        stub.connect().await.task(&t1()).await.unwrap_err()
    };
    for body in [r#"{"error":"invalid_token"}"#, r#"{"error":{"code":403,"message":"no"}}"#, r#"{"message":"no"}"#] {
        let error = asked(401, body).await;
        assert!(matches!(error, Error::CredentialsMissing { .. }), "{body}: {error:?}");
    }
    let refused =
        asked(401, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Authentication required"}}"#);
    assert!(matches!(refused.await, Error::CredentialsMissing { .. }));
    let gone = asked(503, r#"{"error":"upstream down"}"#).await;
    assert!(matches!(gone, Error::Unreachable { .. }), "{gone:?}");
}

#[tokio::test]
async fn an_answer_about_another_task_is_not_taken() {
    let stub = StubServer::agent(|_, _| StubAction::Result(task("COMPLETED").replace("t-1", "t-2"))).await;
    let error = stub.connect().await.task(&t1()).await.unwrap_err();
    assert!(error.to_string().contains("t-2"), "{error}");
}

#[tokio::test]
async fn an_error_for_another_request_is_not_ours_either() {
    let body = r#"{"jsonrpc":"2.0","id":"not-yours","error":{"code":-32001,"message":"their task"}}"#;
    let stub = StubServer::agent(move |_, _| {
        StubAction::Answer(200, "content-type: application/json\r\n".into(), body.into())
    })
    .await;
    let error = stub.connect().await.task(&t1()).await.unwrap_err();
    assert!(error.to_string().contains("another request"), "{error}");
}

#[tokio::test]
async fn a_message_to_a_task_is_not_answered_by_another() {
    let stub = StubServer::agent(|_, _| {
        StubAction::Result(format!(r#"{{"task":{}}}"#, task("WORKING").replace("t-1", "t-2")))
    })
    .await;
    let mut request = text_message("x");
    request.message.task_id = Some(t1());
    let error = stub.connect().await.send(request).await.unwrap_err();
    assert!(error.to_string().contains("t-2"), "{error}");
}
