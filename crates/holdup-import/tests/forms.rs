//! Other forms of what a tool writes: streams, older versions, profiles. Where each sample came from stands beside its name.

use crate::common;
use common::{import, parse, reasons, text, values};

#[test]
fn a_stream_of_iperf3_is_read() {
    // 3.21 on loopback, `-t 3 -P 2 --json-stream`.
    let one = import("iperf3", "3.21-stream.jsonl");
    assert_eq!(values(&one, "received_bits_per_s"), [37_101_838_625.667_26]);
    let sample = &one.samples[0];
    assert_eq!((sample.labels["streams"].as_str(), sample.length_ns), ("2", Some(3_004_629_000)));
    assert_eq!(sample.begin_unix_ns, Some(1_795_931_928_000_000_000));
    assert_eq!(sample.notes, ["3 intervals, of 33337627146 to 39373811622 bit/s"]);
    assert_eq!(one.facts[1].value.as_deref(), Some("6.18.44-fc-v669"));
    // `-t 1 --json-stream --json-stream-full-output`: the document behind the events says the same again.
    assert_eq!(values(&import("iperf3", "3.21-stream-full.jsonl"), "received_bits_per_s"), [15_703_207_438.076_735]);
    // `-t 2 --bidir`, without the single streams.
    let both = import("iperf3", "3.21-stream-bidir.jsonl");
    assert_eq!(values(&both, "received_bits_per_s"), [17_502_477_600.397_28]);
    assert_eq!(values(&both, "reverse_received_bits_per_s"), [14_323_114_039.882_133]);
    assert_eq!(both.samples[0].labels["direction"], "both");
}

#[test]
fn a_stream_of_an_iperf3_server_has_a_run_for_each_client() {
    // 3.21, `-s --json-stream`, three clients (`-t 2`, `-t 2 -R`, `-u -t 1`), without the single streams. What it prints when it
    // is stopped at last is no run.
    let all = import("iperf3", "3.21-stream-server.jsonl");
    assert_eq!(all.samples.len(), 3);
    assert!(all.samples.iter().all(|sample| sample.void.is_none()));
    assert_eq!(values(&all, "received_bits_per_s"), [22_435_193_866.813_55, 1_047_605.916_920_931_2]);
    assert_eq!(values(&all, "sent_bits_per_s"), [20_486_890_195.028_587]);
    assert!(reasons(&all, "sent_bits_per_s")[0].contains("what its client counted"));
    assert_eq!(values(&all, "other_cpu_share").len(), 2, "0 of the first one is not known");
}

#[test]
fn a_stream_that_was_cut_is_void_or_refused() {
    // 3.21: a client that was interrupted says that nothing arrived; one that found no server.
    let interrupted = import("iperf3", "3.21-stream-interrupted.jsonl");
    assert!(interrupted.samples[0].void.as_deref().is_some_and(|why| why.contains("Interrupt")));
    let refused = import("iperf3", "3.21-stream-refused.jsonl");
    assert!(refused.samples[0].void.as_deref().is_some_and(|why| why.contains("Connection refused")));
    // A client that was killed.
    let whole = text("iperf3", "3.21-stream.jsonl");
    let end = whole.find("{\"event\":\"end\"").unwrap();
    let killed = parse("iperf3", &whole[..end]).unwrap();
    assert!(killed.samples[0].void.as_deref().is_some_and(|why| why.contains("was cut")));
    assert_eq!(killed.samples[0].notes.len(), 1);
    // A line that ends early, and one that is damaged: the byte is that of the file.
    let problem = parse("iperf3", &whole[..end + 100]).unwrap_err().to_string();
    assert!(
        problem.contains(&format!("it, line 5 (byte {})", end + 99)) && problem.contains("ends early"),
        "{problem}"
    );
    let at = whole.find("38550350978.196571").unwrap();
    let problem = parse("iperf3", &whole.replacen("38550350978.196571", "\"3,8\"", 1)).unwrap_err().to_string();
    assert!(problem.contains(&format!("it, line 2 (byte {at})")) && problem.contains("LC_ALL=C"), "{problem}");
}

