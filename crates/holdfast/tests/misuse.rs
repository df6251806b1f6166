//! Misuse that the C header names under `HOLDFAST_DEBUG`, and the Rust locks with the feature `debug`.

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn compile(name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("misuse");
    std::fs::create_dir_all(&folder).expect("the folder of the tests can be written");
    let out = folder.join(name);
    let root = Path::new(ROOT);
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic", "-O1", "-pthread", "-D_GNU_SOURCE"])
        .args(flags)
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join("tests/c/misuse.c"))
        .arg("-o")
        .arg(&out)
        .output()
        .expect("cc is here: other tests need it too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// The line of the source in which a text stands first.
fn line(text: &str) -> usize {
    let source = std::fs::read_to_string(Path::new(ROOT).join("tests/c/misuse.c")).expect("it is there");
    1 + source.lines().position(|line| line.contains(text)).expect("the text is in the source")
}

#[test]
fn c_misuse_is_named_with_file_and_line_and_ends_the_program() {
    let (aborts, returns) = (
        compile("aborts", &["-DHOLDFAST_DEBUG"]),
        compile("returns", &["-DHOLDFAST_DEBUG", "-DHOLDFAST_DEBUG_RETURN"]),
    );
    let taken = format!("took it at {}/tests/c/misuse.c:{}", ROOT, line("TAKEN BY ANOTHER"));
    let by_other = format!("thread *: {taken}");
    for (what, expect, error) in [
        ("unlock_of_another", &["unlock of mutex 0x", "does not hold it; thread ", &taken][..], libc::EPERM),
        ("unlock_twice", &["unlock of mutex 0x", "no thread holds it; thread ", " gave it back at "], libc::EPERM),
        ("unlock_of_none", &["unlock of mutex 0x", "no thread holds it"], libc::EPERM),
        ("lock_twice", &["lock of mutex 0x", "waits for itself; it took it at "], libc::EDEADLK),
        ("destroy_held", &["destruction of mutex 0x", &by_other.replace("thread *: ", "")], libc::EBUSY),
        ("use_destroyed", &["lock of mutex 0x", "it was destroyed at "], libc::EINVAL),
        ("wait_without_mutex", &["wait with mutex 0x", "no thread holds it"], libc::EPERM),
        ("write_twice", &["write lock of rwlock 0x", "waits for itself; it took it at "], libc::EDEADLK),
        ("write_under_read", &["write lock of rwlock 0x", "waits for itself; it took it at "], libc::EDEADLK),
        ("read_unlock_of_none", &["unlock of rwlock 0x", "no thread holds it"], libc::EPERM),
    ] {
        let aborted = Command::new(&aborts).arg(what).output().expect("it was compiled");
        let said = String::from_utf8_lossy(&aborted.stderr);
        assert!(said.starts_with(&format!("holdfast: {ROOT}/tests/c/misuse.c:")), "{what}: {said:?}");
        assert!(expect.iter().all(|part| said.contains(part)), "{what}: {said:?} lacks one of {expect:?}");
        assert_eq!(said.lines().count(), 1, "{what}: {said}");
        assert!(aborted.status.code().is_none(), "{what}: it was not aborted: {}", aborted.status);
        let returned = Command::new(&returns).arg(what).output().expect("it was compiled");
        assert_eq!(returned.status.code(), Some(error), "{what}");
        assert_eq!(String::from_utf8_lossy(&returned.stderr).lines().count(), 1, "{what}");
    }
    for program in [aborts, returns] {
        let good = Command::new(program).output().expect("it was compiled");
        assert_eq!((good.status.code(), good.stderr), (Some(0), Vec::new()), "good use is complained about");
    }
}

#[test]
fn without_the_macro_the_header_complains_of_nothing() {
    let plain = compile("plain", &[]);
    for what in ["", "unlock_twice", "unlock_of_another"] {
        let output = Command::new(&plain).arg(what).output().expect("it was compiled");
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{what}");
    }
}

#[cfg(feature = "debug")]
mod rust {
    use holdfast::{Mutex, Private, RawMutex};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// What a panic says.
    fn message(misuse: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(misuse)).expect_err("misuse panics");
        panic.downcast_ref::<String>().cloned().expect("a text")
    }

    #[test]
    fn a_mutex_that_its_thread_takes_again_panics_with_both_places() {
        let mutex = Mutex::new(1);
        let first = line!() + 1;
        let guard = mutex.lock();
        let second = line!() + 1;
        let said = message(|| drop(mutex.lock()));
        assert!(said.contains(&format!("{}:{first}:", file!())), "{said}");
        assert!(said.contains("takes it again at") && said.contains(&format!("{}:{second}:", file!())), "{said}");
        assert_eq!(*guard, 1);
        drop(guard);
        assert_eq!(*mutex.lock(), 1, "the lock works on");
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn a_raw_mutex_that_another_thread_gives_back_panics_with_the_place() {
        let mutex = RawMutex::<Private>::new();
        // SAFETY: the misuse panics before it changes the lock.
        let give = || message(|| unsafe { mutex.unlock() });
        let said = give();
        assert!(said.contains("no thread holds it"), "{said}");
        let taken = line!() + 1;
        mutex.lock();
        let said = std::thread::scope(|scope| scope.spawn(give).join().expect("the panic was caught"));
        assert!(said.contains("does not hold it") && said.contains(&format!("{}:{taken}:", file!())), "{said}");
        // SAFETY: this thread holds it.
        unsafe { mutex.unlock() };
        assert!(!mutex.is_locked());
    }
}
