//! Prototype: the typed floor plus a real in-memory task store that serves
//! SendMessage, GetTask and ListTasks.
//!
//! Tasks are kept as their serialised bytes (one allocation each, no clone of a
//! tree on read) in 64 shards keyed by a hash of the id; a per-shard append-only
//! index in id order (ids are time ordered) makes ListTasks a tail read.
use bench_floor::*;
use bytes::Bytes;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Shard {
    map: HashMap<Box<str>, Bytes>,
}

struct Store {
    h: RandomState,
    shards: Vec<Mutex<Shard>>,
    order: Mutex<Vec<Bytes>>,
}

impl Store {
    fn shard(&self, id: &str) -> &Mutex<Shard> {
        &self.shards[self.h.hash_one(id) as usize & 63]
    }
    fn put(&self, id: &str, task: Bytes) {
        self.shard(id).lock().unwrap().map.insert(id.into(), task.clone());
        self.order.lock().unwrap().push(task);
    }
    fn get(&self, id: &str) -> Option<Bytes> {
        self.shard(id).lock().unwrap().map.get(id).cloned()
    }
}

fn envelope(id: Option<&serde_json::value::RawValue>, open: &str, task: &[u8], close: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(task.len() + 96);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.map_or("null", |r| r.get()).as_bytes());
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(open.as_bytes());
    out.extend_from_slice(task);
    out.extend_from_slice(close.as_bytes());
    out.push(b'}');
    out
}

#[tokio::main]
async fn main() {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9014".into());
    let store = Arc::new(Store {
        h: RandomState::new(),
        shards: (0..64).map(|_| Mutex::default()).collect(),
        order: Mutex::default(),
    });
    serve::run(addr, move |req| {
        let store = store.clone();
        async move {
            if req.method() == hyper::Method::GET {
                return serve::json(CARD);
            }
            let b = serve::body(req).await;
            let env = serde_json::from_slice::<Envelope>(&b).unwrap();
            match &*env.method {
                "SendMessage" => {
                    let p: SendParams = serde_json::from_str(env.params.get()).unwrap();
                    let t = echo_task(p.message);
                    let mut enc = Vec::with_capacity(1024);
                    serde_json::to_writer(&mut enc, &t).unwrap();
                    let enc = Bytes::from(enc.into_boxed_slice());
                    store.put(&t.id, enc.clone());
                    serve::json(envelope(env.id, "{\"task\":", &enc, "}"))
                }
                "GetTask" => {
                    let p: IdParams = serde_json::from_str(env.params.get()).unwrap();
                    match store.get(&p.id) {
                        Some(t) => serve::json(envelope(env.id, "", &t, "")),
                        None => serve::json(
                            &br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Task not found"}}"#[..],
                        ),
                    }
                }
                "ListTasks" => {
                    let (page, total) = {
                        let o = store.order.lock().unwrap();
                        (o.iter().rev().take(50).cloned().collect::<Vec<_>>(), o.len())
                    };
                    let mut body = Vec::with_capacity(50 * 700);
                    for (i, t) in page.iter().enumerate() {
                        if i > 0 {
                            body.push(b',');
                        }
                        body.extend_from_slice(t);
                    }
                    let tail = format!("],\"nextPageToken\":\"\",\"pageSize\":50,\"totalSize\":{total}}}");
                    serve::json(envelope(env.id, "{\"tasks\":[", &body, &tail))
                }
                "SendStreamingMessage" => {
                    let p: SendParams = serde_json::from_str(env.params.get()).unwrap();
                    let mut f = stream_frames(env.id, &p.message);
                    if text_of(&p.message).starts_with("hold") {
                        serve::sse(serve::hold(f.swap_remove(0)))
                    } else {
                        serve::sse(serve::frames(f))
                    }
                }
                _ => serve::json(&br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method"}}"#[..]),
            }
        }
    })
    .await
}
