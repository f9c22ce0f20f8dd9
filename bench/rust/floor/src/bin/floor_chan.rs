//! Streams come from a separately spawned producer task through a bounded
//! channel, as they would from a real agent; unary calls are as in `floor`.
use bench_floor::*;

#[tokio::main]
async fn main() {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9011".into());
    serve::run(addr, |req| async move {
        if req.method() == hyper::Method::GET {
            return serve::json(CARD);
        }
        let b = serve::body(req).await;
        let Ok(env) = serde_json::from_slice::<Envelope>(&b) else {
            return serve::json(&br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}"#[..]);
        };
        match &*env.method {
            "SendMessage" => {
                let p: SendParams = serde_json::from_str(env.params.get()).unwrap();
                let t = echo_task(p.message);
                let mut out = Vec::with_capacity(1024);
                serde_json::to_writer(&mut out, &Reply { jsonrpc: "2.0", id: env.id, result: Payload::Task(&t) })
                    .unwrap();
                serve::json(out)
            }
            "SendStreamingMessage" => {
                let p: SendParams = serde_json::from_str(env.params.get()).unwrap();
                let (tx, mut rx) = tokio::sync::mpsc::channel::<Vec<u8>>(32);
                let id = env.id.map(|r| r.to_owned());
                tokio::spawn(async move {
                    for f in stream_frames(id.as_deref(), &p.message) {
                        if tx.send(f).await.is_err() {
                            break;
                        }
                    }
                    if text_of(&p.message).starts_with("hold") {
                        tx.closed().await;
                    }
                });
                serve::sse(Box::pin(futures_util::stream::poll_fn(move |cx| {
                    rx.poll_recv(cx).map(|o| o.map(|b| Ok(hyper::body::Frame::data(bytes::Bytes::from(b)))))
                })))
            }
            _ => serve::json(&br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method"}}"#[..]),
        }
    })
    .await
}
