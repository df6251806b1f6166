//! Both machines are this one: the service of the server listens on the loopback interface.

use super::ServerSide;
use super::client::run as run_with;
use super::messages::{Answer, Begin, Order};
use crate::setup::Setup;
use holdup_catalogue::stream;
use holdup_host::Host;
use holdup_load::peer::{PeerClient, RemoteEnd as _, Server};
use holdup_load::service::{self, Admission};
use holdup_load::{Cancel, TrialContext, TrialResult, WindowHooks};
use holdup_model::ends::{ServiceAccess, Token};
use holdup_model::{Measured, Parameters, Problem, Value, Window};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::time::Duration;

struct NoCollectors<'a>(&'a mut dyn FnMut());

impl WindowHooks for NoCollectors<'_> {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        (self.0)();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: 1 })
    }
}

fn setup(changes: &[(&str, Value)]) -> Setup {
    let mut parameters = stream::Parameters::defaults(2);
    parameters.set("network", "peer");
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    Setup::read(&parameters, &Host::real()).expect("valid")
}

/// Runs a trial against a service that, on request, is stopped when the window opens.
fn run(changes: &[(&str, Value)], stops: bool) -> Result<TrialResult, Problem> {
    let host = Host::real();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let access = ServiceAccess { at: listener.local_addr().expect("it is bound"), number: 1, token: Token::default() };
    let stop = Cancel::default();
    std::thread::scope(|scope| {
        let service = scope
            .spawn(|| service::serve::<ServerSide>(&Host::real(), &listener, &Admission::default(), &stop, &|_| {}));
        let server =
            PeerClient::connect(&host, &access, Duration::from_secs(10), &Cancel::default()).expect("it answers");
        let mut on_open = || {
            if stops {
                stop.cancel();
            }
        };
        let result = run_with(
            Server::new(server),
            &setup(changes),
            &host,
            TrialContext {
                parameters: &Parameters::default(),
                warmup_ns: 20_000_000,
                duration_ns: 200_000_000,
                seed: 1,
                cancel: Cancel::default(),
                enough: Cancel::default(),
                window: &mut NoCollectors(&mut on_open),
            },
        );
        stop.cancel();
        service.join().expect("ends").expect("the listener stays usable");
        result
    })
}

fn value<'a>(result: &'a TrialResult, id: &str) -> &'a Measured {
    &result.measurements.iter().find(|m| m.metric == id).expect("every metric is there").value
}

#[test]
fn what_one_machine_sends_the_other_receives() {
    for mode in ["write", "read", "both"] {
        for (connections, workers, sharing) in [(1i64, 1i64, "threads"), (5, 2, "threads"), (4, 4, "processes")] {
            let changes: [(&str, Value); 4] = [
                ("mode", mode.into()),
                ("connections", connections.into()),
                ("workers", workers.into()),
                ("sharing", sharing.into()),
            ];
            let result = run(&changes, false).unwrap_or_else(|p| panic!("{changes:?}: {p}"));
            let of = |id: &str| value(&result, id).value().unwrap_or_else(|| panic!("{id}: {:?}", value(&result, id)));
            assert_eq!(of("bytes_sent"), of("bytes_received"), "{changes:?}");
            assert!(of("throughput_gbit_per_s") > 0.0, "{changes:?}");
            assert!(of("client_cpu_s_per_gb") > 0.0 && of("server_cpu_s_per_gb") > 0.0, "{changes:?}");
            let absent = Measured::Absent("the two ends have clocks of their own".to_owned());
            assert_eq!(value(&result, "transfer_p50_us"), &absent);
            assert!(result.histograms.is_empty());
        }
    }
}

#[test]
fn a_server_end_that_goes_away_voids_the_trial() {
    let problem = run(&[("mode", "write".into()), ("connections", 2.into())], true).expect_err("it is gone");
    assert_eq!(problem.kind, holdup_model::ProblemKind::Trial, "{problem}");
}

#[test]
fn orders_out_of_turn_or_bounds_are_refused_and_leave_nothing() {
    let host = Host::real();
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let begin = |connections: usize, workers: usize, size: u64| {
        Order::Begin(Begin {
            sends: vec![true; connections],
            size,
            workers,
            processes: false,
            interval_ns: 0,
            no_delay: false,
            send_buffer: None,
            receive_buffer: None,
        })
    };
    let refused = |server: &mut ServerSide, order: Order| match server.carry_out(&host, here, order) {
        Err(problem) => problem.to_string(),
        other => panic!("{other:?}"),
    };
    let mut server = ServerSide::default();
    for order in [Order::Read, Order::End, Order::Work(Vec::new())] {
        assert!(refused(&mut server, order).contains("out of turn"));
    }
    for (connections, workers, size) in [(0, 1, 1), (1001, 1, 1), (1, 2, 1), (1, 0, 1), (1, 1, 0)] {
        assert!(refused(&mut server, begin(connections, workers, size)).contains("from 1 to 1000"));
    }
    assert!(matches!(server.carry_out(&host, here, begin(2, 1, 100)), Ok(Answer::Listening(_))));
    assert!(refused(&mut server, Order::Work(Vec::new())).contains("as many addresses"));
    assert!(refused(&mut server, Order::Read).contains("out of turn"), "the listener is gone");
}
