//! What is asked for, and what is answered.

use super::{Served, SocketPair};
use holdup_live::Format;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// The body of an alert's webhook, bytes.
const BODY_BYTES: usize = 64 * 1024;
/// For that body to arrive.
const BODY: Duration = Duration::from_secs(5);
/// What is kept of it in a flight's reason, characters.
const REASON: usize = 100;

const FRONT: &str = "<!doctype html><meta charset=utf-8><title>holdup exporter</title>\n\
    <h1>holdup exporter</h1><p><a href=\"/metrics\">Metrics</a></p>\n";

type Answer = Response<Full<Bytes>>;

pub(super) async fn answer(request: Request<Incoming>, served: &Served, ends: SocketPair) -> Answer {
    if !is_allowed(&request, served.token.as_deref()) {
        let mut answer = text(StatusCode::UNAUTHORIZED, "a bearer token is needed\n");
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return answer;
    }
    // Who has shown the token is no page.
    if served.token.is_none() && is_of_page(request.headers(), served.is_local) {
        return text(StatusCode::FORBIDDEN, "ask by address or as localhost, and from no page: or use --token-file\n");
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match (request.uri().path(), is_read) {
        ("/metrics", true) => {
            let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let format = Format::accepted(accept);
            with_type(StatusCode::OK, format.content_type(), served.exposed.render(format))
        }
        ("/", true) => with_type(StatusCode::OK, "text/html; charset=utf-8", Bytes::from_static(FRONT.as_bytes())),
        ("/-/healthy", true) => text(StatusCode::OK, "holdup exporter is healthy\n"),
        ("/-/flight", false) if request.method() == Method::POST => match served.token.is_some() || is_of_us(ends) {
            true => flight(request, served).await,
            false => text(StatusCode::FORBIDDEN, "a flight takes the token of --token-file, or the exporter's user\n"),
        },
        ("/metrics" | "/" | "/-/healthy", _) => allow("GET, HEAD"),
        ("/-/flight", _) => allow("POST"),
        _ => text(StatusCode::NOT_FOUND, "there is /metrics, /-/healthy and /-/flight\n"),
    }
}

/// True if the client has shown the token. The time that it takes says nothing of the token but its length.
fn is_allowed(request: &Request<Incoming>, token: Option<&str>) -> bool {
    let Some(token) = token else { return true };
    let given = request.headers().get(AUTHORIZATION).map_or(&[][..], HeaderValue::as_bytes);
    let Some(given) = given.strip_prefix(b"Bearer ") else { return false };
    given.len() == token.len() && given.iter().zip(token.as_bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// True if a page in a browser may ask: browsers send an Origin with what a page posts and what it asks another site for. A page whose
/// name was made to lead here (DNS rebinding) is its own site, and its name is in Host; where other hosts may ask, that may as well
/// be a name of this host.
fn is_of_page(headers: &HeaderMap, is_local: bool) -> bool {
    let is_foreign = |host: &HeaderValue| {
        let uri = host.to_str().ok().and_then(|host| host.parse::<Uri>().ok());
        !uri.as_ref().and_then(Uri::host).is_some_and(|name| {
            name.eq_ignore_ascii_case("localhost") || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        })
    };
    headers.contains_key(ORIGIN) || is_local && headers.get(HOST).is_some_and(is_foreign)
}

/// True if the client is root here, or the user of this process.
fn is_of_us(ends: SocketPair) -> bool {
    let owner = ends.and_then(|(client, ours)| holdup_host::network::owner_of_tcp(client, ours));
    owner.is_some_and(|uid| uid == 0 || uid == rustix::process::geteuid().as_raw())
}

/// An alert's webhook asks for a flight. Its body is not understood; the name of the alert is kept where one is there.
async fn flight(request: Request<Incoming>, served: &Served) -> Answer {
    let body = timeout(BODY, Limited::new(request.into_body(), BODY_BYTES).collect()).await;
    let Ok(Ok(body)) = body else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 64 KiB, or did not arrive\n");
    };
    let reason = match alert(&body.to_bytes()) {
        Some(name) => format!("webhook: alert {name}"),
        None => "webhook".to_owned(),
    };
    let now = holdup_watch::unix_ns();
    let has_recorder = served.exposed.targets().iter().any(|target| target.state().flights.is_some());
    if !has_recorder {
        return text(StatusCode::CONFLICT, "this exporter has no flight recorder: --flights DIR\n");
    }
    for target in served.exposed.targets() {
        // Lines are said when the bundle is there.
        drop(target.trigger(now, &reason));
    }
    text(StatusCode::ACCEPTED, "asked for\n")
}

/// The name of the first alert in the body of Alertmanager's webhook.
fn alert(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("\"alertname\"")?;
    let name = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let safe = name.chars().take_while(|c| *c != '"').filter(|c| !c.is_control()).take(REASON);
    Some(safe.collect())
}

fn allow(methods: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "this method is not for this path\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    with_type(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn with_type(status: StatusCode, kind: &'static str, bytes: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(bytes));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_alert_is_kept() {
        let body = br#"{"status":"firing","commonLabels":{"alertname" : "HoldupPreempted\u0020x"}}"#;
        assert_eq!(alert(body).as_deref(), Some("HoldupPreempted\\u0020x"));
        assert_eq!(alert(b"{}"), None);
        assert_eq!(alert(b"\xff"), None);
        assert_eq!(alert(format!("\"alertname\":\"{}", "a\n".repeat(500)).as_bytes()).map(|n| n.len()), Some(REASON));
    }
}
