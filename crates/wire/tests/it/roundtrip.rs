//! Decoding what was encoded gives the same value, over real protobuf bytes and over real paths.

use crate::{any, cases, target};
use proptest::prelude::*;
use proptest::test_runner::Config;
use sabir_proto::{
    Call, Event, Fault, FrozenEvent, FrozenTask, PushPage, SendReply, Seq, Task, TaskPage, TaskState, View, WireEvent,
    WireReply, WireTask,
};
use sabir_wire::AnswerKind;
use sabir_wire::v1::grpc::request::Request;
use sabir_wire::v1::grpc::{reply, request};
use sabir_wire::v1::http::{self, RouteMatch};

/// The value that the other side decodes.
fn sent_over<M: prost::Message + Default>(message: &M) -> M {
    M::decode(&*message.encode_to_vec()).unwrap()
}

fn read(request: Request) -> Result<Call, Fault> {
    match request {
        Request::Send(r) => request::send(sent_over(&r)),
        Request::Stream(r) => request::stream(sent_over(&r)),
        Request::Get(r) => request::get_task(sent_over(&r)),
        Request::List(r) => request::list_tasks(sent_over(&r)),
        Request::Cancel(r) => request::cancel_task(sent_over(&r)),
        Request::Subscribe(r) => request::subscribe(sent_over(&r)),
        Request::CreatePush(r) => request::create_push(sent_over(&r)),
        Request::GetPush(r) => request::get_push(sent_over(&r)),
        Request::ListPush(r) => request::list_push(sent_over(&r)),
        Request::DeletePush(r) => request::delete_push(sent_over(&r)),
        Request::ExtendedCard(r) => request::extended_card(sent_over(&r)),
    }
}

/// An event as clients see it.
fn shown(event: &Event) -> WireEvent {
    FrozenEvent::freeze(Seq(1), event).to_wire().unwrap()
}

/// A task as clients see it, without what a view leaves out.
fn cut(task: &Task, view: View) -> WireTask {
    let mut task = FrozenTask::freeze(task).to_wire(View::WHOLE).unwrap();
    if let Some(keep) = view.history {
        let excess = task.history.len().saturating_sub(keep as usize);
        task.history.drain(..excess);
    }
    if !view.artifacts {
        task.artifacts.clear();
    }
    task
}

fn view() -> impl Strategy<Value = View> {
    (proptest::option::of(0_u32..4), any::<bool>()).prop_map(|(history, artifacts)| View { history, artifacts })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn calls(call in any::call()) {
        prop_assert_eq!(read(call.clone().into()), Ok(call));
    }

    #[test]
    fn calls_over_http(call in any::call()) {
        let request = http::write_call(&call);
        let ((path, query), body) = (target(&request), request.body.as_deref().unwrap_or_default());
        let RouteMatch::Operation(route, tenant) = http::route(&request.method, path) else {
            return Err(TestCaseError::fail(request.path));
        };
        prop_assert_eq!(http::read_call(route, tenant, query, body), Ok(call.clone()));
        prop_assert_eq!(request.answer_kind, AnswerKind::of_call(&call));
    }

    #[test]
    fn tasks_as_viewed(task in any::task(0), view in view()) {
        let written = reply::task(&FrozenTask::freeze(&task), view).unwrap();
        prop_assert_eq!(reply::read_task(sent_over(&written)), Ok(cut(&task, view)));
    }

    #[test]
    fn events(event in any::event(0)) {
        let written = reply::event(shown(&event));
        prop_assert_eq!(reply::read_event(sent_over(&written)), Ok(shown(&event)));
    }

    #[test]
    fn direct_messages(message in any::message(0)) {
        let streamed = reply::event(WireEvent::Message(message.clone()));
        prop_assert_eq!(reply::read_event(sent_over(&streamed)), Ok(Event::Message(message.clone())));

        let sent = reply::sent(SendReply::Message(Box::new(message.clone()))).unwrap();
        let WireReply::SentMessage(back) = reply::read_sent(sent_over(&sent)).unwrap() else { panic!("a message") };
        prop_assert_eq!(*back, message);
    }

    #[test]
    fn replies_to_send_with_a_task(task in any::task(0), view in view()) {
        let sent = reply::sent(SendReply::Task(FrozenTask::freeze(&task), view)).unwrap();
        let WireReply::SentTask(back) = reply::read_sent(sent_over(&sent)).unwrap() else { panic!("a task") };
        prop_assert_eq!(*back, cut(&task, view));
    }

    #[test]
    fn push_configurations(task in any::task_id(), config in any::push(), token in any::text(0)) {
        let written = reply::push(task, config.clone());
        prop_assert_eq!(reply::read_push(sent_over(&written)), Ok((task.into(), config.clone())));

        let page = PushPage { configs: vec![config.clone(), config], next_page_token: token };
        let back = reply::read_pushes(sent_over(&reply::pushes(task, page.clone()))).unwrap();
        prop_assert_eq!((back.configs, back.next_page_token), (page.configs, page.next_page_token));
    }

    #[test]
    fn cards(card in any::card(0)) {
        prop_assert_eq!(reply::read_card(sent_over(&reply::card(&card))), Ok(card));
    }
}

proptest! {
    // A page has up to three tasks, and single tasks run through a thousand cases above.
    #![proptest_config(Config { cases: 200, ..cases() })]

    #[test]
    fn pages(tasks in proptest::collection::vec(any::task(0), 0..4), view in view(), token in any::text(0)) {
        let frozen = tasks.iter().map(FrozenTask::freeze).collect();
        let page = TaskPage { tasks: frozen, view, next_page_token: token.clone(), page_size: 50, total_size: u64::MAX };
        let back = reply::read_page(sent_over(&reply::page(&page).unwrap())).unwrap();
        let tasks = tasks.iter().map(|t| cut(t, view)).collect();
        let expected = WireReply::Tasks { tasks, next_page_token: token, page_size: 50, total_size: 2_147_483_647 };
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn a_transferred_task_shows_as_completed(mut task in any::task(0)) {
        task.status.state = TaskState::Transferred;
        let written = reply::task(&FrozenTask::freeze(&task), View::WHOLE).unwrap();
        let event = reply::event(shown(&Event::Task(task.clone())));
        task.status.state = TaskState::Completed;
        prop_assert_eq!(reply::read_task(written), Ok(cut(&task, View::WHOLE)));
        prop_assert_eq!(reply::read_event(event), Ok(shown(&Event::Task(task))));
    }
}
