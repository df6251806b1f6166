//! `holdfast.h`: compiled by each compiler, alone and together with Rust processes on one page of shared memory.

use holdfast::{Condvar, Once, RawMutex, RawRwLock, RobustMutex, Shared, Taken};
use std::cell::UnsafeCell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// As `struct page` of `tests/c/worker.c`.
#[repr(C)]
struct Page {
    mutex: RawMutex<Shared>,
    cond: Condvar<Shared>,
    rwlock: RawRwLock<Shared>,
    once: Once<Shared>,
    counts: UnsafeCell<[u64; 4]>,
    robust: RobustMutex,
    inside: AtomicU64,
    rounds: AtomicU64,
    is_over: AtomicU64,
}

// SAFETY: `counts` is touched under the locks of the page.
unsafe impl Sync for Page {}

impl Page {
    /// One of the four counts.
    fn count(&self, n: usize) -> *mut u64 {
        self.counts.get().cast::<u64>().wrapping_add(n)
    }
}

/// A page of zeros that children inherit by its descriptor.
fn page() -> (OwnedFd, &'static Page) {
    // SAFETY: a new descriptor and a new mapping, which is never unmapped; zeros are free locks.
    unsafe {
        let descriptor = libc::memfd_create(c"holdfast".as_ptr(), 0);
        assert!(descriptor >= 0);
        let descriptor = OwnedFd::from_raw_fd(descriptor);
        assert_eq!(libc::ftruncate(descriptor.as_raw_fd(), size_of::<Page>() as libc::off_t), 0);
        let may = libc::PROT_READ | libc::PROT_WRITE;
        let place =
            libc::mmap(std::ptr::null_mut(), size_of::<Page>(), may, libc::MAP_SHARED, descriptor.as_raw_fd(), 0);
        assert_ne!(place, libc::MAP_FAILED);
        (descriptor, &*place.cast())
    }
}

/// Both locks' words, as the kernel and the other processes see them.
fn words(page: &Page) -> String {
    // SAFETY: the page is mapped; other processes may write meanwhile, which a dump may see.
    let all = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(page).cast::<u32>(), size_of::<Page>() / 4) };
    let hex: Vec<String> = all.iter().enumerate().map(|(n, word)| format!("{}:{word:#x}", n * 4)).collect();
    hex.join(" ")
}

fn compilers() -> Vec<&'static str> {
    let is_here = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let found: Vec<_> = ["cc", "gcc", "clang"].into_iter().filter(is_here).collect();
    assert!(!found.is_empty(), "no C compiler: these tests need cc, gcc or clang");
    // cc is one of the others where they are.
    if found.len() > 1 { found.into_iter().filter(|name| *name != "cc").collect() } else { found }
}

const C11: [&str; 3] = ["-std=c11", "-x", "c"];
const CPP17: [&str; 3] = ["-std=c++17", "-x", "c++"];

/// Compiles the worker. Panics with the compiler's words.
fn compile(compiler: &str, language: &[&str], flags: &[&str], out: &Path) {
    compile_source("worker", compiler, language, flags, out);
}

fn compile_source(name: &str, compiler: &str, language: &[&str], flags: &[&str], out: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(compiler)
        .args(language)
        .args(["-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic", "-pthread", "-D_GNU_SOURCE"])
        .args(flags)
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(format!("tests/c/{name}.c")))
        .arg("-o")
        .arg(out)
        .output()
        .expect("the compiler was found");
    assert!(output.status.success(), "{compiler} {language:?} {flags:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("the folder of the tests can be written");
    folder
}

#[test]
fn the_header_alone_compiles_as_strict_c11_and_cpp17_without_warnings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for compiler in compilers() {
        for language in [C11, CPP17] {
            let output = Command::new(compiler)
                .args(language)
                .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "/dev/null", "-include"])
                .arg(root.join("include/holdfast.h"))
                .output()
                .expect("the compiler was found");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler} {language:?}: {said}");
        }
    }
}

