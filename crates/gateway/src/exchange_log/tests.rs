use super::*;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use sabir_proto::Stamp;
use serde_json::Value;

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("sabir-wire-{name}-{}", std::process::id())))
    }

    fn kept(&self, task: TaskId, count: usize) -> Vec<Value> {
        for _ in 0..500 {
            let kept = read_exchanges(&self.0, &task.to_string()).unwrap();
            if kept.len() >= count {
                return kept;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{count} lines do not appear");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn task(number: u64) -> TaskId {
    TaskId::new(Stamp::from_u64(number), 1)
}

fn say(body: &str, status: u16) {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer hush-hush"));
    let mut own = HeaderValue::from_static("made-up-name");
    own.set_sensitive(true);
    headers.insert(HeaderName::from_static("x-made-up"), own);
    let url = "https://agent.example/rpc?api_key=hush-hush";
    ExchangeObserver.observe(&Observation::Request {
        method: &Method::POST,
        url,
        headers: &headers,
        body: Some(&Bytes::copy_from_slice(body.as_bytes())),
    });
    let status = StatusCode::from_u16(status).unwrap();
    ExchangeObserver.observe(&Observation::Response {
        status,
        headers: &HeaderMap::new(),
        elapsed: Duration::from_millis(7),
    });
    ExchangeObserver
        .observe(&Observation::Body { bytes: &Bytes::from_static(br#"{"access_token":"hush-hush","x":1}"#) });
}

#[tokio::test]
async fn errors_are_kept_without_their_secrets_and_the_rest_is_not() {
    let folder = Folder::new("errors");
    let log = ExchangeLog::open(ExchangeLogMode::Errors, &folder.0).unwrap();
    let call = async |body: &'static str, answer: Result<(), &'static str>| {
        let (answer, heard) = log
            .record(async {
                say(body, 500);
                answer
            })
            .await;
        heard.unwrap().finish(answer.err().map(str::to_owned));
    };
    for_task(task(1), call("fine", Ok(()))).await;
    for_task(task(1), call(r#"{"token":"hush-hush","text":"hello"}"#, Err("HTTP 500"))).await;
    let kept = folder.kept(task(1), 1);
    assert_eq!(kept.len(), 1, "{kept:?}");
    let text = kept[0].to_string();
    assert!(!text.contains("hush") && !text.contains("made-up-name"), "{text}");
    assert_eq!(kept[0]["leg"], "upstream");
    assert_eq!(kept[0]["problem"], "HTTP 500");
    assert_eq!(kept[0]["answer"]["status"], 500);
    assert!(kept[0]["request"]["body"].as_str().unwrap().contains("hello"));
}

#[tokio::test]
async fn what_nobody_works_on_is_not_listened_to() {
    let folder = Folder::new("nobody");
    let log = ExchangeLog::open(ExchangeLogMode::All, &folder.0).unwrap();
    let (_, heard) = log
        .record(async {
            say("x", 200);
            Ok::<_, String>(())
        })
        .await;
    assert!(heard.is_none());
    assert!(ExchangeLog::off().observer().is_none() && log.observer().is_some());
}

#[test]
fn callers_are_kept_as_well_and_files_are_bounded() {
    let folder = Folder::new("bounded");
    let log = ExchangeLog::open(ExchangeLogMode::All, &folder.0).unwrap();
    let body = vec![b'x'; 64 << 10];
    let (headers, method) = (HeaderMap::new(), Method::POST);
    let served = |number| ServedExchange {
        task: task(number),
        method: &method,
        url: "/message:send",
        headers: &headers,
        body: &body,
        status: StatusCode::OK,
        answer_headers: &headers,
        answer: Some(b"{}"),
        took: Duration::ZERO,
    };
    for number in 0..6000 {
        log.log_served(&served(number), false);
        if number % 500 == 0 {
            folder.kept(task(number), 1);
        }
    }
    folder.kept(task(5500), 1);
    let sizes: Vec<u64> =
        std::fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).collect();
    assert!(sizes.len() <= SEGMENTS && sizes.iter().all(|size| *size < SEGMENT_BYTES_MAX + (64 << 10)), "{sizes:?}");
    assert!(read_exchanges(&folder.0, &task(0).to_string()).unwrap().is_empty(), "the oldest are gone");
    let kept = &folder.kept(task(5500), 1)[0];
    assert!(kept["request"]["body"].as_str().unwrap().ends_with("[… 65536 bytes in all]"));
    assert_eq!((&kept["leg"], &kept["answer"]["body"]), (&"caller".into(), &"{}".into()));
}
