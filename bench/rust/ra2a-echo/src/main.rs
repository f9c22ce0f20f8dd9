//! Echo agent on the ra2a crate (in-memory store, JSON-RPC, SSE on /stream).
use std::{future::Future, pin::Pin, time::Duration};

use ra2a::{
    error::Result,
    server::{AgentExecutor, Event, EventQueue, RequestContext, ServerState, a2a_router},
    types::{
        AgentCard, AgentInterface, Artifact, Message, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus,
        TaskStatusUpdateEvent, TransportProtocol,
    },
};

struct Echo;
type Fut<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

impl AgentExecutor for Echo {
    fn execute<'a>(&'a self, ctx: &'a RequestContext, queue: &'a EventQueue) -> Fut<'a> {
        Box::pin(async move {
            let text = ctx.message.as_ref().and_then(Message::text_content).unwrap_or_default();
            let status = |s| {
                Event::StatusUpdate(TaskStatusUpdateEvent::new(
                    ctx.task_id.clone(),
                    ctx.context_id.clone(),
                    TaskStatus::new(s),
                ))
            };
            if text.starts_with("hold") {
                let mut task = Task::new(&ctx.task_id, &ctx.context_id);
                task.status = TaskStatus::new(TaskState::Working);
                queue.send(Event::Task(task))?;
                tokio::time::sleep(Duration::from_secs(3600)).await;
            } else if text.starts_with("stream") {
                queue.send(status(TaskState::Working))?;
                for i in 0..10 {
                    let mut e = TaskArtifactUpdateEvent::new(
                        ctx.task_id.clone(),
                        ctx.context_id.clone(),
                        Artifact::new("echo", vec![Part::text(format!("chunk {i} of {text}"))]),
                    );
                    e.append = i > 0;
                    e.last_chunk = i == 9;
                    queue.send(Event::ArtifactUpdate(e))?;
                }
                queue.send(status(TaskState::Completed))?;
            } else {
                // The handler only persists whole-task events, so the finished
                // task goes out in one piece.
                let mut task = Task::new(&ctx.task_id, &ctx.context_id);
                task.history = ctx.message.iter().cloned().collect();
                task.artifacts = vec![Artifact::new("echo", vec![Part::text(text)])];
                task.status = TaskStatus::new(TaskState::Completed);
                queue.send(Event::Task(task))?;
            }
            Ok(())
        })
    }

    fn cancel<'a>(&'a self, ctx: &'a RequestContext, queue: &'a EventQueue) -> Fut<'a> {
        Box::pin(async move {
            let mut task = Task::new(&ctx.task_id, &ctx.context_id);
            task.status = TaskStatus::new(TaskState::Canceled);
            queue.send(Event::Task(task))
        })
    }
}

#[tokio::main]
async fn main() {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9003".into());
    let iface = AgentInterface::new(format!("http://{addr}"), TransportProtocol::new(TransportProtocol::JSONRPC));
    let mut card = AgentCard::new("echo", "echo agent", vec![iface]);
    card.capabilities.streaming = Some(true);
    let app = axum::Router::new().merge(a2a_router(ServerState::from_executor(Echo, card)));
    // The crate's documentation serves with plain axum::serve, which leaves
    // Nagle's algorithm on; BENCH_NODELAY turns it off.
    let nodelay = std::env::var_os("BENCH_NODELAY").is_some();
    let l = tokio::net::TcpListener::bind(&addr).await.unwrap();
    let l = axum::serve::ListenerExt::tap_io(l, move |s: &mut tokio::net::TcpStream| {
        let _ = s.set_nodelay(nodelay);
    });
    axum::serve(l, app).await.unwrap();
}
