//! Real outputs of the tools, with what must come of them. Where each came from stands beside its name.

use crate::common;
use common::{folder, import, text, values};
use holdup_import::{Input, KINDS, Results, find, read};
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn pgbench_is_read() {
    // PostgreSQL 15.18, `-c 8 -j 2 -T 2 -P 1`.
    let one = import("pgbench", "15-progress.txt");
    assert_eq!(values(&one, "tps"), [1103.301406]);
    assert_eq!(values(&one, "latency_mean_ms"), [7.197]);
    assert_eq!((one.samples[0].labels["clients"].as_str(), one.samples[0].length_ns), ("8", Some(2_000_000_000)));
    // `-c 4 -t 200 -R 400 -L 5`.
    let rate = import("pgbench", "15-rate.txt");
    assert_eq!(values(&rate, "skipped_share"), [0.33375]);
    assert_eq!(values(&rate, "schedule_lag_mean_ms"), [0.871]);
    // `-c 2 -t 30 -l`.
    let log = import("pgbench", "15-log.txt");
    assert_eq!(log.samples[0].histograms[0].histogram.count(), 60);
    // `--aggregate-interval=1`: the last interval is a part of a second.
    let intervals = import("pgbench", "15-aggregate.txt");
    assert_eq!(values(&intervals, "tps"), [(1308.0 + 1485.0 + 1448.0) / 3.0]);
}

#[test]
fn hackbench_is_read() {
    // rt-tests 2.4, `-g 2 -l 50`, three times.
    let all = import("hackbench", "2.4.txt");
    assert_eq!(values(&all, "time_s"), [0.141, 0.111, 0.136]);
    assert_eq!(all.samples[0].labels["groups"], "2");
}

#[test]
fn hyperfine_is_read() {
    // 1.15.0, `-N -r 4 'sleep 0.01' 'sleep 0.02'`.
    let all = import("hyperfine", "1.15.json");
    assert_eq!(values(&all, "time_s").len(), 8);
    assert_eq!(all.samples[7].labels["command"], "sleep 0.02");
}

#[test]
fn cyclictest_is_read() {
    // rt-tests 2.4, `-q -D 2 -t 2 --json=FILE`.
    let json = import("cyclictest", "2.40.json");
    assert_eq!(values(&json, "latency_max_us"), [21193.0, 19698.0]);
    assert_eq!(json.facts[0].value.as_deref(), Some("6.18.44"));
    // `-h 100`: 40 % and 25 % of the wake-ups lie beyond the end, so there is no percentile.
    let histogram = import("cyclictest", "2.40-histogram.txt");
    assert_eq!(values(&histogram, "overflows"), [728.0, 465.0]);
    assert_eq!(values(&histogram, "latency_p99_us"), [0.0; 0]);
    // `-t 12`: ten threads and more have no space after `T:`.
    assert_eq!(import("cyclictest", "2.40-twelve.txt").samples.len(), 12);
}

#[test]
fn sysbench_is_read() {
    // 1.0.20, `cpu --threads=2 --time=2 --report-interval=1 --histogram`.
    let one = import("sysbench", "1.0-histogram.txt");
    assert_eq!(values(&one, "events_per_s").len(), 1);
    assert_eq!(one.samples[0].histograms[0].histogram.count(), 1249);
    assert_eq!(one.samples[0].labels["prime_limit"], "20000");
    // `fileio --file-test-mode=rndrw`: a percentile of 0.00 ms is not 0.
    let file = import("sysbench", "1.0-fileio.txt");
    assert_eq!(values(&file, "reads_per_s"), [55924.56]);
    assert_eq!(values(&file, "latency_p95_ms"), [0.0; 0]);
    // `threads --percentile=99`: 1340 events have 13 beyond it.
    let threads = import("sysbench", "1.0-threads.txt");
    assert_eq!(
        (values(&threads, "latency_p99_ms"), values(&threads, "events_per_s")),
        (vec![7.43], vec![1340.0 / 1.0043])
    );
    // `memory` and `mutex` in one file: two events have no percentile.
    let two = import("sysbench", "1.0-two.txt");
    assert_eq!(
        (two.samples.len(), values(&two, "operations_per_s"), values(&two, "mib_per_s")),
        (2, vec![6156685.60], vec![6012.39])
    );
    assert_eq!(values(&two, "latency_p95_ms"), [0.0; 0]);
}

