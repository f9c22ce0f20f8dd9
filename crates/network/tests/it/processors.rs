//! How payment processors interpret the responses of services.

use sabir_engine::BoxFuture;
use sabir_gateway::{ServiceRequest, ServiceResponse};
use sabir_network::ServiceTransport;
use sabir_network::payment::{Charge, Crypto, PaymentProcessor, PaymentRequest, ProcessorError, Stripe, X402};
use sabir_proto::{Json, Object, Secret, Stamp, TaskId};
use sabir_testkit::wait::wait;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use url::Url;

/// Returns scripted responses in order, and records the requests.
#[derive(Clone, Default)]
struct ScriptedTransport(Arc<Mutex<ScriptState>>);

/// The responses still to be given, the next one last, and the requests.
type ScriptState = (Vec<(u16, Value)>, Vec<ServiceRequest>);

impl ScriptedTransport {
    fn of(answers: &[(u16, Value)]) -> Self {
        Self(Arc::new(Mutex::new((answers.iter().rev().cloned().collect(), Vec::new()))))
    }

    fn asked(&self) -> Vec<String> {
        let asked = &self.0.lock().unwrap().1;
        asked.iter().map(|e| format!("{} {}", e.url.path(), e.post.as_ref().map_or("", |(_, body)| body))).collect()
    }
}

impl ServiceTransport for ScriptedTransport {
    fn send(&self, errand: ServiceRequest) -> BoxFuture<'_, Result<ServiceResponse, String>> {
        let mut inner = self.0.lock().unwrap();
        inner.1.push(errand);
        let said = inner.0.pop().ok_or_else(|| "nobody answers".to_owned());
        Box::pin(std::future::ready(said.map(|(status, body)| ServiceResponse {
            status,
            retry_after: None,
            body: body.to_string().into(),
        })))
    }
}