#[test]
fn sysbench_before_1_0_is_read() {
    // 0.4.12 (ff225a7, 2010), `--test=oltp --num-threads=2 --max-time=2 --percentile=99 --report-interval=1` on PostgreSQL.
    let one = import("sysbench", "0.4-oltp.txt");
    assert_eq!((values(&one, "tps"), values(&one, "requests_per_s")), (vec![927.79], vec![17628.07]));
    assert_eq!((values(&one, "latency_p99_ms"), values(&one, "latency_max_ms")), (vec![12.68], vec![15.67]));
    assert_eq!(values(&one, "deadlocks_per_s"), [0.0]);
    let sample = &one.samples[0];
    assert_eq!((sample.labels["test"].as_str(), sample.labels["mode"].as_str()), ("OLTP test.", "mixed OLTP"));
    assert_eq!((sample.labels["threads"].as_str(), sample.length_ns), ("2", Some(2_009_100_000)));
    assert_eq!(sample.notes, ["2 intervals, of 880.96 to 980.9 events per second"]);
    // 0.4.12, `--test=fileio --file-test-mode=rndrw`.
    let file = import("sysbench", "0.4-fileio.txt");
    assert_eq!((values(&file, "requests_per_s"), values(&file, "mib_per_s")), (vec![7184.22], vec![112.25]));
    assert_eq!(
        (values(&file, "reads_per_s"), values(&file, "fsyncs_per_s")),
        (vec![4320.0 / 1.0022], vec![286.0 / 1.0022])
    );
    assert_eq!((values(&file, "latency_max_ms"), values(&file, "latency_mean_ms")), (vec![0.17], Vec::new()));
    // 0.5 (b23a7db, 2017), `--test=oltp.lua --report-interval=1`: its intervals have more columns.
    let lua = import("sysbench", "0.5-oltp.txt");
    assert_eq!((values(&lua, "tps"), values(&lua, "errors_per_s")), (vec![720.71], vec![1.66]));
    assert_eq!((values(&lua, "latency_p95_ms"), values(&lua, "latency_mean_ms")), (vec![8.18], vec![2.77]));
    assert_eq!(lua.samples[0].notes, ["3 intervals, of 693.01 to 743.97 events per second"]);
}

#[test]
fn what_sysbench_before_1_0_reckons_wrong_is_not_taken() {
    // 0.4.12, `--test=cpu`, `memory` and `mutex` in one file; two events of mutex are fewer than a percentile needs.
    let three = import("sysbench", "0.4-three.txt");
    assert_eq!((three.samples.len(), values(&three, "operations_per_s")), (3, vec![3_626_454.76]));
    assert_eq!(
        (values(&three, "mib_per_s"), three.samples[0].labels["prime_limit"].as_str()),
        (vec![3541.46], "10000")
    );
    assert_eq!(values(&three, "events_per_s"), [3000.0 / 0.9016, 2.0 / 0.0003]);
    assert_eq!(values(&three, "latency_p95_ms"), [4.23]);
    assert!(reasons(&three, "latency_p95_ms")[1].contains("end of its scale"), "10000000.00ms");
    // 0.5, `--report-checkpoints=1`: the second block begins at 0, and both are of one run.
    let parts = import("sysbench", "0.5-checkpoints.txt");
    assert_eq!(
        (parts.samples.len(), values(&parts, "tps"), values(&parts, "latency_p95_ms")),
        (1, vec![150.43], vec![13.05])
    );
    assert!(parts.samples[0].notes[0].starts_with("1 checkpoints"));
    // Before 2007 times are in seconds.
    let seconds = text("sysbench", "0.4-oltp.txt").replace("2.15ms", "0.0022s").replace("12.68ms", "0.0127s");
    let seconds = parse("sysbench", &seconds).unwrap();
    assert_eq!((values(&seconds, "latency_mean_ms"), values(&seconds, "latency_p99_ms")), (vec![2.2], vec![12.7]));
}

#[test]
fn an_output_of_sysbench_before_1_0_that_was_cut_is_void_or_refused() {
    let whole = text("sysbench", "0.4-oltp.txt");
    let cut = parse("sysbench", whole.split("Test execution").next().unwrap()).unwrap();
    assert!(cut.samples[0].void.as_deref().is_some_and(|why| why.contains("after 2 intervals")));
    let at = whole.find("    read/write").unwrap();
    let problem = parse("sysbench", &whole[..at + 45]).unwrap_err().to_string();
    let line = whole[..at].matches('\n').count() + 1;
    assert!(problem.contains(&format!("it, line {line} (byte {at})")) && problem.contains("was cut"), "{problem}");
}

