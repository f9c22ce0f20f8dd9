//! Echo agent on the a2a-protocol-server crate (in-memory store, JSON-RPC, SSE).
use std::sync::Arc;
use std::time::Duration;

use a2a_protocol_server::store::TaskStoreConfig;
use a2a_protocol_server::{EventEmitter, JsonRpcDispatcher, RequestHandlerBuilder, agent_executor, serve};
use a2a_protocol_types::{AgentCard, AgentInterface, AgentSkill, Part, TaskState};

struct Echo;

agent_executor!(Echo, |ctx, queue| async {
    let emit = EventEmitter::new(ctx, queue);
    let text = ctx.message.text().unwrap_or_default().to_string();
    if text.starts_with("hold") {
        emit.status(TaskState::Working).await?;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        emit.status(TaskState::Completed).await
    } else if text.starts_with("stream") {
        emit.status(TaskState::Working).await?;
        for i in 0..10 {
            let chunk = vec![Part::text(format!("chunk {i} of {text}"))];
            emit.artifact("echo", chunk, Some(i > 0), Some(i == 9)).await?;
        }
        emit.status(TaskState::Completed).await
    } else {
        emit.artifact("echo", vec![Part::text(text)], Some(false), Some(true)).await?;
        emit.status(TaskState::Completed).await
    }
});

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9002".into());
    let card = AgentCard::new("echo", "1.0.0", AgentInterface::jsonrpc(format!("http://{addr}")))
        .with_description("echo agent")
        .with_streaming(true)
        .with_skill(AgentSkill::new("echo", "Echo", "Echoes text").with_tags(["echo"]));
    let mut b = RequestHandlerBuilder::new(Echo).with_agent_card(card);
    // The crate caps its default store; BENCH_UNCAPPED lifts the cap so that the
    // growth test really keeps every task.
    if std::env::var_os("BENCH_UNCAPPED").is_some() {
        b = b.with_task_store_config(TaskStoreConfig::default().with_max_capacity(None).with_task_ttl(None));
        b = b.with_max_concurrent_streams(100_000);
    }
    serve(addr, JsonRpcDispatcher::new(Arc::new(b.build()?))).await?;
    Ok(())
}
