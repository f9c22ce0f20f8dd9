//! Runs the simulator: no acknowledged event is lost, and the checks notice planted faults.

use sabir_testkit::sim::{Options, Sabotage, Store, run};
use std::ops::Range;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The seeds of a normal test run; `SABIR_SIM_SEEDS` sets more.
const SEEDS: u64 = 200;
/// The seeds that run on a file.
const ON_FILE: u64 = 100;
/// A seed takes a fraction of a second. One that takes this long loops within a single poll, which the simulator cannot
/// interrupt.
const SEED_TIME_MAX: Duration = Duration::from_secs(120);

fn seeds() -> u64 {
    std::env::var("SABIR_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// Prints the seed that hangs and ends the process, since the test cannot end by itself.
fn watchdog() -> Sender<u64> {
    let (begin, begun) = channel();
    std::thread::spawn(move || {
        let mut seed = 0;
        loop {
            match begun.recv_timeout(SEED_TIME_MAX) {
                Ok(next) => seed = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("seed {seed} hangs");
                    std::process::abort();
                }
            }
        }
    });
    begin
}

fn check(seeds: Range<u64>, store: Store) {
    let (watchdog, began, count) = (watchdog(), Instant::now(), seeds.clone().count());
    for seed in seeds {
        watchdog.send(seed).unwrap();
        if let Err(violation) = run(seed, Options { store, sabotage: None }) {
            panic!("{violation}");
        }
    }
    println!("{count} seeds on {store:?} in {:?}", began.elapsed());
}

#[test]
fn no_schedule_breaks_a_promise_on_the_model() {
    check(ON_FILE..seeds().max(ON_FILE), Store::Model);
}

#[test]
fn no_schedule_breaks_a_promise_on_file() {
    check(0..ON_FILE.min(seeds()), Store::Sqlite);
}

#[test]
fn one_seed_is_one_course_of_events() {
    for seed in 0..20 {
        for store in [Store::Model, Store::Sqlite] {
            let digest = || run(seed, Options { store, sabotage: None }).unwrap();
            assert_eq!(digest(), digest(), "seed {seed} on {store:?}");
        }
    }
}

/// Asserts that within a normal test run some seed finds this promise broken.
#[track_caller]
fn check_noticed(sabotage: Sabotage, promise: &str) {
    let watchdog = watchdog();
    let options = Options { store: Store::Model, sabotage: Some(sabotage) };
    let violation = (0..SEEDS).find_map(|seed| {
        watchdog.send(seed).unwrap();
        run(seed, options).err().filter(|violation| violation.promise == promise)
    });
    let message = violation.expect("somebody notices").to_string();
    assert!(message.starts_with("seed "), "{message}");
    println!("{sabotage:?}: {message}");
}

#[test]
fn an_acknowledgement_before_the_commit_is_noticed() {
    check_noticed(Sabotage::AcknowledgeEarly, "every_acknowledged_event_is_replayed_once_and_in_order");
}

#[test]
fn a_lost_event_is_noticed() {
    check_noticed(Sabotage::LoseLastEvent, "every_acknowledged_event_is_replayed_once_and_in_order");
}

#[test]
fn a_second_owner_is_noticed() {
    check_noticed(Sabotage::TwoOwners, "one_owner_per_task");
}

#[test]
fn a_name_that_is_taken_away_is_noticed() {
    check_noticed(Sabotage::MoveNames, "a_name_has_one_unfinished_task");
}

#[test]
fn a_forgotten_retry_key_is_noticed() {
    check_noticed(Sabotage::ForgetKeys, "a_retried_send_makes_one_task");
}

#[test]
fn a_child_that_is_opened_twice_is_noticed() {
    check_noticed(Sabotage::ForgetParents, "one_child_per_key");
}

#[test]
fn a_child_that_outlives_its_parent_is_noticed() {
    check_noticed(Sabotage::HideOrphans, "a_task_that_is_given_up_leaves_no_child_behind");
}

#[test]
fn a_booking_that_nobody_counts_is_noticed() {
    check_noticed(Sabotage::CountNothing, "what_is_booked_is_counted_once_and_has_room");
}

#[test]
fn an_event_that_nobody_is_owed_is_noticed() {
    check_noticed(Sabotage::OweNothing, "every_event_is_delivered_in_order_or_given_up");
}

#[test]
fn a_failure_that_counts_as_a_delivery_is_noticed() {
    check_noticed(Sabotage::CountFailures, "every_event_is_delivered_in_order_or_given_up");
}

#[test]
fn an_event_before_its_time_is_noticed() {
    check_noticed(Sabotage::SkipAhead, "every_event_is_delivered_in_order_or_given_up");
}
