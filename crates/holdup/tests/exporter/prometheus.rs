//! A real Prometheus and promtool.

use crate::common::{Sandbox, wait_for};
use crate::exporter::http::get;
use crate::exporter::server::{Exporter, Server};
use holdup_testkit::ignore;
use serde_json::Value;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the files are that are shipped beside the program.
fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn need(program: &str) {
    let is_there =
        std::env::var_os("PATH").is_some_and(|all| std::env::split_paths(&all).any(|at| at.join(program).exists()));
    if !is_there {
        ignore(format!("there is no {program} on the PATH (Debian: prometheus)"));
    }
}

struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn start(place: &Sandbox, target: SocketAddr) -> Prometheus {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let scrape = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs:\n  - job_name: holdup\n    static_configs: [{{targets: ['{target}']}}]\n",
            shipped("prometheus/holdup.rules.yml").display()
        );
        let configuration = place.write("prometheus.yml", &scrape);
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", place.path("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--enable-feature=native-histograms", "--log.level=error"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let started = Prometheus { child, address };
        wait_for("Prometheus", || {
            std::net::TcpStream::connect(address).is_ok() && get(address, "/-/ready", "").0 == 200
        });
        started
    }

    /// The first answer to an expression.
    fn answer(&self, expression: &str) -> Value {
        let path: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
        let (_, body) = get(self.address, &format!("/api/v1/query?query={path}"), "");
        // It may answer in chunks, whose lengths stand on lines of their own.
        let json: String = body.lines().filter(|line| line.starts_with('{')).collect();
        let document: Value = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{expression}: {e}: {body}"));
        assert_eq!(document["status"], "success", "{expression}: {document}");
        document["data"]["result"][0].clone()
    }

    /// Its value.
    fn query(&self, expression: &str) -> Option<f64> {
        self.answer(expression)["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It was started here; nothing of it is kept.
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

pub(crate) fn prometheus_scrapes_it_and_knows_its_native_histograms() {
    need("prometheus");
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("90");
    let exporter = Exporter::start(&place, &server.url(), &[]);
    let prometheus = Prometheus::start(&place, exporter.address);
    let query = |expression: &str| prometheus.query(expression);
    wait_for("some scrapes", || query("count_over_time(holdup_watched_seconds_total[1m])").is_some_and(|n| n >= 8.0));
    assert_eq!(query("up{job=\"holdup\"}"), Some(1.0));
    assert_eq!(query("holdup_up"), Some(1.0));
    // A second of watching is a second of each process.
    let sleeping = query(
        "sum(rate(holdup_task_seconds_total{kind=\"checkpointer\"}[10s])) / ignoring(kind) sum(rate(holdup_watched_seconds_total[10s]))",
    );
    assert!(sleeping.is_some_and(|share| (0.97..1.03).contains(&share)), "{sleeping:?}");
    // Its histogram is native, and says what the exposition's classic one says.
    let native = query("histogram_quantile(0.5, sum(rate(holdup_run_queue_wait_seconds[20s])))");
    let text = exporter.metrics();
    let count = |le: &str| {
        crate::exporter::server::sum(&text, "holdup_run_queue_wait_seconds_bucket", &[&format!("le=\"{le}\"")])
    };
    let bounds: Vec<f64> = (0..23).map(|n| 1e-6 * 2f64.powi(n)).collect();
    let half = count("+Inf") / 2.0;
    let above = bounds.iter().copied().find(|bound| count(&format!("{bound}")) >= half).unwrap_or(10.0);
    let native = native.expect("a native histogram");
    assert!(native <= above * 2.0 && native >= above / 4.0, "native {native}, classic at most {above}");
    the_dashboard_shows(&prometheus);
    // The shipped rules and the dashboard have answers with native histograms too.
    let rules = std::fs::read_to_string(shipped("prometheus/holdup.rules.yml")).unwrap();
    let latency = rules.split("expr: |\n").nth(1).and_then(|rest| rest.split(") > 0.02").next()).unwrap();
    assert!(query(&format!("{latency})")).is_some(), "{latency}");
    // A restart of the exporter is a reset, which rates know.
    let address = exporter.address.to_string();
    exporter.end();
    let again = ["exporter", "--pg", &server.url(), "--listen", &address, "--window", "1s"];
    let exporter = Exporter::of(place.holdup(&again));
    wait_for("a reset", || query("resets(holdup_watched_seconds_total[1m])").is_some_and(|n| n >= 1.0));
    let rate = query("rate(holdup_watched_seconds_total[1m])").unwrap();
    assert!((0.0..1.2).contains(&rate), "{rate}");
    exporter.end();
    server.cluster.discard().unwrap();
}

/// Each panel of the dashboard has an answer; those about spin locks and causes have none where there are none.
fn the_dashboard_shows(prometheus: &Prometheus) {
    fn queries<'a>(part: &'a Value, into: &mut Vec<&'a str>) {
        into.extend(part["expr"].as_str());
        let parts = part["panels"].as_array().into_iter().chain(part["targets"].as_array());
        parts.flatten().for_each(|part| queries(part, into));
    }
    let dashboard = std::fs::read(shipped("grafana/holdup.json")).unwrap();
    let (dashboard, mut all) = (serde_json::from_slice::<Value>(&dashboard).unwrap(), Vec::new());
    queries(&dashboard, &mut all);
    assert!(all.len() > 10, "{all:?}");
    for expression in all {
        // What Grafana writes in the place of its variables where all is chosen.
        let expression =
            expression.replace("$instance", ".*").replace("$watched", ".*").replace("$__rate_interval", "10s");
        let answer = prometheus.answer(&expression);
        let may_be_empty = ["lock_waiter", "cause_share"].iter().any(|part| expression.contains(part));
        assert!(may_be_empty || answer.is_object(), "no answer: {expression}");
    }
}

pub(crate) fn a_text_file_is_whole_and_what_promtool_accepts() {
    need("promtool");
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("60");
    let file = place.path("holdup.prom");
    let args = ["exporter", "--pg", &server.url(), "--textfile", "holdup.prom", "--window", "1s"];
    let mut child = place.start(&args);
    wait_for("a text file with windows", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains("holdup_task_seconds_total"))
    });
    for _ in 0..50 {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.ends_with('\n') && text.contains("process_open_fds"), "half a file: {text}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    crate::common::signal(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(&std::fs::read(&file).unwrap()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.cluster.discard().unwrap();
}

pub(crate) fn the_alert_rules_pass_their_tests() {
    need("promtool");
    let rules = shipped("prometheus/holdup.rules_test.yml");
    let output = Command::new("promtool").args(["test", "rules"]).arg(rules).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
