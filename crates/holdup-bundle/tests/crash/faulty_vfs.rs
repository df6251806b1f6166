//! A VFS for SQLite that fails on purpose.
//!
//! It is the ordinary `unix` VFS with four operations in between: opening for
//! writing, write, sync, truncate, and delete. Faults are set for one thread.
//! With none set it is the ordinary VFS, except that it does not sync, which a
//! crash of a process cannot show.

use rusqlite::ffi;
use std::cell::RefCell;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// From the n-th operation on, each fails with an input or output error.
    Io,
    /// From the n-th operation on, each fails for want of space.
    Full,
    /// As `Io`, and of the n-th operation, if it is a write, the first half is written.
    Torn,
    /// What would make the files larger than they were by more than n bytes in all fails for want of space. All else
    /// works, as on a real disk that is full.
    Growth,
    /// Nothing can be opened for writing or deleted.
    ReadOnly,
}

struct Fuse {
    fault: Fault,
    /// Operations, or bytes, that still go well.
    left: i64,
    blown: bool,
    /// The bundle, in place or as a link to its draft, and where its files are copied as they are at the first failure: what
    /// a crash leaves.
    bundle: PathBuf,
    site: Option<PathBuf>,
}

thread_local! {
    static FUSE: RefCell<Option<Fuse>> = const { RefCell::new(None) };
}

static REAL: OnceLock<Real> = OnceLock::new();

struct Real {
    open:
        unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *const c_char, *mut ffi::sqlite3_file, c_int, *mut c_int) -> c_int,
    delete: unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *const c_char, c_int) -> c_int,
}

/// The methods of one open file; `ours` is what SQLite sees, so it comes first.
#[repr(C)]
struct Methods {
    ours: ffi::sqlite3_io_methods,
    real: *const ffi::sqlite3_io_methods,
}

/// Makes the faulty VFS the default one.
pub(crate) fn install() {
    REAL.get_or_init(|| {
        // SAFETY: initialising twice is allowed, and finding the VFS named unix gives a pointer to a static or null.
        let real = unsafe {
            assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK);
            ffi::sqlite3_vfs_find(c"unix".as_ptr()).as_ref().expect("there is a VFS named unix")
        };
        let mut ours = Box::new(*real);
        ours.zName = c"faulty".as_ptr();
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        // SAFETY: the VFS lives for ever, and its other members are those of a VFS that works.
        let code = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(ours), 1) };
        assert_eq!(code, ffi::SQLITE_OK);
        Real { open: real.xOpen.expect("unix can open"), delete: real.xDelete.expect("unix can delete") }
    });
}

/// Sets a fault for this thread, after `left` operations or bytes that go well.
pub(crate) fn arm(fault: Fault, left: i64, bundle: &Path, site: Option<&Path>) {
    let fuse = Fuse { fault, left, blown: false, bundle: bundle.to_owned(), site: site.map(Path::to_owned) };
    FUSE.set(Some(fuse));
}

/// Takes the fault away. Gives back whether it has come to pass.
pub(crate) fn disarm() -> bool {
    FUSE.take().is_some_and(|fuse| fuse.blown)
}

/// An operation as the fuse sees it.
enum Operation {
    /// A write of this many bytes that extends the file by the second number.
    Write { bytes: c_int, growth: i64 },
    /// Sync, truncate, delete, the making of a journal.
    Other,
}

/// What becomes of an operation: it goes well, or it fails with a code after that number of bytes.
fn burn(operation: &Operation) -> Result<(), (c_int, c_int)> {
    FUSE.with_borrow_mut(|slot| {
        let Some(fuse) = slot else { return Ok(()) };
        let step = match (fuse.fault, operation) {
            (Fault::ReadOnly, _) => return Ok(()),
            (Fault::Growth, Operation::Write { growth, .. }) => *growth,
            (Fault::Growth, Operation::Other) => return Ok(()),
            _ => 1,
        };
        if fuse.left >= step && (fuse.fault == Fault::Growth || !fuse.blown) {
            fuse.left -= step;
            return Ok(());
        }
        let first = !std::mem::replace(&mut fuse.blown, true);
        match (fuse.fault, operation) {
            (Fault::Torn, Operation::Write { bytes, .. }) if first => Err((ffi::SQLITE_IOERR_WRITE, bytes / 2)),
            (Fault::Full | Fault::Growth, _) => Err((ffi::SQLITE_FULL, 0)),
            _ => Err((ffi::SQLITE_IOERR, 0)),
        }
    })
}

