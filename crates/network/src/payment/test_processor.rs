//! A processor without money: the token decides the result. For tests and trials.

use super::{Authorization, Charge, PaymentProcessor, ProcessorError};
use sabir_engine::BoxFuture;
use serde_json::{Value, json};

/// Does what the token's `outcome` says: `approve`, `decline`, or `decline_capture`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TestProcessor;

impl PaymentProcessor for TestProcessor {
    fn name(&self) -> &'static str {
        "test"
    }

    fn single_use_key(&self, _: &Charge) -> Option<String> {
        None
    }

    fn authorize<'a>(&'a self, charge: &'a Charge) -> BoxFuture<'a, Result<Authorization, ProcessorError>> {
        let promised = match charge.token.text("outcome") {
            Some("approve" | "decline_capture") => Ok(Authorization { reference: format!("test-{}", charge.id) }),
            _ => Err(ProcessorError::declined("the test processor was told to decline")),
        };
        Box::pin(std::future::ready(promised))
    }

    fn capture<'a>(&'a self, charge: &'a Charge, reference: &'a str) -> BoxFuture<'a, Result<Value, ProcessorError>> {
        let captured = match charge.token.text("outcome") {
            Some("approve") => Ok(json!({"processor": "test", "reference": reference})),
            _ => Err(ProcessorError::declined("the test processor was told to decline")),
        };
        Box::pin(std::future::ready(captured))
    }

    fn void<'a>(&'a self, _: &'a Charge, _: Option<&'a str>) -> BoxFuture<'a, Result<(), ProcessorError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
