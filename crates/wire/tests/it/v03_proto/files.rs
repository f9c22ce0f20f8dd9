//! The bytes of a file, which peers encode in two ways. The requests are those that the SDKs sent for the same input: a
//! text, a file that holds `hello?>>>`, a link and data.

use super::{call_value, cases};
use crate::{any, mint};
use proptest::test_runner::TestRunner;
use sabir_proto::{Call, Content, Event, Message, Part, WireEvent, WireReply};
use sabir_wire::Losses;
use sabir_wire::pb::a2a_v03 as pb;
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::grpc::{reply, request};
use sabir_wire::v03::rest::{self, PathOperation};
use serde_json::{Value, json};

/// `a2a-sdk` 0.3.26 over gRPC.
const PYTHON: &str = "0aff020a2466373239663366662d366130342d343430332d386339312d643761373736323637663735122464666365646266652d346130642d343839322d613330332d36343432383531643462346320012a1e0a0c706172747320706c65617365220e0a0c0a046c616e6712041a02656e2a231221120c614756736247382f506a342b1a0a746578742f706c61696e2205612e7478742a2912270a1368747470733a2f2f782e6578616d706c652f621a09696d6167652f706e672205622e706e672a4f1a4d0a4b0a0e0a016e120911000000000000f03f0a170a0464656570120f2a0d0a0b0a05656d70747912022a000a200a046c697374121832160a0911000000000000f03f0a051a0374776f0a02200132530a0e0a016e120911000000000000f03f0a110a0468616c66120911000000000000e03f0a2e0a1968747470733a2f2f6578742e6578616d706c652f747261636512112a0f0a0d0a047370616e12051a03732d303a1968747470733a2f2f6578742e6578616d706c652f747261636512200a0a746578742f706c61696e0a106170706c69636174696f6e2f6a736f6e20011a1d0a1b0a077265717565737412102a0e0a0c0a0674726163656412022001";
/// `@a2a-js/sdk` 0.3.14 over gRPC.
const JAVASCRIPT: &str = "0ade020a2437343261633430352d383035622d346561642d386332322d366163353837663536356166122464323061333038312d383737342d343061632d383337652d34616366393963653437656620012a0e0a0c706172747320706c656173652a191217120968656c6c6f3f3e3e3e1a0a746578742f706c61696e2a2212200a1368747470733a2f2f782e6578616d706c652f621a09696d6167652f706e672a4f1a4d0a4b0a0e0a016e120911000000000000f03f0a200a046c697374121832160a0911000000000000f03f0a051a0374776f0a0220010a170a0464656570120f2a0d0a0b0a05656d70747912022a0032530a2e0a1968747470733a2f2f6578742e6578616d706c652f747261636512112a0f0a0d0a047370616e12051a03732d300a0e0a016e120911000000000000f03f0a110a0468616c66120911000000000000e03f3a1968747470733a2f2f6578742e6578616d706c652f7472616365120220011a1d0a1b0a077265717565737412102a0e0a0c0a0674726163656412022001";
/// `a2a-sdk` 1.3.0 over gRPC, speaking 0.3: a text, and four values that are no objects before one that is.
const ODD_DATA: &str = "0a98020a2437303632306331332d316265662d343266622d616338342d64633961326435303435306320012a060a047461736b2a331a170a150a130a0576616c7565120a1a086120737472696e6722180a160a10646174615f706172745f636f6d706174120220012a321a160a140a120a0576616c7565120911000000000000454022180a160a10646174615f706172745f636f6d706174120220012a2b1a0f0a0d0a0b0a0576616c75651202200122180a160a10646174615f706172745f636f6d706174120220012a3a1a1e0a1c0a1a0a0576616c75651211320f0a041a02616e0a071a05617272617922180a160a10646174615f706172745f636f6d706174120220012a141a120a100a0e0a02616e12081a066f626a65637412200a0a746578742f706c61696e0a106170706c69636174696f6e2f6a736f6e2001";

