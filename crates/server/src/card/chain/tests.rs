use super::*;
use crate::card::{CardRules, Cards, WellKnown, build, configured_identity};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt as _;
use sabir_guard::fetch::{FetchFault, FetchMethod, FetchRequest, FetchResponse};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

/// A chain that knows one agent, and may fail or hang.
#[derive(Clone, Default)]
struct TestNode {
    away: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Fetch for TestNode {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchFault> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::Relaxed) {
            return Err(FetchFault::Timeout);
        }
        let FetchMethod::Post { body, .. } = request.method else { panic!("the chain is asked by POST") };
        let asked: Value = serde_json::from_slice(&body).unwrap();
        let row = match asked["table"].as_str().unwrap() {
            "agents" if self.gone.load(Ordering::Relaxed) => json!([]),
            "agents" => json!([{
                "account": "myagent", "owner": "carol", "name": "Chained", "description": "From the chain",
                "endpoint": "https://agent.example/", "protocol": "wss", "capabilities": "[\"compute\",\"compute\",\"\"]",
                "registered_at": 1_704_067_200, "active": 1,
            }]),
            "usersinfo" => json!([{"acc": "carol", "kyc": [{"kyc_level": "a:1,b:2", "kyc_provider": "x"}]}]),
            _ => json!([]),
        };
        let body = json!({"rows": row, "more": false}).to_string();
        Ok(FetchResponse { status: 200, body: Bytes::from(body) })
    }
}

const PLAIN: &str =
    "[[agent]]\nname = \"books\"\nkind = \"echo\"\ndefault = true\n[agent.xpr]\naccount = \"myagent\"\n";
const XPR: &str = "[auth.xpr]\nrpc_url = \"http://127.0.0.1:1\"\n";

fn cards(agent: &str, node: &TestNode) -> Arc<Cards> {
    let config = Config::read(&format!("{XPR}{agent}")).unwrap();
    let entry = &config.agent[0];
    let address =
        PublicAddress { url: "http://127.0.0.1:4000".into(), authority: "127.0.0.1:4000".into(), slash: true };
    let (public, skills) = build(entry, &address);
    let face = CardContent { public, skills, xpr: entry.xpr.as_ref().map(configured_identity), replaced_url: None };
    let chain = Registration::open(&config, entry, &address, node, &ServerTasks::default()).unwrap();
    assert!(chain.is_some());
    Arc::new(Cards::new(face, CardRules::default(), SystemTime::now(), None, chain).unwrap())
}

async fn shown(cards: &Cards, place: WellKnown) -> Value {
    let bytes = cards.respond(place, &HeaderMap::new(), None).into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn what_is_left_open_comes_from_the_chain() {
    let cards = cards(PLAIN, &TestNode::default());
    cards.refresh().await;
    let card = shown(&cards, WellKnown::Agent).await;
    assert_eq!((&card["name"], &card["description"]), (&json!("Chained"), &json!("From the chain")));
    assert_eq!(card["url"], "https://agent.example", "clients put a slash behind it");
    let skill = json!({"id": "compute", "name": "compute", "description": "compute capability", "tags": ["compute"]});
    assert_eq!(card["skills"], json!([skill]));
    assert_eq!((&card["xpr:account"], &card["xpr:protocol"]), (&json!("myagent"), &json!("wss")));
    assert_eq!((&card["xpr:owner"], &card["xpr:registeredAt"]), (&json!("carol"), &json!(1_704_067_200)));
    // Twenty points for KYC and ten for age; the agent has no stake and no feedback.
    assert_eq!((&card["xpr:trustScore"], &card["xpr:kycLevel"]), (&json!(30), &json!(2)));
    // The other forms have the identity too, with our own address.
    let hybrid = shown(&cards, WellKnown::AgentCard).await;
    assert_eq!((&hybrid["name"], &hybrid["url"]), (&json!("Chained"), &json!("http://127.0.0.1:4000/")));
    assert_eq!(cards.public().name, "Chained");
}

#[tokio::test]
async fn what_is_configured_stays() {
    let agent = "[server]\npublic_url = \"https://books.example\"\n[[agent]]\nname = \"books\"\nkind = \"echo\"\n\
        default = true\n[agent.card]\nname = \"Mine\"\ndescription = \"My own\"\n[[agent.card.skills]]\nid = \"s\"\n\
        name = \"S\"\ndescription = \"d\"\ntags = [\"t\"]\n[agent.xpr]\naccount = \"myagent\"\nprotocol = \"https\"\n\
        owner = \"dave\"\nregistered_at = 7\ntrust_score = 76\nkyc_level = 2\n";
    let cards = cards(agent, &TestNode::default());
    let before = shown(&cards, WellKnown::Agent).await;
    cards.refresh().await;
    assert_eq!(shown(&cards, WellKnown::Agent).await, before);
}

#[tokio::test]
async fn a_chain_that_is_away_changes_nothing() {
    let node = TestNode::default();
    node.away.store(true, Ordering::Relaxed);
    let cards = cards(PLAIN, &node);
    cards.refresh().await;
    let card = shown(&cards, WellKnown::Agent).await;
    assert_eq!((&card["name"], &card["xpr:registeredAt"]), (&json!("books"), &json!(0)));
    assert!(card.get("xpr:trustScore").is_none() && card.get("xpr:owner").is_none());
}

#[tokio::test]
async fn a_chain_that_hangs_holds_nobody_up_for_long() {
    let node = TestNode::default();
    node.hangs.store(true, Ordering::Relaxed);
    let cards = cards(PLAIN, &node);
    let begun = std::time::Instant::now();
    cards.refresh().await;
    assert!(begun.elapsed() < FIRST_WAIT_MAX * 3, "{:?}", begun.elapsed());
    assert_eq!(shown(&cards, WellKnown::Agent).await["name"], "books");
    assert_eq!(node.asked.load(Ordering::Relaxed), 1, "one round at a time");
}

#[tokio::test]
async fn the_chain_is_asked_again_after_a_minute_and_nobody_waits_for_it() {
    let node = TestNode::default();
    let cards = cards(PLAIN, &node);
    let (face, chain) = cards.chain.clone().unwrap();
    let round = async |ms: i64| {
        let (cards, face, chain_again) = (cards.clone(), face.clone(), chain.clone());
        let show = move |news: Option<ChainRecord>| cards.update(chain_again.apply(&face, news.as_ref()));
        chain.refresh(Timestamp::from_millis(ms), show).await;
    };
    round(0).await;
    let asked = node.asked.load(Ordering::Relaxed);
    assert_eq!(shown(&cards, WellKnown::Agent).await["name"], "Chained");
    round(59_999).await;
    tokio::task::yield_now().await;
    assert_eq!(node.asked.load(Ordering::Relaxed), asked, "what is not old is not asked for");
    node.gone.store(true, Ordering::Relaxed);
    round(60_000).await;
    assert_eq!(shown(&cards, WellKnown::Agent).await["name"], "Chained", "the last one is shown meanwhile");
    tokio::time::timeout(Duration::from_secs(5), async {
        while shown(&cards, WellKnown::Agent).await["name"] != "books" {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("an agent that is no longer registered is shown as configured");
}