#[test]
fn fio_is_read() {
    // 3.33, `--rw=randrw --output-format=json+`, without the members that are not read.
    let one = import("fio", "3.33-plus.json");
    assert_eq!((values(&one, "read_iops"), values(&one, "write_iops")), (vec![10708.442124], vec![10681.462141]));
    assert_eq!(one.samples[0].histograms[0].histogram.count(), 12304);
    assert!((values(&one, "read_latency_mean_us")[0] - 57.649624269).abs() < 1e-9);
    // `--rw=randread --numjobs=2 --output-format=json`: one run, whose percentile cannot be known.
    let two = import("fio", "3.33-two-jobs.json");
    assert_eq!((two.samples.len(), values(&two, "read_completion_p99_us")), (1, Vec::new()));
    assert!(values(&two, "read_iops")[0] > 30_000.0);
}

#[test]
fn stress_ng_is_read() {
    // 0.15.06, `--cpu 1 --pipe 1 --timeout 1 --metrics --times -Y FILE`.
    let all = import("stress-ng", "0.15.yaml");
    assert_eq!(values(&all, "bogo_operations_per_s"), [599.435648, 286626.280098]);
    assert_eq!(all.samples[1].notes, ["mb-per-sec-pipe-write-rate: 140.744489"]);
    let cut = text("stress-ng", "0.15.yaml").replace("\n...\n", "\n");
    let cut = read(find("stress-ng").unwrap(), &mut Input::new("it", cut.as_bytes())).unwrap();
    assert!(cut.samples[1].void.is_some());
}

#[test]
fn schbench_is_read() {
    // 24e32b8 (2025), `-m 1 -t 2 -r 2 -i 1`: the last block, of which 130 samples have one beyond p99.
    let new = import("schbench", "24e32b8.txt");
    assert_eq!(
        (values(&new, "wakeup_latency_p50_us"), values(&new, "request_latency_p90_us")),
        (vec![25.0], vec![49984.0])
    );
    assert_eq!((values(&new, "wakeup_latency_p99_us"), values(&new, "requests_per_s")), (Vec::new(), vec![65.0]));
    let cut = text("schbench", "24e32b8.txt").replace("average rps", "");
    let cut = read(find("schbench").unwrap(), &mut Input::new("it", cut.as_bytes())).unwrap();
    assert!(cut.samples[0].void.as_deref().is_some_and(|why| why.contains("cut")));
    // 2eef447 (2021), the same; it has one latency and no last line.
    let old = import("schbench", "2eef447.txt");
    assert_eq!(
        (values(&old, "wakeup_latency_p50_us"), values(&old, "wakeup_latency_max_us")),
        (vec![6008.0], vec![34635.0])
    );
    // `-j FILE`.
    let json = import("schbench", "24e32b8.json");
    assert_eq!(values(&json, "wakeup_latency_p99_us"), [31648.0]);
    assert_eq!(json.metrics[0].id, "wakeup_latency_p99_us");
}

#[test]
fn google_benchmark_is_read() {
    // 1.7.1, `--benchmark_repetitions=2`: two benchmarks and one that fails, without caches and some means.
    let all = import("google-benchmark", "1.7.json");
    assert_eq!(values(&all, "real_time_ns").len(), 2);
    assert!((values(&all, "real_time_ns")[0] - 94.569_305_915_265_25).abs() < 1e-9);
    assert_eq!(all.samples[2].void.as_deref(), Some("no file"));
    let means = text("google-benchmark", "1.7.json").replace("\"iteration\"", "\"aggregate\"");
    let problem = read(find("google-benchmark").unwrap(), &mut Input::new("it", means.as_bytes())).unwrap_err();
    assert!(problem.to_string().contains("means only"), "{problem}");
}