/// `a2a-sdk` 0.3.26, the same 1.3.0 speaking 0.3, and `@a2a-js/sdk` 0.3.14, over REST.
const BODIES: [(FileEncoding, &str); 3] = [
    (
        FileEncoding::NamedBase64,
        r#"{"message":{"messageId":"4bd1ef73-2d9b-40d3-8b0e-d9b84aa6337d","contextId":"70496030-9eee-475d-9241-082605ac1f53","role":"ROLE_USER","content":[{"text":"parts please","metadata":{"lang":"en"}},{"file":{"fileWithBytes":"YUdWc2JHOC9QajQr","mimeType":"text/plain","name":"a.txt"}},{"file":{"fileWithUri":"https://x.example/b","mimeType":"image/png","name":"b.png"}},{"data":{"data":{"list":[1.0,"two",true],"deep":{"empty":{}},"n":1.0}}}],"metadata":{"https://ext.example/trace":{"span":"s-0"},"half":0.5,"n":1.0},"extensions":["https://ext.example/trace"]},"configuration":{"acceptedOutputModes":["text/plain","application/json"],"blocking":true},"metadata":{"request":{"traced":true}}}"#,
    ),
    (
        FileEncoding::NamedBase64,
        r##"{"request":{"message_id":"89bf162f-da85-4324-97d0-75c23f6c3444","context_id":"3398cabc-bff6-4e62-9ef0-f8cf55072317","role":"ROLE_USER","content":[{"text":"parts please","metadata":{"lang":"en"}},{"file":{"file_with_bytes":"YUdWc2JHOC9QajQr","mime_type":"text/plain","name":"a.txt"}},{"file":{"file_with_uri":"https://x.example/b","mime_type":"image/png","name":"b.png"}},{"data":{"data":{"list":[1.0,"two",true],"deep":{"empty":{}},"n":1.0}}},{"text":"# named"}],"metadata":{"half":0.5,"https://ext.example/trace":{"span":"s-0"},"n":1.0},"extensions":["https://ext.example/trace"]},"configuration":{"accepted_output_modes":["text/plain","application/json"],"blocking":true},"metadata":{"request":{"traced":true}}}"##,
    ),
    (
        FileEncoding::Bytes,
        r#"{"message":{"messageId":"3935353f-42a1-4b00-a1c1-a1687d82982d","contextId":"34566c1c-ba55-4754-8c3d-449c2cfc8c7d","role":"ROLE_USER","content":[{"text":"parts please"},{"file":{"fileWithBytes":"aGVsbG8/Pj4+","mimeType":"text/plain"}},{"file":{"fileWithUri":"https://x.example/b","mimeType":"image/png"}},{"data":{"data":{"n":1,"list":[1,"two",true],"deep":{"empty":{}}}}}],"metadata":{"https://ext.example/trace":{"span":"s-0"},"n":1,"half":0.5},"extensions":["https://ext.example/trace"]},"configuration":{"blocking":true},"metadata":{"request":{"traced":true}}}"#,
    ),
];

fn decoded(hex: &str) -> pb::SendMessageRequest {
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    prost::Message::decode(&*bytes).unwrap()
}

fn message(call: Call) -> Box<Message> {
    match call {
        Call::Send(send) => Box::new(send.message),
        _ => panic!("a send"),
    }
}

/// The parts of a call, as 1.0 has them.
#[track_caller]
fn check(call: &Call, names: [Option<&str>; 2]) {
    let mut parts = call_value(call)["message"]["parts"].clone();
    let mut file = json!({ "raw": "aGVsbG8/Pj4+", "mediaType": "text/plain" });
    let mut link = json!({ "url": "https://x.example/b", "mediaType": "image/png" });
    for (part, name) in [&mut file, &mut link].into_iter().zip(names) {
        if let Some(name) = name {
            part["filename"] = name.into();
        }
    }
    assert_eq!(parts.as_array_mut().unwrap()[1..3], [file, link]);
    let metadata = names[0].map_or(Value::Null, |_| json!({ "lang": "en" }));
    assert_eq!(parts[0]["metadata"], metadata, "who has names has metadata");
}

#[test]
fn a_file_comes_in_and_goes_out_as_its_peer_writes_files_over_grpc() {
    for (form, hex, names) in [
        (FileEncoding::NamedBase64, PYTHON, [Some("a.txt"), Some("b.png")]),
        (FileEncoding::Bytes, JAVASCRIPT, [None; 2]),
    ] {
        let (mut losses, sent) = (Losses::new(), decoded(hex));
        let mut call = request::send(sent.clone(), &mut losses).unwrap();
        form.read_call(&mut call);
        check(&call, names);

        let mut event = WireEvent::Message(*message(call.clone()));
        form.write_event(&mut event);
        let Some(pb::stream_response::Payload::Msg(back)) = reply::event(&event, true, &mut losses).payload else {
            panic!("a message")
        };
        assert_eq!(Some(back), sent.request);
        let mut answer = WireReply::SentMessage(message(call));
        form.write_answer(&mut answer);
        assert_eq!(Event::Message(answered(answer)), event);
        assert!(losses.is_empty());
    }
}

fn answered(answer: WireReply) -> Message {
    match answer {
        WireReply::SentMessage(message) => *message,
        _ => panic!("a message"),
    }
}

