//! The flight recorder.

use crate::common::{Sandbox, is_root, signal, texts, wait_for};
use crate::exporter::http::ask;
use crate::exporter::server::{Exporter, Server};
use holdup_testkit::ignore;
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

fn flights(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn whole(folder: &Path) -> Vec<String> {
    flights(folder).into_iter().filter(|name| name.ends_with(".holdup")).collect()
}

/// What `explain` says of a bundle, with a cause or without.
fn explained(place: &Sandbox, path: &str) -> String {
    let (out, err) = texts(&place.output(&["explain", path, "--details"]));
    assert!(err.is_empty(), "{err}");
    out
}

pub(crate) fn a_trigger_a_signal_and_a_webhook_write_bundles_that_name_the_moment() {
    let (place, server) = (Sandbox::new(), Server::start());
    let folder = place.path("flights");
    // Six sessions update one row.
    let condition = "share(heavyweight-lock) > 20% for 2s";
    let more = ["--flights", "flights", "--after", "2s", "--every", "1s", "--before", "20s", "--trigger", condition];
    let exporter = Exporter::start(&place, &server.url(), &more);
    wait_for("windows before", || exporter.sum("holdup_watched_seconds_total", &[]) >= 4.0);
    assert_eq!(whole(&folder), Vec::<String>::new(), "nothing has asked for one");
    let load = server.load("30");
    wait_for("a flight", || whole(&folder).len() == 1);
    drop(load);
    let first = whole(&folder).remove(0);
    let path = folder.join(&first).display().to_string();
    let out = explained(&place, &path);
    assert!(out.contains(condition), "the explanation names what asked for it: {out}");
    let (trials, _) = place.expect(0, &["list", "trials", &path, "--json"]);
    let trials: serde_json::Value = serde_json::from_str(&trials).unwrap();
    let n = trials["members"].as_array().unwrap().len();
    // 4 before the load, 2 until it holds, 2 after it.
    assert!(n >= 7, "{n} windows");
    place.expect(0, &["verify", &path]);
    // The signal and the webhook.
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(&exporter.child, Signal::USR1);
    wait_for("the flight of the signal", || whole(&folder).len() == 2);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let body = r#"{"commonLabels":{"alertname":"HoldupRowLocks"}}"#;
    let length = body.len();
    let request = format!(
        "POST /-/flight HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    assert_eq!(ask(exporter.address, &request).0, 202);
    wait_for("the flight of the webhook", || whole(&folder).len() == 3);
    let last = folder.join(whole(&folder).pop().unwrap()).display().to_string();
    let out = explained(&place, &last);
    assert!(out.contains("webhook: alert HoldupRowLocks"), "{out}");
    // Asked for and ended before it is over: what there is is written.
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(&exporter.child, Signal::USR1);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let said = exporter.said();
    assert!(said.iter().any(|line| line.contains("flight recorder: wrote")), "{said:?}");
    exporter.end();
    assert_eq!(whole(&folder).len(), 4, "{:?}", flights(&folder));
    server.cluster.discard().unwrap();
}

pub(crate) fn a_full_disk_and_the_room_that_is_given_are_survived() {
    if !is_root() {
        ignore("a file system of one megabyte takes root");
    }
    let (place, server) = (Sandbox::new(), Server::start());
    let folder = place.path("small");
    std::fs::create_dir(&folder).unwrap();
    let mount = |word: &str| {
        let at = folder.display().to_string();
        let args =
            if word == "mount" { vec!["-t", "tmpfs", "-o", "size=400k", "none", &at] } else { vec![at.as_str()] };
        assert!(Command::new(word).args(args).status().unwrap().success(), "{word}");
    };
    mount("mount");
    let more = ["--flights", "small", "--after", "1s", "--every", "1s", "--keep", "10MB"];
    let exporter = Exporter::start(&place, &server.url(), &more);
    let load = server.load("60");
    let tally = |result: &str| exporter.sum("holdup_flights_total", &[&format!("result=\"{result}\"")]);
    let mut asked = 0;
    wait_for("a disk that is full", || {
        signal(&exporter.child, Signal::USR1);
        asked += 1;
        std::thread::sleep(std::time::Duration::from_millis(500));
        tally("failed") > 0.0
    });
    drop(load);
    let left = flights(&folder);
    assert!(left.iter().all(|name| name.ends_with(".holdup")), "no part is left: {left:?}");
    for name in left {
        place.expect(0, &["verify", &folder.join(name).display().to_string()]);
    }
    let windows = exporter.sum("holdup_windows_total", &[]);
    wait_for("windows after it", || exporter.sum("holdup_windows_total", &[]) > windows);
    exporter.end();
    mount("umount");
    server.cluster.discard().unwrap();
}