#[test]
fn fio_before_3_0_is_read() {
    // 2.1, `--rw=randrw`, without the members that are not read: it has no number of operations.
    let old = import("fio", "2.1.json");
    assert_eq!((values(&old, "read_iops"), values(&old, "write_iops")), (vec![210_902.0], vec![210_422.0]));
    assert_eq!(values(&old, "read_bytes_per_s"), [843_608.0 * 1024.0]);
    assert!((values(&old, "read_latency_mean_us")[0] - 1.48).abs() < 1e-9);
    assert_eq!(values(&old, "read_completion_p99_us"), [2.0]);
    // 2.21, `--rw=randread --output-format=json+`: `io_bytes` is in bytes, and bins are microseconds.
    let bins = import("fio", "2.21-plus.json");
    assert_eq!(values(&bins, "read_bytes_per_s"), [1_469_771_776.0]);
    assert_eq!(bins.samples[0].histograms[0].histogram.count(), 358_831);
    assert!((values(&bins, "read_completion_p99_us")[0] - 2.0).abs() < 0.05);
    assert!((values(&bins, "read_latency_mean_us")[0] - 2.411631).abs() < 1e-9);
    assert_eq!((bins.samples[0].labels["rw"].as_str(), bins.samples[0].length_ns), ("randread", Some(1_000_000_000)));
    // 2.21, `--rw=randrw --unified_rw_reporting=1`.
    let mixed = import("fio", "2.21-mixed.json");
    assert_eq!((values(&mixed, "mixed_iops"), mixed.metrics[0].id.as_str()), (vec![280_991.008_991], "mixed_iops"));
    // 0 is less than a microsecond.
    let short = text("fio", "2.1.json").replace("\"99.000000\": 2", "\"99.000000\": 0");
    let short = parse("fio", &short).unwrap();
    assert!(reasons(&short, "read_completion_p99_us")[0].contains("less than 1 us"));
}

#[test]
fn a_damaged_file_of_fio_before_3_0_names_its_line() {
    let whole = text("fio", "2.1.json");
    let problem = parse("fio", &whole[..600]).unwrap_err().to_string();
    assert!(problem.contains("(byte ") && problem.contains("ends early"), "{problem}");
    let line = whole[..whole.find("\"read\"").unwrap()].matches('\n').count() + 1;
    let problem = parse("fio", &whole.replacen("\"lat\"", "\"tal\"", 1)).unwrap_err().to_string();
    assert!(problem.contains(&format!("line {line} (byte ")) && problem.contains("lat_ns"), "{problem}");
}

#[test]
fn reports_of_xtprof_are_read() {
    // hdbxtprofile.log of HammerDB 4.12 with PostgreSQL 15, two users, one minute, no ramp-up. Its summary counts each call twice.
    let old = import("hammerdb", "4.12-xtprof.log");
    assert_eq!(values(&old, "new_order_latency_p99_ms"), [8.816]);
    assert_eq!(
        (values(&old, "payment_latency_p50_ms"), values(&old, "stock_level_latency_max_ms")),
        (vec![0.658], vec![38.633])
    );
    assert_eq!(values(&old, "new_order_calls_per_s"), [f64::from(15738 + 15056) / 60.156]);
    let sample = &old.samples[0];
    assert_eq!((sample.labels["users"].as_str(), sample.labels["database"].as_str()), ("2", "PostgreSQL"));
    assert_eq!((sample.length_ns, old.metrics[0].id.as_str()), (Some(60_156_000_000), "new_order_latency_p99_ms"));
    // 6.0, the same: 75th percentiles, and a summary that counts once.
    let new = import("hammerdb", "6.0-xtprof.log");
    assert_eq!(
        (values(&new, "new_order_latency_p99_ms"), values(&new, "new_order_latency_mean_ms")),
        (vec![7.564], vec![1.223])
    );
    assert_eq!(values(&new, "new_order_calls_per_s"), [20978.0 / 61.010]);
    // Reports are appended to one file.
    let both = text("hammerdb", "4.12-xtprof.log") + &text("hammerdb", "6.0-xtprof.log");
    assert_eq!(values(&parse("hammerdb", &both).unwrap(), "new_order_latency_p99_ms"), [8.816, 7.564]);
    assert!(old.cautions.iter().any(|caution| caution.contains("ramp-up")));
}

#[test]
fn the_timing_of_a_hammerdb_job_is_read() {
    // `jobs JOBID timing` of the two runs before.
    let old = import("hammerdb", "4.12-timing.json");
    assert_eq!(
        (values(&old, "new_order_latency_p95_ms"), values(&old, "new_order_calls_per_s")),
        (vec![5.931], Vec::new())
    );
    assert!(reasons(&old, "new_order_calls_per_s")[0].contains("twice"));
    let new = import("hammerdb", "6.0-timing.json");
    assert_eq!(values(&new, "new_order_calls_per_s"), [20978.0 / 61.010]);
    assert_eq!(values(&new, "delivery_latency_mean_ms"), [2.4]);
    // What 4.12 prints of a job without a profile.
    let none = "{\"6B0BC204661603E213735383\": {\n    \"Jobid\": \"has\",\n    \"no\": \"timing\",\n    \"data\": \"\"\n  }}\n";
    let problem = parse("hammerdb", none).unwrap_err();
    assert!(problem.to_string().contains("it, line 1 (byte 29)") && problem.hint.unwrap().contains("xtprof"));
}