#[test]
fn go_bench_is_read() {
    // go 1.26.8, `-bench . -benchtime 20ms -count 3`, one benchmark of which fails.
    let all = import("go-bench", "1.26.txt");
    assert_eq!(values(&all, "time_ns").len(), 12);
    assert_eq!((values(&all, "mb_per_s").len(), values(&all, "allocations")), (6, vec![0.0; 3]));
    assert_eq!(all.samples[3].labels["benchmark"], "Copy/size=1");
    assert_eq!((all.samples[0].labels["gomaxprocs"].as_str(), all.samples[12].void.is_some()), ("2", true));
    assert_eq!(all.samples[9].notes, ["3.5 hits/op"]);
    // The file says which direction is better.
    let with = format!("Unit hits/op better=higher\n{}", text("go-bench", "1.26.txt"));
    let with = read(find("go-bench").unwrap(), &mut Input::new("it", with.as_bytes())).unwrap();
    assert_eq!(values(&with, "hits_op"), [3.5; 3]);
}

#[test]
fn criterion_is_read() {
    // 0.5, both files of one benchmark: they agree.
    let sample = import("criterion", "sum/fold/16/new/sample.json");
    let estimates = import("criterion", "sum/fold/16/new/estimates.json");
    for id in ["time_mean_ns", "time_median_ns"] {
        assert!((values(&sample, id)[0] - values(&estimates, id)[0]).abs() < 1e-9, "{id}");
    }
    // A path names the benchmark where it is known which folders are Criterion's.
    assert!(sample.samples[0].labels.is_empty());
    let paths = ["sample", "estimates"].map(|file| format!("sum/fold/16/new/{file}.json"));
    let of_folder = in_folder("criterion", &paths.each_ref().map(|path| (path.as_str(), path.as_str()))).unwrap();
    assert_eq!(of_folder.samples.len(), 1);
    assert_eq!(of_folder.samples[0].labels["benchmark"], "sum/fold/16");
}

#[test]
fn jmh_is_read() {
    // 1.37, `-f 2 -i 2`: a benchmark in two modes; of the distributions the first 12 values of each iteration.
    let all = import("jmh", "1.37.json");
    let forks = values(&all, "operations_per_s");
    assert_eq!(forks.len(), 2);
    assert!((forks[0] - (4216101.678763673 + 36459543.722984515) / 2.0).abs() < 1e-3);
    assert_eq!((values(&all, "time_p99_ns").len(), all.samples[2].labels["mode"].as_str()), (2, "sample"));
    assert_eq!(all.samples[2].labels["n"], "8");
}

#[test]
fn perf_bench_is_read() {
    // 6.1, `sched pipe`, `syscall basic`, `mem memcpy`, `futex hash` and `sched messaging` twice.
    let all = import("perf-bench", "6.1.txt");
    assert_eq!(values(&all, "time_s"), [0.153, 0.023, 0.117, 0.030]);
    assert_eq!((values(&all, "operations_per_s")[0], values(&all, "gb_per_s").len()), (130222.0, 4));
    assert_eq!(values(&all, "operations_per_thread_s"), [1159680.0]);
    assert_eq!(all.samples[7].labels["mode"], "process");
    assert_eq!(
        (all.samples[3].labels["function"].as_str(), all.samples[8].labels["mode"].as_str()),
        ("x86-64-unrolled", "thread")
    );
    // `--format=simple sched pipe` and `sched messaging`.
    assert_eq!(values(&import("perf-bench", "6.1-simple.txt"), "time_s"), [0.128, 0.155]);
}

#[test]
fn sockperf_is_read() {
    // 3.7 on loopback: 551 observations have five beyond p99.
    let one = import("sockperf", "3.7-ping-pong.txt");
    assert_eq!((values(&one, "round_trip_mean_us"), values(&one, "round_trip_p50_us")), (vec![686.863], vec![109.653]));
    assert_eq!(values(&one, "round_trip_p99_us"), [0.0; 0]);
    assert_eq!(values(&import("sockperf", "3.7-under-load.txt"), "round_trip_p50_us"), [140.220]);
    assert_eq!(values(&import("sockperf", "3.7-throughput.txt"), "messages_per_s"), [63412.0]);
    // `--full-log`.
    let log = import("sockperf", "3.7-log.txt");
    assert!(log.samples[0].void.is_none() && log.samples[0].histograms[0].histogram.count() >= 53);
    let all = text("sockperf", "3.7-log.txt");
    let cut = all.lines().take(40).collect::<Vec<_>>().join("\n");
    let cut = read(find("sockperf").unwrap(), &mut Input::new("it", cut.as_bytes())).unwrap();
    assert!(cut.samples[0].void.as_deref().is_some_and(|why| why.contains("of 53 messages")));
}

