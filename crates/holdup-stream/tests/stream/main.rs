//! `stream` on this machine: what is sent is what is received and dropped, on every network.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests, without libtest")]

mod common;
mod failures;
mod profiles;

use common::{absent, holds, metric, need_root, run};
use holdup_model::Value;

fn every_byte_is_accounted_for_in_every_mode() {
    for protocol in ["tcp", "udp", "unix"] {
        for mode in ["write", "read", "both"] {
            for (sharing, workers) in [("threads", 4i64), ("threads", 1), ("processes", 2)] {
                let what = format!("{protocol} {mode} {workers} {sharing}");
                let changes: [(&str, Value); 5] = [
                    ("connections", 4.into()),
                    ("protocol", protocol.into()),
                    ("mode", mode.into()),
                    ("sharing", sharing.into()),
                    ("workers", workers.into()),
                ];
                let result = run(&changes, 60).unwrap_or_else(|e| panic!("{what}: {}: {}", e.what, e.why));
                holds(&result, &what);
                assert_eq!(metric(&result, "connections_held"), if mode == "both" { 8.0 } else { 4.0 }, "{what}");
                if protocol != "udp" {
                    assert_eq!(metric(&result, "bytes_dropped"), 0.0, "{what}");
                }
            }
        }
    }
}

fn the_window_has_rates_times_and_costs_of_what_was_delivered() {
    let changes: [(&str, Value); 2] = [("connections", 2.into()), ("size", 65_536.into())];
    let result = run(&changes, 300).expect("runs");
    holds(&result, "tcp");
    let rate = metric(&result, "throughput_gbit_per_s");
    assert!(rate > 0.0 && metric(&result, "sent_gbit_per_s") > 0.0);
    // Bytes of the window are transfers of the window, but for those that lie across its edges.
    let of_transfers = metric(&result, "transfers_per_s") * 65_536.0 * 8.0 / 1e9;
    let cut = 4.0 * 65_536.0 * 8.0 / 0.3 / 1e9;
    assert!((rate - of_transfers).abs() <= cut, "{rate} and {of_transfers} Gbit/s");
    assert!(metric(&result, "transfer_p50_us") <= metric(&result, "transfer_p99_us"));
    assert!(metric(&result, "client_cpu_s_per_gb") > 0.0);
    assert!(metric(&result, "server_cpu_s_per_gb") > 0.0);
    let fairness = metric(&result, "fairness_min_max");
    assert!((0.0..=1.0).contains(&fairness), "{fairness}");
    assert!(metric(&result, "retransmissions") >= 0.0);
    let latency = &result.histograms[0];
    assert_eq!(latency.name, "latency");
    assert!(latency.histogram.count() > 0);
}

fn a_rate_is_kept_by_workers_with_one_connection_and_with_several() {
    for workers in [4i64, 1] {
        for protocol in ["tcp", "udp"] {
            let changes: [(&str, Value); 5] = [
                ("connections", 4.into()),
                ("workers", workers.into()),
                ("protocol", protocol.into()),
                ("size", 100.into()),
                ("rate", 200.into()),
            ];
            let result = run(&changes, 500).expect("runs");
            holds(&result, protocol);
            // Moments that are over are made up for, so that the mean is the rate on a busy machine as well.
            let rate = metric(&result, "transfers_per_s");
            assert!((400.0..1600.0).contains(&rate), "{rate} transfers per s of 4 x 200");
        }
    }
}

fn the_smallest_and_the_largest_sizes_work() {
    let small = run(&[("size", 1.into())], 50).expect("runs");
    holds(&small, "1 byte");
    let why = absent(&small, "transfer_p50_us");
    assert!(why.contains("no room for the moment"), "{why}");
    for (mode, workers) in [("write", 1i64), ("both", 1)] {
        let changes: [(&str, Value); 3] =
            [("size", (1i64 << 30).into()), ("mode", mode.into()), ("workers", workers.into())];
        holds(&run(&changes, 50).expect("runs"), "1 GB");
    }
    let datagram: [(&str, Value); 2] = [("size", 65_507.into()), ("protocol", "udp".into())];
    holds(&run(&datagram, 50).expect("runs"), "the largest datagram");
}

fn data_goes_through_networks_of_its_own() {
    need_root();
    for network in ["loopback", "veth", "bridge"] {
        for (protocol, sharing) in [("tcp", "threads"), ("udp", "processes")] {
            let what = format!("{protocol} through {network}");
            let changes: [(&str, Value); 5] = [
                ("connections", 3.into()),
                ("network", network.into()),
                ("protocol", protocol.into()),
                ("sharing", sharing.into()),
                ("mtu", 1400.into()),
            ];
            // A trial that is void is repeated, as a run does: on a starved machine a datagram may wait in a backlog for
            // longer than the end of a trial does.
            let mut result = run(&changes, 60);
            for _ in 0..2 {
                result = result.or_else(|_| run(&changes, 60));
            }
            holds(&result.unwrap_or_else(|e| panic!("{what}: {}: {}", e.what, e.why)), &what);
        }
    }
}

fn sockets_have_the_options_that_were_asked_for() {
    let changes: [(&str, Value); 5] = [
        ("no_delay", true.into()),
        ("send_buffer", 16_384.into()),
        ("receive_buffer", 16_384.into()),
        ("size", 100.into()),
        ("placement", "same-cpu".into()),
    ];
    let result = run(&changes, 50).expect("runs");
    holds(&result, "small buffers");
    assert!(result.notes.iter().any(|note| note.contains("both sides ran on CPU")), "{:?}", result.notes);
}

holdup_testkit::tests!(
    every_byte_is_accounted_for_in_every_mode,
    the_window_has_rates_times_and_costs_of_what_was_delivered,
    a_rate_is_kept_by_workers_with_one_connection_and_with_several,
    the_smallest_and_the_largest_sizes_work,
    data_goes_through_networks_of_its_own,
    sockets_have_the_options_that_were_asked_for,
    failures::a_peer_that_dies_makes_the_trial_void,
    failures::too_low_a_limit_on_files_is_named,
    failures::without_root_a_network_is_refused,
    failures::ten_thousand_connections_are_held_by_one_process_in_200_mb,
    failures::nothing_outlives_a_process_that_is_killed,
    profiles::all_shipped_profiles_run,
    profiles::shipped_profiles_run_through_a_network,
    profiles::every_flowop_moves_what_it_says,
    profiles::files_are_sent_whole_and_in_pieces,
    profiles::either_end_calls_and_every_protocol_speaks,
    profiles::connections_that_are_opened_over_and_over_lose_nothing,
    profiles::a_rate_is_a_rate_of_turns,
    profiles::what_may_fail_is_counted_and_what_may_not_makes_the_pass_void,
    profiles::what_cannot_be_read_is_said_before_anything_runs;
    by_hand: failures::kills_a_server_worker,
    failures::takes_more_files_than_allowed,
    failures::without_root,
    failures::holds_ten_thousand,
    failures::runs_until_it_is_killed
);
holdup_testkit::main!();