#[test]
fn the_worker_passes_at_every_optimisation_in_c_and_cpp() {
    let folder = folder("optimisations");
    for compiler in compilers() {
        for (n, language) in [C11, CPP17].iter().enumerate() {
            for level in ["-O0", "-O1", "-O2", "-O3"] {
                let program = folder.join(format!("{compiler}{n}{level}"));
                let library: &[&str] = if n == 1 { &["-lstdc++"] } else { &[] };
                compile(compiler, language, &[&[level], library].concat(), &program);
                run(&program);
            }
        }
    }
}

#[test]
fn the_worker_passes_under_the_sanitisers_of_addresses_and_undefined_behaviour() {
    let folder = folder("sanitisers");
    for compiler in compilers() {
        let program = folder.join(compiler);
        let flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        if !links(compiler, flags[2], &folder) {
            println!("{compiler} has no libraries of the sanitisers here");
            continue;
        }
        compile(compiler, &C11, &flags, &program);
        run(&program);
    }
}

/// The orders of the atomics are those that the data needs: a relaxed release is found.
#[test]
fn the_worker_has_no_data_race_and_one_with_a_weaker_release_has() {
    let folder = folder("races");
    let header = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/holdfast.h"))
        .expect("the header is there");
    let (strong, weak) =
        ("__atomic_exchange_n(word, left, __ATOMIC_RELEASE)", "__atomic_exchange_n(word, left, __ATOMIC_RELAXED)");
    assert_eq!(header.matches(strong).count(), 1);
    std::fs::write(folder.join("holdfast.h"), header.replace(strong, weak))
        .expect("the folder of the tests can be written");
    let weaker = format!("-I{}", folder.display());
    for compiler in compilers() {
        if !links(compiler, "-fsanitize=thread", &folder) {
            println!("{compiler} has no libraries of the sanitiser here");
            continue;
        }
        for (name, more, is_right) in [("right", None, true), ("weaker", Some(&*weaker), false)] {
            let program = folder.join(format!("{compiler}-{name}"));
            // The first folder with the header counts.
            let flags: Vec<&str> = more.into_iter().chain(["-O1", "-g", "-fsanitize=thread"]).collect();
            compile(compiler, &C11, &flags, &program);
            let output = Command::new(&program).arg("threads").output().expect("it was compiled");
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("unexpected memory mapping") {
                println!("the sanitiser of {compiler} does not know how this kernel lays out memory");
                break;
            }
            assert_eq!(said.contains("data race"), !is_right, "{compiler}, {name}: {said}");
        }
    }
}

/// True if a program of nothing can be made with this flag: a compiler may be installed without its libraries.
fn links(compiler: &str, flag: &str, folder: &Path) -> bool {
    let nothing = folder.join("nothing.c");
    std::fs::write(&nothing, "int main(void) { return 0; }\n").expect("the folder of the tests can be written");
    let out = folder.join("nothing");
    Command::new(compiler).arg(flag).arg(&nothing).arg("-o").arg(out).output().is_ok_and(|out| out.status.success())
}

fn run(program: &Path) {
    let output = Command::new(program).arg("threads").output().expect("it was compiled");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {:?} {said}", program.display(), output.status);
}

fn worker(program: &Path, what: &str, descriptor: &OwnedFd, rounds: u32) -> Child {
    Command::new(program)
        .args([what.to_owned(), descriptor.as_raw_fd().to_string(), rounds.to_string()])
        .spawn()
        .expect("it was compiled")
}

/// `tests/c/clock.c` looks at what is asked of the kernel.
#[test]
fn a_wait_on_either_clock_leaves_the_deadline_to_the_kernel_and_reads_no_time() {
    let folder = folder("clock");
    for compiler in compilers() {
        let program = folder.join(compiler);
        compile_source("clock", compiler, &C11, &["-O1"], &program);
        run(&program);
    }
}

