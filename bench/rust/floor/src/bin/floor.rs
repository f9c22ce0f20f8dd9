//! The typed floor: hyper and typed JSON both ways, ids, timestamps; no store.
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
                let mut f = stream_frames(env.id, &p.message);
                if text_of(&p.message).starts_with("hold") {
                    serve::sse(serve::hold(f.swap_remove(0)))
                } else {
                    serve::sse(serve::frames(f))
                }
            }
            _ => serve::json(&br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method"}}"#[..]),
        }
    })
    .await
}
