//! A send that is repeated is the same send, whatever became of the first one.

use crate::desk::Desk;
use sabir_proto::{Sent, TaskState, Terms};
use sabir_store::memory::MemoryLog;
use sabir_testkit::fickle::FickleLog;
use std::sync::Arc;
use std::time::Duration;

/// A caller that leaves while its message is being looked at has not sent it: the next copy is the first.
#[test]
fn a_caller_that_leaves_early_does_not_lock_itself_out() {
    let explicit = Terms { idempotency_key: Some("k".into()), ..Terms::default() };
    for (terms, follow_up) in [(Terms::default(), true), (explicit.clone(), true), (explicit, false)] {
        let log = Arc::new(FickleLog::new(Arc::new(MemoryLog::new())));
        let mut desk = Desk::on(log.clone());
        let asks = desk.send("asks", "ask 1", None);
        let request = desk.request("do 1", follow_up.then_some(&asks));
        let send = || {
            let (engine, resident, scope) = (desk.engine.clone(), desk.agent("asks"), desk.scope("asks"));
            let (request, terms) = (request.clone(), terms.clone());
            async move { engine.send(&resident, scope, request, &terms).await }
        };
        log.hold_reads(true);
        let waiting = send();
        let job = desk.executor.spawn(9, Box::pin(async move { drop(waiting.await) }));
        desk.run(desk.executor.sleep(Duration::from_millis(1)));
        assert_eq!(desk.executor.alive(9), 1, "it waits for the log");
        desk.executor.abort(job);
        log.hold_reads(false);
        let Ok(Sent::Task(task, _)) = desk.run(send()) else { panic!("the second copy is refused") };
        let expected = if follow_up { TaskState::Completed } else { TaskState::InputRequired };
        assert_eq!(task.state, expected);
    }
}
