//! Promises of a whole server in this process.

use super::Server;
use crate::config::Config;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A server with everything that starts background tasks: a store in a file, a network, a remote agent with health
/// checks and a card to follow, and a program that may delegate.
fn config(directory: &std::path::Path) -> Config {
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ndrain_seconds = 0\n[store]\nurl = \"sqlite:{}\"\n[network]\n\
         [[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true\n\
         [[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:1\"\nhealth_seconds = 1\n\
         [[agent]]\nname = \"web\"\nkind = \"http\"\nurl = \"http://127.0.0.1:1\"\ndelegates_to = [\"echo\"]\n",
        directory.join("sabir.db").display()
    );
    Config::read(&text).unwrap()
}

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_of_a_server_runs_after_it_has_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(config(directory.path())).await.unwrap();
    let address = server.address();
    assert!(alive() > 0, "the server has tasks while it serves");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    // A connection that never closes, and never sends a whole request.
    let client = async {
        let mut stuck = TcpStream::connect(address).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n");
        stuck.write_all(format!("{head}Content-Length: 10\r\n\r\n{{").as_bytes()).await.unwrap();
        let mut health = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        health.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        health.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(stop);
        stuck
    };
    let running = server.run(async { drop(stopped.await) });
    let (stuck, ()) = tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(client, running) })
        .await
        .expect("a stop is bounded");
    assert_eq!(alive(), 0);
    drop(stuck);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_dropped_leaves_no_task_behind() {
    let directory = tempfile::tempdir().unwrap();
    drop(Server::start(config(directory.path())).await.unwrap());
    let ended = async {
        while alive() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("aborted tasks end");
}
