//! Kernels and guests through the command line, as far as no guest has to boot; `script/guests` boots some.

mod common;

use common::Place;

#[track_caller]
fn refused(place: &Place, code: i32, args: &[&str], says: &[&str]) {
    let (_, err) = place.expect(code, args);
    for word in says {
        assert!(err.contains(word), "`{word}` is missing in:\n{err}");
    }
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn an_empty_cache_says_how_to_fill_it() {
    let place = Place::new();
    let (out, _) = place.expect(0, &["kernels", "list"]);
    assert!(out.contains("holdup kernels fetch"), "{out}");
    let (out, _) = place.expect(0, &["kernels", "list", "--json"]);
    assert!(out.contains("\"holdup.kernels/1\"") && out.contains("\"kernels\": []"), "{out}");
    refused(&place, 3, &["kernels", "which", "debian:7.0"], &["debian:7.0", "hint: holdup kernels fetch debian:7.0"]);
    refused(&place, 2, &["kernels", "rm", "debian:7.0"], &["debian:7.0", "hint:"]);
}

#[test]
fn offline_fetches_and_builds_nothing() {
    let place = Place::new();
    refused(&place, 3, &["kernels", "fetch", "debian:7.0", "--offline"], &["debian:7.0", "hint:"]);
    refused(&place, 3, &["kernels", "build", "debian:7.2,RSEQ_SLICE_EXTENSION=y", "--offline"], &["7.2", "hint:"]);
}

#[test]
fn what_is_no_kernel_is_refused_and_not_kept() {
    let place = Place::new();
    place.write("text", "no kernel, and long enough to be looked at".repeat(100).as_str());
    place.write("cut.deb", "!<arch>\ndebian-binary   1700000000  0     0     100644  4         `\n2.");
    place.write("cut.rpm", "\u{fffd}not an rpm");
    for (spec, word) in
        [("file:text", "text"), ("deb:cut.deb", "cut.deb"), ("rpm:cut.rpm", "cut.rpm"), ("file:gone", "gone")]
    {
        let output = place.output(&["kernels", "fetch", spec]);
        let (_, err) = common::texts(&output);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{spec}: {err}");
        assert!(err.contains(word) && !err.contains("panicked"), "{spec}: {err}");
    }
    refused(&place, 2, &["kernels", "fetch", "fedora:42"], &["fedora:42", "hint: forms:"]);
    refused(&place, 2, &["kernels", "build", "debian:7.2,=y"], &["debian:7.2,=y"]);
    let (out, _) = place.expect(0, &["kernels", "list"]);
    assert!(out.contains("no kernel"), "{out}");
}

#[test]
fn a_plan_for_guests_needs_a_kernel_and_a_target_that_boots() {
    let place = Place::new();
    refused(&place, 2, &["run", "lock-contention", "--target", "qemu", "--dry-run"], &["kernel", "hint:"]);
    refused(&place, 2, &["run", "lock-contention", "--set", "kernel=debian:7.0", "--dry-run"], &["kernel", "qemu"]);
    refused(&place, 2, &["run", "lock-contention", "--parallel", "2"], &["--parallel", "boots no guests"]);
    refused(&place, 2, &["run", "pgbench", "--pg-deb", "17", "--dry-run"], &["postgres-server", "qemu"]);
}
