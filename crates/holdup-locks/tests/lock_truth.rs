//! What the workers of `lock-contention` record of themselves, checked while all of them are stopped: nothing moves then, so
//! the lock and the roles must agree.

use holdup_catalogue::lock_contention;
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, TrialContext, TrialResult, WindowHooks};
use holdup_locks::algorithms;
use holdup_locks::lock::Reach;
use holdup_locks::truth::{LOCK_BYTES, Predicate, Published, STATE_BYTES, Truth, role};
use holdup_model::{Parameters, Problem, ProblemKind, Value, Window};
use holdup_workloads::find;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::path::Path;
use std::time::Duration;

struct Hooks<'a>(&'a mut dyn FnMut());

impl WindowHooks for Hooks<'_> {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        (self.0)();
        Ok(())
    }
    fn close(&mut self) -> Result<Window, Problem> {
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: 1 })
    }
}

/// One trial. What counts is what `on_open` sees: on a machine that does much else, a holder that is not on a CPU may keep all
/// others from the lock for the whole window, which makes the trial void.
fn run(parameters: &Parameters, on_open: &mut dyn FnMut()) -> Result<(), Problem> {
    match trial(parameters, on_open) {
        Err(problem) if problem.what == "the window" => Ok(()),
        other => other.map(|_| ()),
    }
}

fn trial(parameters: &Parameters, on_open: &mut dyn FnMut()) -> Result<TrialResult, Problem> {
    let mut session = find("lock-contention").expect("it is in the catalogue").prepare(PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters,
        combinations: std::slice::from_ref(parameters),
        metrics: &[],
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    })?;
    session.run(TrialContext {
        parameters,
        warmup_ns: 5_000_000,
        duration_ns: 30_000_000,
        seed: 7,
        cancel: Cancel::default(),
        enough: Cancel::default(),
        window: &mut Hooks(on_open),
    })
}

fn parameters(path: &Path, changes: &[(&str, Value)]) -> Parameters {
    let mut parameters = lock_contention::Parameters::defaults(4);
    parameters.set("truth", path.to_str().expect("UTF-8"));
    parameters.set("section", 2_000);
    parameters.set("think", 1_000);
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    parameters
}

/// Reads another process's memory, as it stands.
fn peek<const N: usize>(pid: u32, address: u64) -> [u8; N] {
    let mut bytes = [0u8; N];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: N };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: N };
    // SAFETY: the local buffer is ours and as long as said; the kernel checks the other one.
    let read = unsafe { libc::process_vm_readv(pid as i32, &raw const local, 1, &raw const remote, 1, 0) };
    assert_eq!(read, N as isize, "{}", std::io::Error::last_os_error());
    bytes
}

fn pid(worker: u32) -> Pid {
    Pid::from_raw(worker as i32).expect("not 0")
}

/// The roles of all workers and the lock's first bytes, while all are stopped.
fn stopped(published: &Published) -> (Vec<Truth>, [u8; LOCK_BYTES]) {
    for worker in &published.workers {
        kill_process(pid(worker.pid), Signal::STOP).expect("it is ours");
    }
    for worker in &published.workers {
        waitid(WaitId::Pid(pid(worker.pid)), WaitIdOptions::STOPPED).expect("it stops");
    }
    let first = published.workers[0];
    let lock: [u8; LOCK_BYTES] = peek(first.pid, first.lock_address);
    let of = |worker: &holdup_locks::truth::WorkerTruth| {
        let own: [u8; LOCK_BYTES] = peek(worker.pid, worker.lock_address);
        assert_eq!(own, lock, "one lock");
        role(worker.predicate, &lock, &peek::<STATE_BYTES>(worker.pid, worker.state_address)).expect("enough bytes")
    };
    let roles = published.workers.iter().map(of).collect();
    for worker in &published.workers {
        kill_process(pid(worker.pid), Signal::CONT).expect("it is ours");
    }
    (roles, lock)
}

