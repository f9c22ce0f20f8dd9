//! Echo agent on the agntcy-a2a-server crate (in-memory store, JSON-RPC, SSE).
use a2a::*;
use a2a_server::{
    AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore, StaticAgentCard,
    agent_card::agent_card_router, jsonrpc::jsonrpc_router,
};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;

struct Echo;

type Ev = Result<StreamResponse, A2AError>;

fn status(tid: &str, cid: &str, state: TaskState) -> Ev {
    Ok(StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        task_id: tid.into(),
        context_id: cid.into(),
        status: TaskStatus { state, message: None, timestamp: Some(chrono::Utc::now()) },
        metadata: None,
    }))
}

fn artifact(tid: &str, cid: &str, text: String, append: bool, last: bool) -> Ev {
    Ok(StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
        task_id: tid.into(),
        context_id: cid.into(),
        artifact: Artifact {
            artifact_id: "echo".into(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        },
        append: Some(append),
        last_chunk: Some(last),
        metadata: None,
    }))
}

impl AgentExecutor for Echo {
    fn execute(&self, ctx: ExecutorContext) -> BoxStream<'static, Ev> {
        let (t, c) = (ctx.task_id.clone(), ctx.context_id.clone());
        let text = ctx.message.as_ref().and_then(|m| m.text()).unwrap_or("").to_string();
        if text.starts_with("hold") {
            stream::iter(vec![status(&t, &c, TaskState::Working)])
                .chain(stream::once(async {
                    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
                    Err(A2AError::internal("held"))
                }))
                .boxed()
        } else if text.starts_with("stream") {
            let mut v = vec![status(&t, &c, TaskState::Working)];
            for i in 0..10 {
                v.push(artifact(&t, &c, format!("chunk {i} of {text}"), i > 0, i == 9));
            }
            v.push(status(&t, &c, TaskState::Completed));
            stream::iter(v).boxed()
        } else {
            stream::iter(vec![artifact(&t, &c, text, false, true), status(&t, &c, TaskState::Completed)]).boxed()
        }
    }

    fn cancel(&self, ctx: ExecutorContext) -> BoxStream<'static, Ev> {
        stream::iter(vec![status(&ctx.task_id, &ctx.context_id, TaskState::Canceled)]).boxed()
    }
}

#[tokio::main]
async fn main() {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".into());
    let caps = AgentCapabilities {
        streaming: Some(true),
        push_notifications: None,
        extensions: None,
        extended_agent_card: None,
    };
    let card = AgentCard {
        name: "echo".into(),
        description: "echo agent".into(),
        version: "1.0.0".into(),
        supported_interfaces: vec![AgentInterface::new(format!("http://{addr}/"), "JSONRPC")],
        capabilities: caps.clone(),
        default_input_modes: vec!["text/plain".into()],
        default_output_modes: vec!["text/plain".into()],
        skills: vec![],
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: None,
        security_requirements: None,
        signatures: None,
    };
    let handler = Arc::new(DefaultRequestHandler::new(Echo, InMemoryTaskStore::new()).with_capabilities(caps));
    let app = jsonrpc_router(handler).merge(agent_card_router(Arc::new(StaticAgentCard::new(card))));
    // The crate's documentation serves with plain axum::serve, which leaves
    // Nagle's algorithm on; BENCH_NODELAY turns it off.
    let nodelay = std::env::var_os("BENCH_NODELAY").is_some();
    let l = tokio::net::TcpListener::bind(&addr).await.unwrap();
    let l = axum::serve::ListenerExt::tap_io(l, move |s: &mut tokio::net::TcpStream| {
        let _ = s.set_nodelay(nodelay);
    });
    axum::serve(l, app).await.unwrap();
}
