//! The independent probe: a BPF program that belongs to the test alone.

use aya::maps::{HashMap, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use holdup_locks::truth::Published;
use object::{Object as _, ObjectSection as _};
use std::path::Path;
use std::process::Command;

const FRAMES: usize = 12;

/// `struct left`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub(crate) ns: u64,
    pub(crate) tid: u32,
    pub(crate) failed: u32,
    pub(crate) lock: [u8; 128],
    pub(crate) state: [u8; 8],
    pub(crate) ip: u64,
    pub(crate) asked: [u64; FRAMES],
    pub(crate) next_prio: u32,
    pub(crate) preempt: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Worker {
    lock_address: u64,
    state_address: u64,
}
// SAFETY: integers without padding.
unsafe impl Pod for Worker {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Asked([u64; FRAMES]);
// SAFETY: integers without padding.
unsafe impl Pod for Asked {}

/// The section of this test's own file that has the compiled program where there is no compiler: in a guest
/// (script/guests-arm64 adds it).
const CARRIED: &str = ".truth";

fn carried() -> Option<Vec<u8>> {
    let this = std::fs::read("/proc/self/exe").expect("it runs");
    let elf = object::File::parse(this.as_slice()).expect("an ELF file");
    Some(elf.section_by_name(CARRIED)?.data().expect("it is inside the file").to_vec())
}

fn compiled() -> Vec<u8> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("truth.o");
    let headers = here.join("../holdup-evidence/src/kernel/bpf");
    let status = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c", "-o"])
        .arg(&object)
        .arg(format!("-I{}", headers.display()))
        .arg(here.join("tests/ground_truth/truth.bpf.c"))
        .status();
    assert!(status.expect("clang, which the build needs as well").success());
    std::fs::read(&object).expect("it was written")
}

/// The program at work.
pub(crate) struct TruthProbe(Ebpf);

impl TruthProbe {
    /// Compiles, loads and attaches it for these workers.
    pub(crate) fn of(published: &Published) -> Self {
        let object = carried().unwrap_or_else(compiled);
        let btf = Btf::from_sys_fs().expect("BTF");
        let mut object = EbpfLoader::new().btf(Some(&btf)).load(&object).expect("the object loads");
        let mut workers: HashMap<_, u32, Worker> =
            HashMap::try_from(object.map_mut("workers").expect("workers")).expect("a hash");
        for w in &published.workers {
            let worker = Worker { lock_address: w.lock_address, state_address: w.state_address };
            workers.insert(w.tid, worker, 0).expect("room");
        }
        let mut requests: HashMap<_, u32, Asked> =
            HashMap::try_from(object.map_mut("requests").expect("requests")).expect("a hash");
        for w in &published.workers {
            requests.insert(w.tid, Asked([0; FRAMES]), 0).expect("room");
        }
        for (program, tracepoint) in [("is_asked", "sched_set_need_resched_tp"), ("leaves", "sched_switch")] {
            let program: &mut BtfTracePoint =
                object.program_mut(program).expect("the program").try_into().expect("a tracepoint");
            // Before 6.18 no tracepoint says why a task is asked to leave.
            if let Err(error) = program.load(tracepoint, &btf) {
                assert!(tracepoint != "sched_switch", "{error}");
                continue;
            }
            program.attach().expect("it attaches");
        }
        TruthProbe(object)
    }

    /// Detaches; gives what it saw, in the order of time.
    pub(crate) fn end(mut self) -> Vec<Left> {
        for program in ["leaves", "is_asked"] {
            let program: &mut BtfTracePoint =
                self.0.program_mut(program).expect("the program").try_into().expect("a tracepoint");
            let _detached = program.unload();
        }
        let mut ring = RingBuf::try_from(self.0.map_mut("lefts").expect("lefts")).expect("a ring");
        let mut lefts = Vec::new();
        while let Some(item) = ring.next() {
            assert!(item.len() >= size_of::<Left>());
            // SAFETY: the item is a `struct left`, which consists of integers.
            lefts.push(unsafe { item.as_ptr().cast::<Left>().read_unaligned() });
        }
        lefts.sort_by_key(|left| left.ns);
        lefts
    }
}
