//! The way to the host: its name, its port, its certificate.

use super::Examination;
use super::checks::DoctorCheck::{Dns, Tcp, TlsExpired, TlsHandshake, TlsName, TlsTrust};
use sabir_client::Handshake;
use sabir_client::egress::ResolveError;
use std::net::SocketAddr;
use std::time::Duration;
use url::Url;

/// A certificate that expires within this time gets a warning.
const RENEW_DAYS: i64 = 14;
const DAY: i64 = 86_400;

/// Checks whether the host can be reached. `None`: it cannot, and the report says so.
pub(super) async fn check(exam: &mut Examination<'_>, url: &Url) -> Option<()> {
    if exam.probe.is_proxied(url) {
        for check in [Dns, Tcp, TlsHandshake, TlsTrust, TlsName, TlsExpired] {
            exam.report.skip(check, "requests go through a proxy, which does this for us");
        }
        return Some(());
    }
    exam.report.set_step("looking the name up");
    let begun = tokio::time::Instant::now();
    let host = url.host_str().unwrap_or_default();
    let addresses = match exam.probe.addresses(url).await {
        Ok(addresses) => addresses,
        Err(ResolveError::Unknown { .. }) => {
            exam.report.report_fault(Dns, format!("{host} does not resolve"));
            exam.report.skip_remaining("the name does not resolve");
            return None;
        }
        Err(ResolveError::Refused(refusal)) => {
            exam.report.ok(Dns, refusal.address.to_string());
            exam.report.report_fault_with_fix(Tcp, refusal.to_string(), "call the agent at another address");
            exam.report.skip_remaining("the address may not be called");
            return None;
        }
    };
    let mut shown: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
    shown.dedup();
    exam.report.ok(Dns, format!("{}, {}", shown.join(" "), millis_text(begun.elapsed())));
    exam.report.set_step("connecting");
    match exam.probe.connect(&addresses).await {
        Ok((address, elapsed)) => exam.report.ok(Tcp, format!("{address}, {}", millis_text(elapsed))),
        Err(error) => {
            let port = url.port_or_known_default().unwrap_or_default();
            exam.report.report_fault(Tcp, format!("port {port} of {host}: {}", error_text(&error)));
            exam.report.skip_remaining("nothing accepts the connection");
            return None;
        }
    }
    check_tls(exam, url, &addresses).await
}

async fn check_tls(exam: &mut Examination<'_>, url: &Url, addresses: &[SocketAddr]) -> Option<()> {
    if url.scheme() != "https" {
        for check in [TlsHandshake, TlsTrust, TlsName, TlsExpired] {
            exam.report.skip(check, "plain http");
        }
        return Some(());
    }
    exam.report.set_step("shaking hands");
    let shown = match exam.probe.handshake(url, addresses).await {
        Ok(shown) => shown,
        Err(why) => {
            exam.report.report_fault(TlsHandshake, why);
            exam.report.skip_remaining("there is no TLS connection");
            return None;
        }
    };
    let Handshake { version, elapsed, trust, name, expires_in, begins_in } = shown;
    exam.report.ok(TlsHandshake, format!("{version}, {}", millis_text(elapsed)));
    let well = trust.is_ok() && name.is_ok();
    exam.report.report_result(TlsTrust, "signed by a trusted authority", trust.err());
    let host = url.host_str().unwrap_or_default();
    exam.report.report_result(TlsName, format!("for {host}"), name.err().map(|why| format!("not for {host}: {why}")));
    let dated = match (expires_in, begins_in) {
        (Some(seconds), _) if seconds <= 0 => Err(format!("ran out {} ago", days_text(-seconds))),
        (_, Some(seconds)) => Err(format!("holds only in {}", days_text(seconds))),
        (Some(seconds), None) if seconds < RENEW_DAYS * DAY => {
            Ok(format!("expires in {}; renew it soon", days_text(seconds)))
        }
        (Some(seconds), None) => Ok(format!("expires in {}", days_text(seconds))),
        (None, None) => Ok("dates accepted".into()),
    };
    let in_time = dated.is_ok();
    match dated {
        Ok(detail) => exam.report.ok(TlsExpired, detail),
        Err(detail) => exam.report.report_fault(TlsExpired, detail),
    }
    if well && in_time || exam.session.settings.insecure.is_on() {
        return Some(());
    }
    exam.report.skip_remaining("the certificate cannot be accepted");
    None
}

pub(super) fn millis_text(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

fn days_text(seconds: i64) -> String {
    match seconds / DAY {
        0 => "less than a day".into(),
        1 => "1 day".into(),
        days => format!("{days} days"),
    }
}

fn error_text(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
        std::io::ErrorKind::TimedOut => "no answer to the connection attempt".into(),
        _ => error.to_string(),
    }
}