#[test]
fn iperf3_is_read() {
    // 3.12 on loopback, `-t 2 -J`.
    let tcp = import("iperf3", "3.12-tcp.json");
    assert_eq!(values(&tcp, "received_bits_per_s"), [6649142401.228927]);
    assert_eq!(
        tcp.facts.iter().find(|fact| fact.key == "kernel.release").unwrap().value.as_deref(),
        Some("6.18.44-fc-v669")
    );
    // `-u -b 50M -t 1 -J`.
    let udp = import("iperf3", "3.12-udp.json");
    assert_eq!(
        (values(&udp, "received_bits_per_s"), values(&udp, "lost_share")),
        (vec![46915847.2218195], vec![6.282722513089006 / 100.0])
    );
    let refused = import("iperf3", "3.12-refused.json");
    assert!(refused.samples[0].void.as_deref().is_some_and(|why| why.contains("refused")));
}

#[test]
fn uperf_is_read() {
    // 1.0.8 on loopback, `-R -i 1`: the rate is that of the second transaction.
    let tcp = import("uperf", "tcp.txt");
    let seconds = (1_795_283_806_578.233 - 1_795_283_804_373.433_3) / 1e3;
    assert_eq!(values(&tcp, "bits_per_s"), [7586709504.0 * 8.0 / seconds]);
    assert_eq!(values(&import("uperf", "udp.txt"), "received_bits_per_s"), [392.78e6]);
    // The column of errors is 0.00, and there were two.
    assert!(import("uperf", "error.txt").samples[0].void.is_some());
}

#[test]
fn netperf_is_read() {
    // 2.7.1 on loopback: TCP_STREAM, TCP_RR and UDP_STREAM, whose second row is what arrived.
    let all = import("netperf", "2.7-tables.txt");
    assert_eq!(values(&all, "bits_per_s"), [4781.18e6, 374.38e6]);
    assert_eq!((values(&all, "transactions_per_s"), values(&all, "sent_bits_per_s")), (vec![29749.44], vec![624.12e6]));
    // TCP_RR with `-k`, and an omni test with `-o`.
    let keys = import("netperf", "2.7-keys.txt");
    assert_eq!((values(&keys, "latency_p99_us"), values(&keys, "transactions_per_s")), (vec![49.0], vec![33486.24]));
    assert_eq!(values(&import("netperf", "2.7-omni.csv"), "bits_per_s"), [7042.67e6]);
}

#[test]
fn kernel_bench_is_read() {
    // tvondra/kernel-bench bb6174f, e5-4620/results.csv: scale 30, read-only, 16 and 64 clients.
    let all = import("kernel-bench", "e5-4620.csv");
    assert_eq!((all.samples.len(), values(&all, "tps")[0]), (18, 103276.132969));
    assert_eq!((all.samples[6].compared.as_deref(), all.samples[6].labels["clients"].as_str()), (Some("3.2.80"), "16"));
    let read = |text: &str| read(find("kernel-bench").unwrap(), &mut Input::new("it", text.as_bytes()));
    let failed = read("3.10.101 30 read-only 1 1 8649.4\n3.10.101 30 read-only 2 1\n").unwrap();
    assert!(failed.samples[1].void.is_some());
    let comma = read("4.5.5;30;read-only;1;1;8649,4\n").unwrap_err().to_string();
    assert!(comma.contains("line 1 (byte 0)") && comma.contains("LC_ALL=C"), "{comma}");
}

