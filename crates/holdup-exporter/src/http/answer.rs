//! What is asked for, and what is answered.

use super::Served;
use holdup_live::Format;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
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

pub(super) async fn answer(request: Request<Incoming>, served: &Served) -> Answer {
    if !is_allowed(&request, served.token.as_deref()) {
        let mut answer = text(StatusCode::UNAUTHORIZED, "a bearer token is needed\n");
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return answer;
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
        ("/-/flight", false) if request.method() == Method::POST => flight(request, served).await,
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
