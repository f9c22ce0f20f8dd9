//! The catalog of agents, for programs and for people.

use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::test_server::TestServer;
use serde_json::Value;

const AGENTS: &str = r#"
[auth]
accept = ["api_key"]

[[agent]]
name = "demo"
kind = "echo"
default = true

[[agent]]
name = "books"
kind = "echo"
[agent.card]
name = "<script>alert(1)</script>"
description = "Keeps \"the books\" & more"
input_modes = ["application/pdf"]
[[agent.card.skills]]
id = "reconcile"
name = "Reconcile"
description = "Reconciles a month"
tags = ["money"]
examples = ["Reconcile March"]
[[agent.card.skills]]
id = "secret-audit"
name = "Audit"
description = "Not for everybody"
tags = ["hidden"]
public = false

[[agent]]
name = "law"
kind = "echo"
[agent.card]
description = "Reads contracts"
[[agent.card.skills]]
id = "review"
name = "Review"
description = "Reviews a contract"
tags = ["law"]
"#;

fn names(sabir: &TestServer, query: &str) -> Vec<String> {
    let reply = sabir.ask(&Request::get(&format!("/catalog{query}")));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let said: Value = reply.json();
    said["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn agents_are_found_by_skill_tag_mode_and_words_in_pages() {
    let sabir = TestServer::start(AGENTS);
    assert_eq!(names(&sabir, ""), ["books", "demo", "law"]);
    assert_eq!(names(&sabir, "?skill=reconcile"), ["books"]);
    assert_eq!(names(&sabir, "?tag=LAW"), ["law"]);
    assert_eq!(names(&sabir, "?q=march%20reconciles"), ["books"]);
    assert_eq!(names(&sabir, "?mode=application/pdf&tag=money"), ["books"]);
    assert_eq!(names(&sabir, "?limit=2"), ["books", "demo"]);
    assert_eq!(names(&sabir, "?limit=2&pageToken=demo"), ["law"]);
    let all = sabir.ask(&Request::get("/catalog?limit=1")).json();
    assert_eq!((&all["total"], &all["nextPageToken"]), (&3.into(), &"books".into()));
    assert_eq!(all["agents"][0]["health"]["state"], "up");
    for wrong in ["?limit=0", "?tags=x"] {
        assert_eq!(sabir.ask(&Request::get(&format!("/catalog{wrong}"))).status, 400, "{wrong}");
    }
    // Skills and agents that are not public are not in the catalog.
    let whole = sabir.ask(&Request::get("/catalog")).text();
    assert!(!whole.contains("secret-audit") && !whole.contains("hidden"), "{whole}");
    assert!(names(&sabir, "?tag=hidden").is_empty() && names(&sabir, "?skill=secret-audit").is_empty());
}

#[test]
fn people_get_a_page_in_which_nobodys_words_are_markup() {
    let sabir = TestServer::start(AGENTS);
    let browser = Request::get("/catalog?q=books").with("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let reply = sabir.ask(&browser);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(reply.header("content-security-policy").unwrap().contains("default-src 'none'"));
    let page = reply.text();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script"), "{page}");
    assert!(page.contains("Keeps &quot;the books&quot; &amp; more"), "{page}");
    let reflected = Request::get("/catalog?q=%22%3E%3Cscript%3E").with("accept", "text/html");
    assert!(!sabir.ask(&reflected).text().contains("<script"));
}

#[test]
fn the_ai_catalog_leads_to_cards() {
    let sabir = TestServer::start(&AGENTS.replace("accept = [\"api_key\"]", "accept = []"));
    let reply = sabir.ask(&Request::get("/.well-known/ai-catalog.json"));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/ai-catalog+json")));
    let said = reply.json();
    assert_eq!((&said["specVersion"], said["entries"].as_array().unwrap().len()), (&"1.0".into(), 3));
    let books = &said["entries"][0];
    assert_eq!(books["mediaType"], "application/a2a-agent-card+json");
    assert!(books["url"].as_str().unwrap().ends_with("/agents/books/.well-known/agent-card.json"));
    // A client of ours finds an agent by it.
    let reference = format!("{}/.well-known/ai-catalog.json#{}", url(&sabir), books["identifier"].as_str().unwrap());
    let ran = CommandDirectory::new().run(&["send", "-a", &reference, "hello"]);
    assert!(ran.expect_success().contains("hello"), "{ran:#?}");
}

fn url(sabir: &TestServer) -> String {
    format!("http://{}", sabir.address)
}