fn charge(token: &Value) -> Charge {
    let payload = json!({"amount": {"amount": 2500, "currency": "USD"}, "token": token});
    let offer = PaymentRequest::read(&Object::new(Json::of(&payload).unwrap()).unwrap()).unwrap();
    let id = TaskId::new(Stamp::from_u64(1 << 40), 7);
    Charge { id, amount: offer.amount, currency: offer.currency, token: offer.token }
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn stripe(script: &ScriptedTransport) -> Stripe {
    Stripe::new(url("https://stripe.example/"), Secret::new("sk_test"), Arc::new(script.clone()))
}

fn intent(status: &str) -> Value {
    json!({"id": "pi_1", "status": status, "amount": 2500, "currency": "usd", "latest_charge": "ch_1"})
}

fn is_declined<T>(answer: Result<T, ProcessorError>) -> bool {
    matches!(answer, Err(ProcessorError::Declined(..)))
}

fn is_unknown<T>(answer: Result<T, ProcessorError>) -> bool {
    matches!(answer, Err(ProcessorError::Unknown(_)))
}

#[test]
fn stripe_promises_what_it_can_capture() {
    let card = charge(&json!({"type": "stripe", "payment_method": "pm_1"}));
    let promise = |answers: &[(u16, Value)], charge: &Charge| {
        let script = ScriptedTransport::of(answers);
        (wait(stripe(&script).authorize(charge)), script)
    };
    let (promised, script) = promise(&[(200, intent("requires_capture"))], &card);
    assert_eq!(promised.unwrap().reference, "pi_1");
    let asked = script.asked();
    for part in ["/v1/payment_intents ", "amount=2500", "currency=usd", "payment_method=pm_1", "capture_method=manual"]
    {
        assert!(asked[0].contains(part), "{asked:?}");
    }
    let header = |name: &str| {
        let inner = script.0.lock().unwrap();
        let found = inner.1[0].headers.iter().find(|(n, _)| *n == name).map(|(_, value)| value.expose().to_owned());
        found.unwrap_or_default()
    };
    assert_eq!(header("idempotency-key"), format!("pay-{}", card.id));
    assert_eq!(header("authorization"), "Bearer sk_test");
    let declined = json!({"error": {"message": "Your card was declined.", "decline_code": "generic_decline"}});
    let (refused, _) = promise(&[(402, declined)], &card);
    assert!(matches!(refused, Err(ProcessorError::Declined(words, Some(_))) if words == "Your card was declined."));
    assert!(is_declined(promise(&[(200, intent("requires_action"))], &card).0));
    assert!(is_declined(promise(&[(400, json!({"error": {}}))], &card).0));
    for unknown in
        [(500, json!({})), (429, json!({})), (409, json!({})), (200, json!("what?")), (200, intent("processing"))]
    {
        assert!(is_unknown(promise(std::slice::from_ref(&unknown), &card).0), "{unknown:?}");
    }
    assert!(is_unknown(promise(&[], &card).0), "no answer");
    let made = charge(&json!({"type": "stripe", "payment_intent": "pi_1"}));
    let (promised, script) = promise(&[(200, intent("requires_capture"))], &made);
    assert_eq!(
        (promised.unwrap().reference.as_str(), script.asked()),
        ("pi_1", vec!["/v1/payment_intents/pi_1 ".to_owned()])
    );
    let other = json!({"id": "pi_1", "status": "requires_capture", "amount": 1, "currency": "usd"});
    assert!(is_declined(promise(&[(200, other)], &made).0), "another amount");
    let sly = charge(&json!({"type": "stripe", "payment_intent": "../customers"}));
    let (refused, script) = promise(&[], &sly);
    assert!(is_declined(refused) && script.asked().is_empty());
    assert_eq!(
        (stripe(&script).single_use_key(&card), stripe(&script).single_use_key(&made)),
        (None, Some("stripe:pi_1".into()))
    );
}

#[test]
fn stripe_captures_once_and_forgets_what_was_promised() {
    let card = charge(&json!({"type": "stripe", "payment_method": "pm_1"}));
    let capture = |answers: &[(u16, Value)]| wait(stripe(&ScriptedTransport::of(answers)).capture(&card, "pi_1"));
    assert_eq!(capture(&[(200, intent("succeeded"))]).unwrap()["charge"], "ch_1");
    let odd = json!({"error": {"code": "payment_intent_unexpected_state"}});
    assert!(capture(&[(400, odd.clone()), (200, intent("succeeded"))]).is_ok(), "it was captured before");
    assert!(is_declined(capture(&[(400, odd.clone()), (200, intent("canceled"))])));
    assert!(is_unknown(capture(&[(400, odd.clone())])));
    assert!(is_unknown(capture(&[(500, json!({}))])));
    let void = |answers: &[(u16, Value)], reference| {
        let script = ScriptedTransport::of(answers);
        (wait(stripe(&script).void(&card, reference)), script.asked().len())
    };
    assert_eq!(void(&[(200, intent("canceled"))], Some("pi_1")), (Ok(()), 1));
    assert_eq!(void(&[(400, odd.clone()), (200, intent("canceled"))], Some("pi_1")), (Ok(()), 2));
    assert!(is_unknown(void(&[(400, odd), (200, intent("requires_capture"))], Some("pi_1")).0));
    // Where it is unknown whether there is an authorisation, requesting it again shows it.
    assert_eq!(void(&[(200, intent("requires_capture")), (200, intent("canceled"))], None), (Ok(()), 2));
    assert_eq!(void(&[(402, json!({"error": {}}))], None), (Ok(()), 1));
    assert!(is_unknown(void(&[(500, json!({}))], None).0));
}

fn x402(script: &ScriptedTransport) -> X402 {
    X402 {
        url: url("https://facilitator.example/"),
        token: None,
        network: "eip155:8453".into(),
        asset: "0xA55e7".into(),
        pay_to: "0xUs".into(),
        currency: "USD".into(),
        more_digits: 4,
        extra: Map::new(),
        transport: Arc::new(script.clone()),
    }
}

fn x402_token(amount: &str, to: &str) -> Value {
    let accepted =
        json!({"scheme": "exact", "network": "eip155:8453", "amount": amount, "asset": "0xa55e7", "payTo": "0xus"});
    let authorization = json!({"from": "0xMe", "to": to, "value": amount, "nonce": "0xAB"});
    let payload =
        json!({"x402Version": 2, "accepted": accepted, "payload": {"signature": "0x", "authorization": authorization}});
    json!({"type": "x402", "payload": payload})
}

#[test]
fn x402_is_compared_with_our_own_terms_and_settled_last() {
    let good = charge(&x402_token("25000000", "0xUS"));
    let script = ScriptedTransport::of(&[
        (200, json!({"isValid": true})),
        (200, json!({"success": true, "transaction": "0x1"})),
    ]);
    let processor = x402(&script);
    assert_eq!(wait(processor.authorize(&good)).unwrap().reference, "0xAB");
    assert_eq!(wait(processor.capture(&good, "0xAB")).unwrap()["transaction"], "0x1");
    let asked = script.asked();
    assert!(asked[0].starts_with("/verify ") && asked[1].starts_with("/settle "), "{asked:?}");
    assert!(asked[0].contains(r#""payTo":"0xUs""#), "our own terms: {asked:?}");
    assert_eq!(processor.single_use_key(&good), Some("x402:eip155:8453:0xme:0xab".into()));
    for bad in
        [x402_token("25000001", "0xUS"), x402_token("25000000", "0xThief"), json!({"type": "x402", "payload": {}})]
    {
        let script = ScriptedTransport::default();
        match wait(x402(&script).authorize(&charge(&bad))) {
            Err(ProcessorError::Declined(_, Some(details))) => assert_eq!(details["accepts"][0]["amount"], "25000000"),
            other => panic!("{other:?}"),
        }
        assert!(script.asked().is_empty(), "the facilitator is not bothered");
    }
    let settle = |answer: (u16, Value)| wait(x402(&ScriptedTransport::of(&[answer])).capture(&good, "0xAB"));
    assert!(is_declined(settle((200, json!({"success": false, "errorReason": "insufficient_funds"})))));
    assert!(is_unknown(settle((200, json!({"success": false, "errorReason": "nonce_already_used"})))));
    assert!(is_unknown(settle((503, json!({})))));
    assert!(is_declined(wait(x402(&ScriptedTransport::of(&[(200, json!({"isValid": false}))])).authorize(&good))));
}

#[test]
fn a_transfer_on_a_chain_is_looked_up() {
    let hash = format!("0x{}", "Ab".repeat(32));
    let token =
        |hash: &str| json!({"type": "crypto", "network": "eip155:8453", "asset": "0xA55E7", "transaction": hash});
    let pay_to = format!("0x{}", "1".repeat(40));
    let transfer = |to: &str, amount: u64| {
        let topics = json!([
            "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
            format!("0x{:0>64}", "2"),
            format!("0x{:0>64}", to.trim_start_matches("0x")),
        ]);
        json!({"address": "0xa55e7", "topics": topics, "data": format!("0x{amount:064x}")})
    };
    let receipt = |logs: Vec<Value>| json!({"result": {"status": "0x1", "blockNumber": "0x64", "logs": logs}});
    let head = |block: &str| json!({"result": block});
    let look = |hash: &str, answers: &[Value]| {
        let answers: Vec<_> = answers.iter().map(|answer| (200, answer.clone())).collect();
        let crypto = Crypto {
            url: url("https://chain.example/"),
            network: "eip155:8453".into(),
            asset: "0xa55e7".into(),
            pay_to: pay_to.clone(),
            currency: "USD".into(),
            more_digits: 4,
            confirmations: 3,
            transport: Arc::new(ScriptedTransport::of(&answers)),
        };
        let charge = charge(&token(hash));
        (wait(crypto.authorize(&charge)), crypto.single_use_key(&charge))
    };
    let paid = receipt(vec![transfer("0x9", 99_000_000), transfer(&pay_to, 25_000_000)]);
    let (promised, once) = look(&hash, &[paid.clone(), head("0x66")]);
    assert_eq!(promised.unwrap().reference, hash.to_lowercase());
    assert_eq!(once, Some(format!("crypto:eip155:8453:{}", hash.to_lowercase())));
    assert!(is_declined(look(&hash, &[paid.clone(), head("0x65")]).0), "too recent");
    assert!(is_declined(look(&hash, &[receipt(vec![transfer(&pay_to, 24_999_999)])]).0), "too little");
    assert!(is_declined(look(&hash, &[receipt(vec![transfer("0x9", 25_000_000)])]).0), "to somebody else");
    assert!(is_declined(look(&hash, &[json!({"result": null})]).0), "not there");
    assert!(is_declined(look(&hash, &[json!({"result": {"status": "0x0"}})]).0), "it failed");
    assert!(is_declined(look("0x12", &[]).0), "no hash");
    assert!(is_unknown(look(&hash, &[json!({"error": {"code": -32000}})]).0));
    assert!(is_unknown(look(&hash, &[]).0));
    assert!(is_unknown(look(&hash, &[paid, json!({"result": 7})]).0));
}
