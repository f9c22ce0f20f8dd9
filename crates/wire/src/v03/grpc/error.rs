//! Faults as gRPC statuses of 0.3.
//!
//! | Client | What it reads |
//! |---|---|
//! | Python 0.3 | nothing: its callers get the status as it is |
//! | Python 1.x, speaking 0.3 | the class of the error, in the text before the first `: ` |
//! | JavaScript 0.3 | the code, together with the method |
//! | JavaScript 1.x, speaking 0.3 | the details, as in 1.0 |
//!
//! We send all of it at once. The servers of the Python SDK write the text in the same way.

use crate::Dialect;
use crate::codes;
use crate::v1::grpc::{read_status_as, status_as};
use sabir_proto::{Fault, FaultCode};

/// The gRPC status of a fault.
pub fn status(fault: &Fault) -> tonic::Status {
    let code = code_in_v03(fault.code());
    status_as(codes::grpc(code, Dialect::V03), &format!("{}: {fault}", codes::name(code)), fault)
}

/// Reads the status of a call that failed. The details decide the code, then the text, then the status code, as the
/// SDKs write them.
pub fn read_status(status: &tonic::Status) -> Fault {
    read_status_as(status, |status| match status {
        // No other error has this status in 0.3.
        tonic::Code::FailedPrecondition => FaultCode::TaskNotCancelable,
        other => codes::by_status(other).1,
    })
}

/// The code that 0.3 has for a fault: it has no numbers past -32007.
pub(in crate::v03) const fn code_in_v03(code: FaultCode) -> FaultCode {
    match code {
        FaultCode::ExtensionSupportRequired | FaultCode::VersionNotSupported => FaultCode::UnsupportedOperation,
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{TaskRef, TaskState};

    #[track_caller]
    fn check(fault: &Fault, code: tonic::Code, text: &str) {
        let status = status(fault);
        assert_eq!((status.code(), status.message()), (code, text));
        let details: crate::pb::google_rpc::Status = prost::Message::decode(status.details()).unwrap();
        assert_eq!((details.code, &*details.message), (code as i32, text));
        assert!(!details.details.is_empty());
    }

    #[test]
    fn the_text_begins_with_the_class_and_the_code_is_that_of_0_3() {
        use tonic::Code::{FailedPrecondition, InvalidArgument, NotFound, Unimplemented};
        let task = || TaskRef::parse("t-1").unwrap();
        let settled = Fault::TaskNotCancelable { id: task(), state: TaskState::Completed };
        check(&Fault::TaskNotFound(task()), NotFound, "TaskNotFoundError: task t-1 not found");
        check(&settled, FailedPrecondition, &format!("TaskNotCancelableError: {settled}"));
        let push = Fault::PushNotificationNotSupported;
        check(&push, Unimplemented, &format!("PushNotificationNotSupportedError: {push}"));
        for fault in [Fault::UnsupportedOperation("x".into()), Fault::VersionNotSupported("x".into())] {
            check(&fault, Unimplemented, &format!("UnsupportedOperationError: {fault}"));
        }
        let wrong = Fault::invalid("name", "is required");
        check(&wrong, InvalidArgument, &format!("InvalidParamsError: {wrong}"));
    }

    #[test]
    fn what_we_write_we_read() {
        for code in FaultCode::ALL {
            let fault = Fault::Peer { code, message: "it: went wrong".into(), task: TaskRef::parse("t").ok() };
            assert_eq!(read_status(&status(&fault)), fault);
        }
        let settled = read_status(&tonic::Status::failed_precondition("Task not cancelable: t"));
        assert_eq!(settled.code(), FaultCode::TaskNotCancelable);
    }

    #[test]
    fn the_reason_stays_that_of_1_0() {
        let status = status(&Fault::VersionNotSupported("x".into()));
        let details: crate::pb::google_rpc::Status = prost::Message::decode(status.details()).unwrap();
        let info: crate::pb::google_rpc::ErrorInfo = prost::Message::decode(&*details.details[0].value).unwrap();
        assert_eq!(info.reason, "VERSION_NOT_SUPPORTED");
    }
}