#[test]
fn hammerdb_is_read() {
    // A log of HammerDB 4 with Oracle (of a public note on it), and a job's output (hammerdb.com/docs4.0, 10.5, fewer users).
    let log = import("hammerdb", "4-oracle.log");
    assert_eq!(
        (values(&log, "new_orders_per_min"), values(&log, "transactions_per_min")),
        (vec![8043.0], vec![16365.0])
    );
    assert_eq!((log.samples[0].labels["users"].as_str(), log.samples[0].length_ns), ("2", Some(300_000_000_000)));
    let job = import("hammerdb", "4-job.json");
    assert_eq!((values(&job, "new_orders_per_min"), values(&job, "transactions_per_min")), (vec![27975.0], Vec::new()));
    let failed = text("hammerdb", "4-oracle.log").replace("Vuser 3:FINISHED SUCCESS", "Vuser 3:FINISHED FAILED");
    let failed = read(find("hammerdb").unwrap(), &mut Input::new("it", failed.as_bytes())).unwrap();
    assert!(failed.samples[0].void.as_deref().is_some_and(|why| why.contains("Vuser 3")));
}

#[test]
fn benchbase_is_read() {
    // A summary of tpcc (of a public guide), and the first lines of a raw.csv of another run: each says so of itself.
    let summary = import("benchbase", "run.summary.json");
    assert_eq!(
        (values(&summary, "requests_per_s"), values(&summary, "latency_p50_us")),
        (vec![3.349995356515603], vec![1066925.0])
    );
    // 201 requests have two beyond p99.
    assert_eq!(values(&summary, "latency_p99_us"), [0.0; 0]);
    let raw = import("benchbase", "other.raw.csv");
    assert_eq!(
        (raw.samples[0].histograms[0].histogram.count(), values(&raw, "latency_mean_us")),
        (6, vec![12192.0 / 6.0])
    );
    // In a folder, what has one name is one run.
    let both = [("run.summary.json", "run.summary.json"), ("run.raw.csv", "other.raw.csv")];
    let both = in_folder("benchbase", &both).unwrap();
    assert_eq!((both.samples.len(), both.samples[0].histograms.len()), (1, 1));
    assert_eq!(
        in_folder("benchbase", &[("a.summary.json", "run.summary.json"), ("b.raw.csv", "other.raw.csv")])
            .unwrap()
            .samples
            .len(),
        2
    );
}

#[test]
fn phoronix_is_read() {
    // starslingdev/hpc-sandbox-benchmarks, pts-stream-gha.xml: Phoronix Test Suite 10.8.4, two of four results.
    let all = import("phoronix", "composite.xml");
    assert_eq!(values(&all, "result_mb_per_s"), [104854.3, 105354.7, 72890.5, 73318.4]);
    assert_eq!(
        (all.samples[2].labels["setting"].as_str(), all.samples[0].compared.as_deref()),
        ("Type: Scale", Some("ci"))
    );
    let document = text("phoronix", "composite.xml");
    let cut = &document[..document.find("<RawString>72890").unwrap()];
    let problem = read(find("phoronix").unwrap(), &mut Input::new("c.xml", cut.as_bytes())).unwrap_err().to_string();
    assert!(problem.contains("c.xml, line 3 (byte ") && problem.contains("was cut"), "{problem}");
    // Lower is better, and two systems are compared.
    let other = document.replace("HIB", "LIB");
    let other = read(find("phoronix").unwrap(), &mut Input::new("it", other.as_bytes())).unwrap();
    assert_eq!(
        (other.metrics[0].id.as_str(), other.metrics[0].better),
        ("cost_mb_per_s", holdup_model::Direction::Lower)
    );
}

#[test]
fn lkp_tests_is_read() {
    // lkp-tests bbbc29c4, spec/fixtures/stats/hackbench/hackbench.yaml.
    let all = import("lkp-tests", "hackbench.yaml");
    assert_eq!((values(&all, "throughput"), all.metrics.len()), (vec![3144324.4942878103], 4));
    // A matrix in the form that lib/matrix.rb writes: 0 may be what is missing, and one run is incomplete.
    let matrix =
        r#"{"hackbench.throughput":[100.0,0,90.0],"boot-time.boot":[9,9,9],"last_state.is_incomplete_run":[0,0,1]}"#;
    let matrix = read(find("lkp-tests").unwrap(), &mut Input::new("it", matrix.as_bytes())).unwrap();
    assert_eq!((values(&matrix, "hackbench_throughput"), matrix.samples.len()), (vec![100.0], 3));
    assert!(matrix.samples[2].void.is_some() && matrix.cautions[0].starts_with("2 numbers"));
}