fn the_record_agrees_with_the_lock_whenever_the_workers_are_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("truth");
    for entry in algorithms::usable().filter(|a| a.reach == Reach::AllProcesses) {
        let algorithm = entry.meta.id;
        for record in ["lock-word", "owner-word"] {
            let changes: [(&str, Value); 3] =
                [("algorithm", algorithm.into()), ("sharing", "processes".into()), ("truth_record", record.into())];
            let (mut holders, mut waiters, mut ambiguous, mut looks) = (0, 0, 0, 0);
            // With more workers than CPUs the next of a queue is rarely on a CPU when its turn comes: no holder is named until it
            // is, and all that queue are ambiguous.
            let in_turn = |ambiguous: usize| if entry.properties.fair { ambiguous } else { 0 };
            run(&parameters(&path, &changes), &mut || {
                let published = Published::read(&path).expect("it is there when the window opens");
                assert_eq!((published.algorithm.as_str(), published.workers.len()), (algorithm, 4));
                assert_eq!(published.section, format!("lock-contention: {algorithm}"));
                // Until both roles were seen; a machine that does much else meanwhile may take long for that.
                while looks < 20 || (holders + ambiguous == 0 || waiters + in_turn(ambiguous) == 0) && looks < 10_000 {
                    looks += 1;
                    let (roles, lock) = stopped(&published);
                    let count = |wanted| roles.iter().filter(|role| **role == wanted).count();
                    let (holds, unsure) = (count(Truth::Holder), count(Truth::Ambiguous));
                    let words: Vec<u32> =
                        lock.chunks(4).map(|w| u32::from_ne_bytes(w.try_into().expect("4 bytes"))).collect();
                    let state = format!("{algorithm}, {record}: {roles:?}, lock {:?}", &words[..4]);
                    match published.workers[0].predicate {
                        Predicate::LockWordEquals(_) => {
                            assert_eq!((holds, unsure), (usize::from(words[0] != 0), 0), "{state}");
                        }
                        Predicate::TicketServed => {
                            assert!(holds + unsure <= usize::from(words[0] != words[1]), "{state}");
                        }
                        Predicate::OwnerWordAlone(_) => assert!(holds <= 1 && (holds == 0 || unsure == 0), "{state}"),
                        Predicate::OwnerWordEquals(_) | Predicate::OwnerTid(_) => {
                            assert!(
                                if words[0] == 0 { holds + unsure == 0 } else { (holds == 1) != (unsure > 0) },
                                "{state}"
                            );
                        }
                    }
                    holders += holds;
                    waiters += count(Truth::Waiter);
                    ambiguous += unsure;
                    std::thread::sleep(Duration::from_micros(200));
                }
            })
            .unwrap_or_else(|p| panic!("{algorithm} with {record}: {p}"));
            println!(
                "{algorithm}, {record}: {looks} looks, {holders} holders, {waiters} waiters, {ambiguous} ambiguous"
            );
            // A ticket's holder is mostly one that is served while it is not on a CPU.
            assert!(holders + ambiguous > 0 && waiters + in_turn(ambiguous) > 0, "{algorithm} with {record}");
            assert!(!path.exists(), "what was published goes with its trial");
        }
    }
}

fn threads_are_published_with_their_own_ids() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("truth");
    run(&parameters(&path, &[]), &mut || {
        let workers = Published::read(&path).expect("it is there").workers;
        let mut tids: Vec<_> = workers.iter().map(|w| w.tid).collect();
        assert!(tids.iter().all(|tid| Path::new(&format!("/proc/self/task/{tid}")).exists()), "{tids:?}");
        tids.dedup();
        assert_eq!(tids.len(), 4);
        assert!(workers.iter().all(|w| w.pid == std::process::id()));
        assert!(workers.iter().zip(1..).all(|(w, name)| w.predicate == Predicate::LockWordEquals(name)));
    })
    .expect("it runs");
}

fn a_path_that_cannot_be_written_is_reported() {
    let top = tempfile::tempdir().expect("a folder");
    let path = top.path().join("missing/truth");
    let problem = run(&parameters(&path, &[]), &mut || {}).expect_err("no folder");
    assert_eq!((problem.kind, problem.what), (ProblemKind::Usage, format!("truth {}", path.display())));
}

holdup_testkit::tests!(
    threads_are_published_with_their_own_ids,
    a_path_that_cannot_be_written_is_reported;
    truth:
    the_record_agrees_with_the_lock_whenever_the_workers_are_stopped
);