#[test]
fn etprof_in_a_hammerdb_log_is_read() {
    // hammerdb.log of 4.12, without the line of the server's version: five windows of 10 s of the first user.
    let log = import("hammerdb", "4.12-etprof.log");
    assert_eq!(values(&log, "new_orders_per_min"), [29884.0]);
    assert_eq!(values(&log, "new_order_latency_mean_ms"), [18_722_715.0 / 14427.0 / 1e3]);
    assert!(reasons(&log, "new_order_latency_p99_ms")[0].contains("windows"));
    assert_eq!(log.samples[0].notes[0], "new_order: p99 of 5 windows of 6.198 to 10.085 ms");
    // The same in the list that the output of a job is.
    let job = text("hammerdb", "4.12-etprof.log").replace("Vuser 2:|", "\"|").replace("\n", "\",\n");
    assert_eq!(values(&parse("hammerdb", &job).unwrap(), "stock_level_latency_mean_ms"), [16_553_938.0 / 1437.0 / 1e3]);
}

#[test]
fn a_time_profile_that_was_cut_is_void_or_refused() {
    let whole = text("hammerdb", "6.0-xtprof.log");
    let summary = whole.find(">>>>> SUMMARY").unwrap();
    for end in [summary, whole.rfind("RATIO").unwrap()] {
        let cut = parse("hammerdb", &whole[..end]).unwrap();
        assert!(cut.samples[0].void.as_deref().is_some_and(|why| why.contains("was cut")), "{end}");
    }
    let at = whole.find("P99: 67.870ms").unwrap();
    let line = whole[..at].matches('\n').count() + 1;
    for (from, to, why) in [
        ("P99: 67.870ms\tP95: ", "P99: 67.870ms\tP95 ", "was cut"),
        ("P99: 67.870", "P99: 67,870", "LC_ALL=C"),
        ("P99: 67.870", "Q99: 67.870", "no line of a report"),
    ] {
        let problem = parse("hammerdb", &whole.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(problem.contains(&format!("it, line {line} (byte {at})")) && problem.contains(why), "{problem}");
    }
    let log = text("hammerdb", "4.12-etprof.log");
    let problem = parse("hammerdb", &log[..log.find("|P95%-6476").unwrap()]).unwrap_err().to_string();
    assert!(problem.contains("it, line 9 (byte ") && problem.contains("2 of 5 or 6 numbers"), "{problem}");
}

#[test]
fn response_times_and_averages_of_uperf_are_read() {
    // 1.0.8 on loopback, two threads, 20 times write, read and 5 ms of think: `-X FILE`.
    let log = import("uperf", "response-times.txt");
    assert_eq!(log.samples[0].histograms[0].histogram.count(), 124);
    assert_eq!(log.samples[0].length_ns, Some(1_795_933_549_767_574_069 - 1_795_933_547_765_286_277));
    // Buckets of the histogram are 0.1 % wide.
    assert!((values(&log, "operation_mean_us")[0] / 1728.442661 - 1.0).abs() < 1e-3);
    assert!(log.cautions[0].contains("does not name flowops"));
    // `-f`.
    let averages = import("uperf", "averages.txt");
    assert_eq!((values(&averages, "write_mean_us"), values(&averages, "think_max_us")), (vec![27.08], vec![9020.0]));
    assert_eq!((values(&averages, "bits_per_s"), values(&averages, "connect_mean_us")), (vec![165.63e3], vec![237.87]));
    // Two flowops of one name have one mean.
    let two = text("uperf", "averages.txt")
        .replace("read                 380     41.24us", "write               1140     31.08us");
    assert_eq!(values(&parse("uperf", &two).unwrap(), "write_mean_us"), [30.08]);
}

#[test]
fn response_times_of_uperf_that_are_damaged_are_refused() {
    // 1.0.8 with `nprocs="2"`: both processes write where they are, and not behind one another.
    let damaged = " 17443      0  0 1795932961758953604           44235\n 17443      0  0 1 17442      0  0 1795932960756981236          423547\n";
    let problem = parse("uperf", damaged).unwrap_err();
    assert!(problem.to_string().contains("it, line 2 (byte 53)") && problem.hint.unwrap().contains("nthreads"));
    let whole = text("uperf", "response-times.txt");
    assert!(parse("uperf", &whole[..whole.len() - 30]).unwrap_err().to_string().contains("it, line 124 (byte "));
}