/// The results of files as a folder has them: paths there, and samples.
fn in_folder(kind: &str, files: &[(&str, &str)]) -> Result<Results, holdup_model::Problem> {
    let kind = find(kind).unwrap();
    let held = files.iter().filter(|(path, _)| kind.holds("it", path).unwrap());
    let mut open = held.map(|(path, file)| {
        let bytes = std::io::Cursor::new(std::fs::read(folder(kind.meta.id).join(file)).unwrap());
        Ok(((*path).to_owned(), Input::new(format!("it/{path}"), bytes)))
    });
    holdup_import::read_folder(kind, "it", &mut open)
}

#[test]
fn mmtests_is_read() {
    // Laid out as run-mmtests.sh of 638401e0 does it; the outputs are of `perf bench sched messaging --pipe -l 100` (6.1).
    let root = folder("mmtests");
    let paths: Vec<String> =
        files(&root).iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect();
    let paths: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), path.as_str())).collect();
    let all = in_folder("mmtests", &paths).unwrap();
    assert_eq!((all.samples.len(), values(&all, "time_s").len()), (6, 6));
    let labels: Vec<_> = all.samples.iter().map(|sample| sample.labels["groups"].as_str()).collect();
    assert_eq!(
        (labels.iter().filter(|groups| **groups == "1").count(), all.samples[0].labels["benchmark"].as_str()),
        (3, "hackbench-process-pipes")
    );
    // A test that ended badly voids its runs.
    let kind = find("mmtests").unwrap();
    let stamps = text("mmtests", "iter-0/tests-timestamp").replace("1795850452 0", "1795850452 1");
    let output = text("mmtests", "iter-0/hackbench-process-pipes/logs/hackbench-1");
    let file = |path: &str, text: String| {
        Ok((path.to_owned(), Input::new(path.to_owned(), std::io::Cursor::new(text.into_bytes()))))
    };
    let open =
        [file("iter-0/tests-timestamp", stamps), file("iter-0/hackbench-process-pipes/logs/hackbench-1", output)];
    let bad = holdup_import::read_folder(kind, "it", &mut open.into_iter()).unwrap();
    assert!(
        bad.samples.len() == 3
            && bad.samples.iter().all(|sample| sample.void.as_deref().is_some_and(|why| why.contains("code 1")))
    );
    // A folder has no meaning for a tool that prints one file.
    assert!(find("fio").unwrap().holds("it", "a.json").unwrap_err().to_string().contains("name the files"));
}

