//! The result of a run, as text and as JSON.

use super::histogram::Histogram;
use super::load::Measurement;
use crate::output::Output;
use crate::problem::Stop;
use crate::render::Fields;
use sabir_client::Agent;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The quantiles that are reported.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// The longest bar, in characters.
const BAR_CHARS: u64 = 40;

/// The interface that was measured.
#[derive(Clone, Copy, Serialize)]
struct ReportedInterface<'a> {
    binding: &'a str,
    version: &'a str,
    url: &'a str,
}

pub(super) fn print(out: &Output, agent: &Agent, concurrency: u16, measured: &Measurement) -> Result<(), Stop> {
    let interface = ReportedInterface {
        binding: agent.binding().name(),
        version: &agent.interface().protocol_version,
        url: agent.chosen_interface().url.as_str(),
    };
    if out.is_json() {
        return out.document(&report_json(interface, concurrency, measured).to_string());
    }
    out.payload(&text(interface, concurrency, measured))
}

fn per_second(measured: &Measurement) -> f64 {
    measured.latency.total() as f64 / measured.elapsed.as_secs_f64().max(1e-9)
}

fn report_json(interface: ReportedInterface<'_>, concurrency: u16, measured: &Measurement) -> Value {
    let octaves = measured.latency.octaves();
    let histogram: Vec<Value> = octaves
        .into_iter()
        .map(|(from, to, count)| json!({ "fromMs": millis(from), "toMs": millis(to), "count": count }))
        .collect();
    json!({
        "interface": interface,
        "concurrency": concurrency,
        "seconds": round(measured.elapsed.as_secs_f64()),
        "messages": measured.latency.total(),
        "failed": measured.failed(),
        "unfinished": measured.unfinished,
        "perSecond": round(per_second(measured)),
        "latencyMs": latencies_json(&measured.latency),
        "firstEventMs": latencies_json(&measured.first_event),
        "ends": measured.ends,
        "failures": measured.failures,
        "histogram": histogram,
    })
}

/// Quantiles in milliseconds; null where nothing was counted.
fn latencies_json(histogram: &Histogram) -> Value {
    if histogram.total() == 0 {
        return Value::Null;
    }
    let mut times = json!({ "min": millis(histogram.min()), "mean": millis(histogram.mean()) });
    for (name, share) in QUANTILES {
        times[name] = json!(millis(histogram.quantile(share)));
    }
    times["max"] = json!(millis(histogram.max()));
    times
}

fn text(interface: ReportedInterface<'_>, concurrency: u16, measured: &Measurement) -> String {
    let mut fields = Fields::new();
    fields.field("Interface", &format!("{} {} {}", interface.binding, interface.version, interface.url));
    fields.field("Concurrency", &concurrency.to_string());
    fields.field("Duration", &format_duration(measured.elapsed));
    fields.field("Messages", &measured.latency.total().to_string());
    fields.field("Failed", &measured.failed().to_string());
    fields.field("Unfinished", &measured.unfinished.to_string());
    fields.field("Throughput", &format!("{:.1} per second", per_second(measured)));
    for (label, histogram) in [("Latency", &measured.latency), ("First event", &measured.first_event)] {
        if histogram.total() > 0 {
            let told = QUANTILES.map(|(name, share)| format!("{name} {}", format_duration(histogram.quantile(share))));
            fields.field(label, &format!("{}, max {}", told.join(", "), format_duration(histogram.max())));
        }
    }
    for (end, count) in &measured.ends {
        fields.field("Ended", &format!("{end} {count}"));
    }
    for (code, count) in &measured.failures {
        fields.field("Failure", &format!("{code} {count}"));
    }
    if measured.latency.total() > 0 {
        fields.block("Histogram", &bars(&measured.latency));
    }
    fields.finish()
}

/// One line per octave, none left out between the first and the last.
fn bars(histogram: &Histogram) -> String {
    let octaves = histogram.octaves();
    let most = octaves.iter().map(|(.., count)| *count).max().unwrap_or(1);
    let lines = octaves.into_iter().map(|(from, to, count)| {
        let bar = usize::try_from((count * BAR_CHARS).div_ceil(most)).unwrap_or(0);
        format!("{:>9} to {:>9} {count:>9} {}", format_duration(from), format_duration(to), "#".repeat(bar))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A duration with three significant digits.
fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{} µs", time.as_micros()),
        s if s < 0.01 => format!("{:.2} ms", s * 1e3),
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.2} s"),
        s => format!("{s:.1} s"),
    }
}

fn millis(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3)
}

/// Rounds to a thousandth: more digits would pretend to more than was measured.
fn round(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACE: ReportedInterface<'_> = ReportedInterface { binding: "JSONRPC", version: "1.0", url: "http://a" };
    use std::collections::BTreeMap;

    fn measured() -> Measurement {
        let mut latency = Histogram::new();
        [1, 1, 2, 900].into_iter().for_each(|millis| latency.record(Duration::from_millis(millis)));
        Measurement {
            latency,
            first_event: Histogram::new(),
            ends: BTreeMap::from([("TASK_STATE_COMPLETED", 4)]),
            failures: BTreeMap::from([("TaskNotFoundError", 2)]),
            unfinished: 1,
            elapsed: Duration::from_secs(2),
        }
    }

    #[test]
    fn the_text_is_made_of_labelled_lines() {
        let text = text(INTERFACE, 8, &measured());
        assert!(text.contains("Latency: p50 1.00 ms, p90 900 ms, p99 900 ms, p99.9 900 ms, max 900 ms\n"), "{text}");
        assert!(text.contains("Throughput: 2.0 per second\n") && text.contains("Failure: TaskNotFoundError 2\n"));
        assert!(!text.contains("First event"), "{text}");
        for line in text.lines().take_while(|line| !line.starts_with("Histogram")) {
            let (label, value) = line.split_once(": ").unwrap();
            assert!(label.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ') && !value.is_empty(), "{line}");
        }
    }

    #[test]
    fn the_document_has_numbers() {
        let document = report_json(INTERFACE, 8, &measured());
        assert_eq!(
            (&document["messages"], &document["failed"], &document["unfinished"]),
            (&json!(4), &json!(2), &json!(1))
        );
        assert_eq!(document["latencyMs"]["max"], json!(900.0));
        assert_eq!(document["firstEventMs"], Value::Null);
        let counted: u64 = document["histogram"].as_array().unwrap().iter().map(|o| o["count"].as_u64().unwrap()).sum();
        assert_eq!(counted, 4);
    }
}
