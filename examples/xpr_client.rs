//! An agent of the XPR network: its card, a message about a job, its task, a cancellation:
//! `cargo run -p sabir --example xpr_client -- URL ACCOUNT JOB`.

use sabir::client::{Client, Egress, Error, VersionPolicy, text_message};
use sabir::proto::{CancelTask, FaultCode, Object, Tenant, WireReply};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, account, job] = words.as_slice() else { return Err("usage: xpr_client URL ACCOUNT JOB".into()) };
    let client = Client::builder().egress(Egress::anywhere()).version(VersionPolicy::Any).build()?;

    // Discover what it can do, and who it is on the chain.
    let found = client.card(&url.parse()?).await?;
    println!("skills: {}", found.card.skills.len());
    if let Some(identity) = &found.xpr {
        println!("identity: {identity:?}");
    }
    let agent = client.agent(found)?;

    // A message about an escrow job. The account is a claim; an agent that wants proof asks for a signature.
    let mut request = text_message("Analyze this data");
    let members = json!({"xpr:callerAccount": account, "xpr:jobId": job.parse::<u64>()?});
    request.message.metadata = members.as_object().map(Object::from_map).transpose()?;
    let WireReply::SentTask(task) = agent.send(request).await?.value else { return Err("a task was expected".into()) };
    println!("state: {}, artifacts: {}", task.status.state, task.artifacts.len());

    // How it stands, and away with it.
    let updated = agent.task(&task.id).await?.value;
    println!("state: {}", updated.status.state);
    match agent.cancel(CancelTask { tenant: Tenant::none(), id: task.id, metadata: None }).await {
        Ok(canceled) => println!("state: {}", canceled.value.status.state),
        Err(Error::Fault { fault, .. }) if fault.code() == FaultCode::TaskNotCancelable => {
            println!("done before: {fault}")
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