#[test]
fn a_file_comes_in_and_goes_out_as_its_peer_writes_files_over_rest() {
    for (form, body) in BODIES {
        let mut losses = Losses::new();
        let call = rest::read_call(PathOperation::Send, "", body.as_bytes(), form, &mut mint, &mut losses).unwrap();
        let names = if form == FileEncoding::NamedBase64 { [Some("a.txt"), Some("b.png")] } else { [None; 2] };
        check(&call, names);

        let (answer, mut out) = (WireReply::SentMessage(message(call)), Vec::new());
        rest::write_answer(&answer, form, &mut losses, &mut out).unwrap();
        let back: Value = serde_json::from_slice(&out).unwrap();
        let written = if form == FileEncoding::NamedBase64 { "YUdWc2JHOC9QajQr" } else { "aGVsbG8/Pj4+" };
        assert!(body.contains(written), "the peer wrote it so");
        assert_eq!(back["message"]["content"][1]["file"]["fileWithBytes"], written);
        assert!(losses.is_empty());
    }
}

/// Bytes that are not text, and their encodings: the SDKs for Go, Java and Python write the base64 text, the one for
/// JavaScript the bytes.
const REAL_BYTES: [u8; 4] = [0, 1, 2, 255];
const TEXT: &str = "AAEC/w==";

/// Clients by their `User-Agent`, and the encoding of each.
const CLIENTS: [(&str, FileEncoding); 7] = [
    ("grpc-go/1.76.0", FileEncoding::Base64),
    ("Go-http-client/1.1", FileEncoding::Base64),
    ("grpc-java-netty/1.75.0", FileEncoding::Base64),
    ("Java-http-client/21.0.8", FileEncoding::Base64),
    ("python-httpx/0.28.1", FileEncoding::NamedBase64),
    ("grpc-node-js/1.14.3", FileEncoding::Bytes),
    ("node", FileEncoding::Bytes),
];

fn raw(call: &Call) -> Content {
    message(call.clone()).parts[0].content.clone()
}

#[test]
fn real_bytes_reach_the_sdks_and_come_from_them_over_grpc() {
    for (user_agent, expected) in CLIENTS {
        let form = FileEncoding::of_client(Some(user_agent));
        assert_eq!(form, expected, "{user_agent}");
        let sent = if form == FileEncoding::Bytes { REAL_BYTES.to_vec() } else { TEXT.as_bytes().to_vec() };
        let file = pb::FilePart {
            file: Some(pb::file_part::File::FileWithBytes(sent.clone())),
            mime_type: "image/png".into(),
            name: String::new(),
        };
        let content = vec![pb::Part { part: Some(pb::part::Part::File(file)), metadata: None }];
        let request = pb::Message { message_id: "m".into(), role: 1, content, ..Default::default() };
        let sent_message = pb::SendMessageRequest { request: Some(request.clone()), ..Default::default() };
        let mut call = request::send(sent_message, &mut Losses::new()).unwrap();
        form.read_call(&mut call);
        assert_eq!(raw(&call), Content::Raw(REAL_BYTES.to_vec()), "{user_agent}");

        let mut event = WireEvent::Message(*message(call));
        form.write_event(&mut event);
        let Some(pb::stream_response::Payload::Msg(back)) = reply::event(&event, true, &mut Losses::new()).payload
        else {
            panic!("a message")
        };
        assert_eq!(back.content, request.content, "{user_agent}");
    }
}