/// Half a minute for what takes a second: then a wake-up was lost, and the words say where.
fn wait_for(child: &mut Child, page: &Page) {
    for _ in 0..30_000 {
        if let Some(status) = child.try_wait().expect("a child of this test") {
            assert!(status.success(), "{status}: {}", words(page));
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _is_dead = child.kill();
    panic!("a process sleeps for ever: {}", words(page));
}

#[test]
fn c_and_rust_processes_share_locks_on_a_page() {
    const ROUNDS: u32 = 20_000;
    let program = folder("mixed").join("worker");
    compile(compilers()[0], &C11, &["-O2"], &program);
    let (descriptor, page) = page();
    let mut children: Vec<Child> = (0..3).map(|_| worker(&program, "page", &descriptor, ROUNDS)).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    page.mutex.lock();
                    // SAFETY: the mutex is held.
                    unsafe {
                        *page.count(0) += 1;
                        page.mutex.unlock();
                    }
                    if round % 4 == 0 {
                        page.rwlock.lock_exclusive();
                        // SAFETY: the lock is held alone.
                        unsafe {
                            *page.count(1) += 1;
                            *page.count(2) += 1;
                            page.rwlock.unlock_exclusive();
                        }
                    }
                }
            });
        }
        // Sleeps until the C processes have notified it of each turn.
        scope.spawn(|| {
            let turns = u64::from(3 * (ROUNDS / 16));
            page.mutex.lock();
            // SAFETY: the mutex is held at each look.
            unsafe {
                while *page.count(3) < turns * 2 {
                    page.cond.wait_raw(&page.mutex, None);
                }
                page.mutex.unlock();
            }
        });
        children.iter_mut().for_each(|child| wait_for(child, page));
    });
    // SAFETY: all others have ended.
    let counts = unsafe { *page.counts.get() };
    let (all, writes) = (u64::from(5 * ROUNDS), u64::from(5 * ROUNDS / 4));
    assert_eq!(counts, [all, writes, writes, u64::from(3 * (ROUNDS / 16)) * 2], "{}", words(page));
    assert!(!page.mutex.is_locked() && !page.rwlock.is_locked() && !page.once.is_done());
}

/// C processes are killed while they and Rust threads take one robust lock.
#[test]
fn c_processes_that_are_killed_stop_neither_rust_nor_c() {
    let kills = std::env::var("HOLDFAST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(150usize);
    let program = folder("robust").join("worker");
    compile(compilers()[0], &C11, &["-O2"], &program);
    let (descriptor, page) = page();
    let mut children: Vec<Child> = (0..4).map(|_| worker(&program, "robust", &descriptor, 0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while page.is_over.load(SeqCst) == 0 {
                    // SAFETY: the page stays mapped.
                    let taken = unsafe { page.robust.lock() }.expect("all owners repair");
                    let others = page.inside.swap(1, SeqCst);
                    assert!(others == 0 || taken == Taken::OwnerDied, "two are inside: {}", words(page));
                    page.rounds.fetch_add(1, SeqCst);
                    page.inside.store(0, SeqCst);
                    page.robust.make_whole().expect("it is ours");
                    page.robust.unlock().expect("it is ours");
                }
            });
        }
        for n in 0..kills {
            let seen = page.rounds.load(SeqCst);
            let moves = (0..30_000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                page.rounds.load(SeqCst) != seen
            });
            assert!(moves, "no process enters any more: {}", words(page));
            let victim = n % children.len();
            children[victim].kill().expect("a child of this test");
            children[victim].wait().expect("a child of this test");
            children[victim] = worker(&program, "robust", &descriptor, 0);
        }
        page.is_over.store(1, SeqCst);
        children.iter_mut().for_each(|child| wait_for(child, page));
    });
}

/// Skipped, and said, where a tool is missing: neither is needed to use the header.
#[test]
fn the_cmake_example_and_the_pkg_config_file_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_here = |name: &str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    if is_here("cmake") && is_here("make") {
        let build = folder("cmake");
        let run = |command: &mut Command| {
            let output = command.output().expect("it is here");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run(Command::new("cmake").arg("-S").arg(root.join("examples/cmake")).arg("-B").arg(&build));
        run(Command::new("cmake").arg("--build").arg(&build));
        run(&mut Command::new(build.join("counter")));
    } else {
        println!("no cmake here");
    }
    if is_here("pkg-config") {
        let output = Command::new("pkg-config")
            .args(["--cflags", "holdfast"])
            .env("PKG_CONFIG_PATH", root.join("include"))
            .output()
            .expect("it is here");
        assert!(String::from_utf8_lossy(&output.stdout).contains("-pthread"), "{output:?}");
    } else {
        println!("no pkg-config here");
    }
}