/// A cut or a changed byte: an error that names the file, or a result, and never a panic. Other kinds than its own are the work
/// of the fuzz target.
#[test]
fn damaged_samples_are_refused_or_read() {
    for kind in KINDS {
        let files = files(&folder(kind.meta.id));
        assert!(!files.is_empty(), "{} has no sample", kind.meta.id);
        for file in files {
            let bytes = std::fs::read(file).unwrap();
            let step = (bytes.len() / 150).max(1);
            for at in (0..bytes.len()).step_by(step) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x15;
                for part in [&bytes[..at], &damaged] {
                    if let Err(problem) = read(kind, &mut Input::new("it", part)) {
                        assert!(!problem.why.is_empty() && problem.what.starts_with("it"), "{problem}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_kind_is_in_the_documentation() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/import.md")).unwrap();
    let rows: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(id, _)| id)).collect();
    let ids: Vec<&str> = KINDS.iter().map(|kind| kind.meta.id).collect();
    assert_eq!(rows, ids);
}

/// Each sample is known as what it is; another kind that it looks like is known here.
#[test]
fn a_wrong_kind_says_what_the_file_looks_like() {
    for kind in KINDS {
        for file in files(&folder(kind.meta.id)) {
            let bytes = std::fs::read(&file).unwrap();
            // The outputs in a folder of mmtests are those of the tools.
            if kind.meta.id == "mmtests" {
                continue;
            }
            for other in KINDS.iter().filter(|other| other.meta.id != kind.meta.id) {
                let is_both = [kind.meta.id, other.meta.id].iter().all(|id| ["hackbench", "perf-bench"].contains(id));
                match read(other, &mut Input::new("it", bytes.as_slice())) {
                    Ok(_) => assert!(is_both, "{} reads {}", other.meta.id, file.display()),
                    Err(problem) => {
                        let hint = problem.hint.unwrap_or_default();
                        assert!(
                            is_both || (hint.starts_with("it looks like ") && hint.contains(kind.meta.id)),
                            "{}: {hint}",
                            other.meta.id
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn an_error_in_json_names_its_line_and_byte() {
    let damaged = text("fio", "3.33-plus.json").replacen("\"iops\": 10708.442124", "\"iops\": \"10708,4\"", 1);
    let at = damaged.find("\"10708,4\"").unwrap();
    let line = damaged[..at].matches('\n').count() + 1;
    let problem = read(find("fio").unwrap(), &mut Input::new("f.json", damaged.as_bytes())).unwrap_err().to_string();
    assert!(problem.contains(&format!("f.json, line {line} (byte {at})")) && problem.contains("LC_ALL=C"), "{problem}");
    let cut = &damaged[..damaged.len() / 2];
    let problem = read(find("fio").unwrap(), &mut Input::new("f.json", cut.as_bytes())).unwrap_err().to_string();
    assert!(problem.contains("it ends early") && problem.contains("(byte "), "{problem}");
}

#[test]
fn what_no_run_can_have_is_damage() {
    let read = |kind: &str, text: &str| {
        read(find(kind).unwrap(), &mut Input::new("it", text.as_bytes())).unwrap_err().to_string()
    };
    // Buckets whose sum is beyond 2^64, a thread that no machine has, a time before 1970.
    assert!(read("cyclictest", "# Histogram\n000001 18000000000000000000\n").contains("line 2 (byte 12)"));
    assert!(read("cyclictest", "T:99999 ( 1) P: 0 I:1 C: 1 Min: 1 Act: 1 Avg: 1 Max: 1\n").contains("damaged"));
    assert!(read("pgbench", "0 1 -5 0 1795837758 1\n0 1 5 0 1795837758 1\n").contains("does not look like"));
    assert!(read("pgbench", "0 1 5 0 1795837758 1\n0 1 -5 0 1795837758 1\n").contains("less than 0"));
}

#[test]
fn another_tools_file_and_a_decimal_comma_are_named() {
    let read = |kind: &str, text: &str| {
        read(find(kind).unwrap(), &mut Input::new("r.txt", text.as_bytes())).unwrap_err().to_string()
    };
    let hackbench = std::fs::read_to_string(folder("hackbench").join("2.4.txt")).unwrap();
    assert!(read("pgbench", &hackbench).contains("it looks like hackbench: holdup import hackbench r.txt"));
    let comma = hackbench.replace("0.141", "0,141");
    let problem = read("hackbench", &comma);
    assert!(problem.contains("r.txt, line 3 (byte ") && problem.contains("LC_ALL=C"), "{problem}");
    assert!(read("pgbench", "").contains("does not look like"), "an empty file");
}

/// With decimal commas nothing is read as a number: the file is refused, or has no result.
#[test]
fn decimal_commas_are_refused() {
    for kind in KINDS {
        for file in files(&folder(kind.meta.id)) {
            let whole = std::fs::read_to_string(&file).unwrap();
            let mut bytes = whole.clone().into_bytes();
            for at in 1..bytes.len().saturating_sub(1) {
                if bytes[at] == b'.' && bytes[at - 1].is_ascii_digit() && bytes[at + 1].is_ascii_digit() {
                    bytes[at] = b',';
                }
            }
            if bytes == whole.as_bytes() {
                continue;
            }
            if let Ok(results) = read(kind, &mut Input::new("it", bytes.as_slice())) {
                let mut measured = results.samples.iter().flat_map(|sample| &sample.measurements);
                assert!(measured.all(|m| m.value.value().is_none()), "{}", file.display());
            }
        }
    }
}