#[test]
fn real_bytes_reach_the_sdks_and_come_from_them_over_rest() {
    // The base64 of the base64 text, and of the bytes.
    let (twice, once) = ("QUFFQy93PT0=", TEXT);
    for (user_agent, form) in CLIENTS {
        let written = if form == FileEncoding::Bytes { once } else { twice };
        let body = format!(
            r#"{{"message":{{"messageId":"m","role":"ROLE_USER","content":[{{"file":{{"fileWithBytes":"{written}","mimeType":"image/png"}}}}]}}}}"#
        );
        let losses = &mut Losses::new();
        let call = rest::read_call(PathOperation::Send, "", body.as_bytes(), form, &mut mint, losses).unwrap();
        assert_eq!(raw(&call), Content::Raw(REAL_BYTES.to_vec()), "{user_agent}");
        let again = rest::write_call(&call, form, losses).unwrap().body.unwrap();
        assert!(String::from_utf8(again).unwrap().contains(&format!(r#""fileWithBytes":"{written}""#)), "{user_agent}");

        let mut out = Vec::new();
        rest::write_event(&WireEvent::Message(*message(call.clone())), true, form, losses, &mut out);
        assert!(String::from_utf8_lossy(&out).contains(&format!(r#""fileWithBytes":"{written}""#)), "{user_agent}");
        let Event::Message(back) = rest::read_event(&out, form, &mut mint, losses).unwrap().event else {
            panic!("a message")
        };
        assert_eq!(back.parts[0].content, Content::Raw(REAL_BYTES.to_vec()));
        let body = rest::read_answer(&call, &out, form, &mut mint, losses).unwrap();
        assert_eq!(answered(body).parts[0].content, Content::Raw(REAL_BYTES.to_vec()));
    }
}

#[test]
fn files_in_the_shape_of_json_rpc_are_base64_once_over_rest_too() {
    let body = format!(
        r#"{{"message":{{"messageId":"m","role":"user","parts":[{{"kind":"file","file":{{"bytes":"{TEXT}"}}}}]}}}}"#
    );
    for form in [FileEncoding::Bytes, FileEncoding::Base64, FileEncoding::NamedBase64] {
        let call =
            rest::read_call(PathOperation::Send, "", body.as_bytes(), form, &mut mint, &mut Losses::new()).unwrap();
        assert_eq!(raw(&call), Content::Raw(REAL_BYTES.to_vec()), "{form:?}");
    }
}

#[test]
fn a_files_name_is_written_over_rest_only_to_peers_that_know_it() {
    for form in [FileEncoding::Bytes, FileEncoding::Base64, FileEncoding::NamedBase64] {
        let mut file = Part::new(Content::Raw(REAL_BYTES.to_vec()));
        file.filename = Some("a.png".into());
        let mut call = request::send(decoded(JAVASCRIPT), &mut Losses::new()).unwrap();
        let Call::Send(send) = &mut call else { panic!("a send") };
        send.message.parts = vec![file];
        let mut losses = Losses::new();
        let body = rest::write_call(&call, form, &mut losses).unwrap().body.unwrap();
        let knows = form == FileEncoding::NamedBase64;
        assert_eq!(String::from_utf8(body).unwrap().contains("a.png"), knows, "{form:?}");
        assert_eq!(losses.is_empty(), knows, "{form:?}: what is left out is noted");
    }
}

#[test]
fn what_is_not_base64_is_left_alone() {
    for (bytes, expected) in [
        (&b"\xff\x00"[..], &b"\xff\x00"[..]),
        (b"hello", b"hello"),
        (b"aGVs bG8=", b"aGVs bG8="),
        (b"", b""),
        (b"aGVsbG8=", b"hello"),
        (b"aGVsbG8", b"hello"),
        (b"__79", b"\xff\xfe\xfd"),
    ] {
        let mut call = request::send(decoded(JAVASCRIPT), &mut Losses::new()).unwrap();
        let Call::Send(send) = &mut call else { panic!("a send") };
        send.message.parts = vec![Part::new(Content::Raw(bytes.to_vec()))];
        FileEncoding::Bytes.read_call(&mut call);
        assert_eq!(raw(&call), Content::Raw(bytes.to_vec()));
        FileEncoding::NamedBase64.read_call(&mut call);
        assert_eq!(raw(&call), Content::Raw(expected.to_vec()));
    }
}

#[test]
fn every_file_that_goes_out_comes_back() {
    let outcome = TestRunner::new(cases()).run(&any::message(0), |message| {
        let mut call = request::send(decoded(JAVASCRIPT), &mut Losses::new()).unwrap();
        let mut event = WireEvent::Message(message.clone());
        FileEncoding::NamedBase64.write_event(&mut event);
        let (Call::Send(send), Event::Message(written)) = (&mut call, event) else { panic!("a send") };
        let is_text = |part: &Part| !matches!(&part.content, Content::Raw(bytes) if str::from_utf8(bytes).is_err());
        assert!(written.parts.iter().all(is_text), "what a reader of UTF-8 would fail on");
        send.message = written;
        FileEncoding::NamedBase64.read_call(&mut call);
        assert_eq!(*self::message(call), message);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn data_that_is_no_object_is_marked_as_the_python_sdk_marks_it() {
    let (mut losses, sent) = (Losses::new(), decoded(ODD_DATA));
    let call = request::send(sent.clone(), &mut losses).unwrap();
    let expected = json!([
        { "text": "task" }, { "data": "a string" }, { "data": 42 }, { "data": true }, { "data": ["an", "array"] },
        { "data": { "an": "object" } },
    ]);
    assert_eq!(call_value(&call)["message"]["parts"], expected);
    let back = reply::sent_message(&message(call), &mut losses).payload;
    assert_eq!(back, sent.request.map(pb::send_message_response::Payload::Msg));
    assert!(losses.is_empty());
}
