//! Nothing acknowledged is lost, whatever happens; and the simulator would notice if it were.

use sabir_testkit::sim::{Options, Sabotage, Store, Violation, run};

/// Seeds of a plain test run; `SABIR_SIM_SEEDS` asks for more.
const SEEDS: u64 = 200;
/// How many of them run on a file.
const ON_FILE: u64 = 100;

fn seeds() -> u64 {
    std::env::var("SABIR_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

fn check(seeds: std::ops::Range<u64>, store: Store) {
    let began = std::time::Instant::now();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        if let Err(violation) = run(seed, Options { store, sabotage: None }) {
            panic!("{violation}");
        }
    }
    println!("{count} seeds in {:?} on {store:?}", began.elapsed());
}

#[test]
fn no_schedule_breaks_a_promise_in_memory() {
    check(ON_FILE..seeds(), Store::Memory);
}

#[test]
fn no_schedule_breaks_a_promise_on_file() {
    check(0..ON_FILE.min(seeds()), Store::Sqlite);
}

#[test]
fn one_seed_is_one_course_of_events() {
    for seed in 0..10 {
        let digest = |store| run(seed, Options { store, sabotage: None }).unwrap();
        assert_eq!(digest(Store::Memory), digest(Store::Memory), "seed {seed}");
    }
}

/// The first seed that notices.
fn noticed(sabotage: Sabotage) -> Violation {
    let options = Options { store: Store::Memory, sabotage: Some(sabotage) };
    let violation = (0..SEEDS).find_map(|seed| run(seed, options).err()).expect("within 200 seeds somebody notices");
    println!("{sabotage:?}: {violation}");
    violation
}

#[test]
fn an_acknowledgement_before_the_commit_is_noticed() {
    noticed(Sabotage::AcknowledgeEarly);
}

#[test]
fn a_lost_event_is_noticed() {
    noticed(Sabotage::LoseLastEvent);
}

#[test]
fn a_second_owner_is_noticed() {
    assert_eq!(noticed(Sabotage::TwoOwners).promise, "one_owner_per_task");
}

#[test]
fn a_forgotten_retry_key_is_noticed() {
    noticed(Sabotage::ForgetKeys);
}
