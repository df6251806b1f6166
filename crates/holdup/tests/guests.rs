//! Kernels and guests through the command line, as far as no guest has to boot; `script/guests` boots some.

use crate::common;
use common::{Sandbox, refused};

fn an_empty_cache_says_how_to_fill_it() {
    let place = Sandbox::new();
    let (out, _) = place.expect(0, &["kernels", "list"]);
    assert!(out.contains("holdup kernels fetch"), "{out}");
    let (out, _) = place.expect(0, &["kernels", "list", "--json"]);
    assert!(out.contains("\"holdup.kernels/1\"") && out.contains("\"kernels\": []"), "{out}");
    refused(&place, 3, &["kernels", "which", "debian:7.0"], &["debian:7.0", "hint: holdup kernels fetch debian:7.0"]);
    refused(&place, 2, &["kernels", "rm", "debian:7.0"], &["debian:7.0", "hint:"]);
}

fn offline_fetches_and_builds_nothing() {
    let place = Sandbox::new();
    refused(&place, 3, &["kernels", "fetch", "debian:7.0", "--offline"], &["debian:7.0", "hint:"]);
    refused(&place, 3, &["kernels", "list", "--available", "--offline"], &["hint:"]);
    refused(&place, 3, &["kernels", "build", "debian:7.2,RSEQ_SLICE_EXTENSION=y", "--offline"], &["7.2", "hint:"]);
}

fn what_is_no_kernel_is_refused_and_not_kept() {
    let place = Sandbox::new();
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

fn a_plan_for_guests_needs_a_kernel_and_a_target_that_boots() {
    let place = Sandbox::new();
    refused(&place, 2, &["run", "lock-contention", "--target", "qemu", "--dry-run"], &["kernel", "hint:"]);
    refused(&place, 2, &["run", "lock-contention", "--set", "kernel=debian:7.0", "--dry-run"], &["kernel", "qemu"]);
    refused(&place, 2, &["run", "lock-contention", "--parallel", "2"], &["--parallel", "boots no guests"]);
    refused(&place, 2, &["run", "pgbench", "--pg-deb", "17", "--dry-run"], &["postgres-server", "qemu"]);
}

fn a_dry_run_fetches_and_boots_nothing() {
    let place = Sandbox::new();
    let dry = ["run", "lock-contention", "--target", "qemu", "--set", "kernel=debian:7.0", "--dry-run"];
    let output = place.output(&dry);
    let (out, err) = common::texts(&output);
    assert!(out.contains("1 boot"), "{out}");
    match output.status.code() {
        Some(0) => assert!(err.contains("kernel debian:7.0 is not cached"), "{err}"),
        code => assert!(code == Some(3) && err.contains("qemu-system"), "{err}"),
    }
    let (out, _) = place.expect(0, &["kernels", "list"]);
    assert!(out.contains("no kernel"), "{out}");
}

fn kernels_fetched_before_a_failure_are_printed() {
    let place = Sandbox::new();
    let mut image = vec![0; 2720];
    image[0x1f1] = 4;
    image[0x1f4] = 10;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x020f_u16.to_le_bytes());
    image[0x20e..0x210].copy_from_slice(&0x300_u16.to_le_bytes());
    image[0x236] = 1;
    let version = b"7.0.1-a (b@h) #1 SMP\0";
    image[0x500..0x500 + version.len()].copy_from_slice(version);
    std::fs::write(place.path("image"), image).unwrap();
    for arch in ["amd64", "x86_64"] {
        let output = place.output(&["kernels", "--arch", arch, "fetch", "file:image", "file:gone"]);
        let (out, err) = common::texts(&output);
        assert!(out.contains("7.0.1-a") && err.contains("gone"), "{out}{err}");
        assert_ne!(output.status.code(), Some(0));
    }
    for arch in ["arm64", "aarch64"] {
        let (_, err) = place.expect(3, &["kernels", "--arch", arch, "fetch", "file:image"]);
        assert!(err.contains("it is for x86_64, and the machine is to be aarch64"), "{err}");
    }
    let (_, err) = place.expect(2, &["kernels", "--arch", "riscv64", "list"]);
    assert!(err.contains("amd64, arm64"), "{err}");
    let output = place.output(&["kernels", "fetch", "file:gone", "file:image"]);
    assert!(common::texts(&output).0.is_empty());
}

fn what_the_cache_keeps_beside_kernels_is_listed_and_removed() {
    let place = Sandbox::new();
    for (path, text) in [
        ("cache/build/linux-source-7.2/objects/x", "x"),
        ("cache/packages/sid/a_1_amd64.deb", "deb"),
        ("cache/images/k.cpio", "image"),
        ("cache/templates/template-k/PG_VERSION", "17"),
        ("cache/kernels/half/vmlinuz", ""),
    ] {
        std::fs::create_dir_all(place.path(path).parent().unwrap()).unwrap();
        place.write(path, text);
    }
    let (out, _) = place.expect(0, &["kernels", "list"]);
    for line in ["build-folders ", "packages ", "images ", "templates ", "linux-source-7.2", "damaged: "] {
        assert!(out.contains(line), "`{line}` is missing in:\n{out}");
    }
    let (out, _) = place.expect(0, &["kernels", "list", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["packages"], serde_json::json!({"count": 1, "size_bytes": 3}));
    assert_eq!(document["build_folders"][0]["name"], "linux-source-7.2");
    assert_eq!(document["postgres"], serde_json::json!([]));
    // Nothing is removed where one of the words is none.
    refused(&place, 2, &["kernels", "rm", "images", "every-thing"], &["every-thing"]);
    assert!(place.path("cache/images/k.cpio").exists());
    refused(&place, 2, &["kernels", "rm", "postgres:17"], &["17", "hint:"]);
    let (_, err) = place.expect(0, &["kernels", "rm", "build-folders", "packages", "images", "templates"]);
    assert!(err.contains("removed build folder linux-source-7.2") && err.contains("removed 1 images"), "{err}");
    refused(&place, 2, &["kernels", "rm", "debian:7.0"], &["is damaged and was removed", "hint:"]);
    let (out, _) = place.expect(0, &["kernels", "list"]);
    assert!(out.starts_with("no kernel") && out.lines().count() == 1, "{out}");
}

holdup_testkit::tests!(
    an_empty_cache_says_how_to_fill_it,
    offline_fetches_and_builds_nothing,
    what_is_no_kernel_is_refused_and_not_kept,
    a_plan_for_guests_needs_a_kernel_and_a_target_that_boots,
    a_dry_run_fetches_and_boots_nothing,
    kernels_fetched_before_a_failure_are_printed,
    what_the_cache_keeps_beside_kernels_is_listed_and_removed
);