/// Copies the files as they are now, once: what is on the disk when a process ends here.
fn picture() {
    FUSE.with_borrow_mut(|slot| {
        let Some(fuse) = slot else { return };
        let Some(site) = fuse.site.take() else { return };
        let Ok(bundle) = fuse.bundle.canonicalize() else { return };
        for suffix in ["", "-journal"] {
            let name = |path: &Path| PathBuf::from([path.as_os_str(), OsStr::new(suffix)].join(OsStr::new("")));
            if name(&bundle).exists() {
                std::fs::copy(name(&bundle), name(&site)).expect("a file of a crash is copied");
            }
        }
    });
}

fn is_read_only() -> bool {
    FUSE.with_borrow(|slot| slot.as_ref().is_some_and(|fuse| fuse.fault == Fault::ReadOnly))
}

/// True if the read-only place is where this file is. Private copies are made elsewhere.
fn is_beside_the_bundle(name: *const c_char) -> bool {
    if name.is_null() {
        return false;
    }
    // SAFETY: SQLite passes the name of a file, which ends with NUL.
    let name = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes())).to_owned();
    FUSE.with_borrow(|slot| slot.as_ref().is_some_and(|fuse| name.parent() == fuse.bundle.parent()))
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    mut flags: c_int,
    out: *mut c_int,
) -> c_int {
    if is_read_only() && is_beside_the_bundle(name) && flags & ffi::SQLITE_OPEN_READWRITE != 0 {
        if flags & ffi::SQLITE_OPEN_CREATE != 0 {
            return ffi::SQLITE_CANTOPEN;
        }
        flags = flags & !ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_READONLY;
    }
    if flags & ffi::SQLITE_OPEN_CREATE != 0
        && let Err((code, _)) = burn(&Operation::Other)
    {
        picture();
        // A file without methods is one that SQLite does not close.
        // SAFETY: SQLite passes room for a file.
        unsafe { (*file).pMethods = std::ptr::null() };
        return code;
    }
    let real = REAL.get().expect("the VFS is installed");
    // SAFETY: these are SQLite's own arguments for the VFS whose members we copied.
    let code = unsafe { (real.open)(vfs, name, file, flags, out) };
    // SAFETY: after opening, the file has methods or null; they are read and replaced while no other thread has the file.
    unsafe {
        if code == ffi::SQLITE_OK
            && let Some(methods) = (*file).pMethods.as_ref()
        {
            let mut ours = *methods;
            ours.xClose = Some(close);
            ours.xWrite = Some(write);
            ours.xTruncate = Some(truncate);
            ours.xSync = Some(sync);
            let both = Box::new(Methods { ours, real: methods });
            (*file).pMethods = Box::into_raw(both).cast();
        }
    }
    code
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, _sync: c_int) -> c_int {
    if is_read_only() && is_beside_the_bundle(name) {
        return ffi::SQLITE_IOERR_DELETE;
    }
    if let Err((code, _)) = burn(&Operation::Other) {
        picture();
        return code;
    }
    // SAFETY: these are SQLite's own arguments for the VFS whose members we copied.
    unsafe { (REAL.get().expect("the VFS is installed").delete)(vfs, name, 0) }
}

/// The real methods of a file that `open` opened.
///
/// # Safety
/// `file` must be such a file, still open.
unsafe fn real(file: *mut ffi::sqlite3_file) -> ffi::sqlite3_io_methods {
    // SAFETY: `open` put a `Methods` there, and the methods that it points to are static.
    unsafe { *(*(*file).pMethods.cast::<Methods>()).real }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes each file that `open` opened once; the box is the one made there.
    unsafe {
        let both = Box::from_raw((*file).pMethods.cast::<Methods>().cast_mut());
        (*file).pMethods = both.real;
        (*both.real).xClose.expect("unix can close")(file)
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, data: *const c_void, bytes: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls this for a file that `open` opened, with `bytes` bytes at `data`.
    unsafe {
        let methods = real(file);
        let mut size = 0;
        methods.xFileSize.expect("unix knows sizes")(file, &raw mut size);
        let growth = (at + i64::from(bytes) - size).max(0);
        let real_write = methods.xWrite.expect("unix can write");
        match burn(&Operation::Write { bytes, growth }) {
            Ok(()) => real_write(file, data, bytes, at),
            Err((code, written)) => {
                if written > 0 {
                    real_write(file, data, written, at);
                }
                picture();
                code
            }
        }
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    if let Err((code, _)) = burn(&Operation::Other) {
        picture();
        return code;
    }
    // SAFETY: SQLite calls this for a file that `open` opened.
    unsafe { real(file).xTruncate.expect("unix can truncate")(file, size) }
}

unsafe extern "C" fn sync(_file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    match burn(&Operation::Other) {
        Ok(()) => ffi::SQLITE_OK,
        Err((code, _)) => {
            picture();
            code
        }
    }
}
