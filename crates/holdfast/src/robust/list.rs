//! The list by which the kernel finds the locks of a dead thread.
//!
//! A thread has one list (set_robust_list(2)), and the C library has registered it. A second head would take the library's own
//! robust mutexes out of the kernel's sight. So a lock here joins the library's list, in its form of a node: two pointers to
//! the `next` cells of the neighbours, the first cell of the list being in the head and the cell `previous` in front of it (glibc
//! sysdeps/nptl/internaltypes.h and nptl/descr.h: `ENQUEUE_MUTEX`, `DEQUEUE_MUTEX`; the layout is the ABI of
//! process-shared mutexes). Where the library's distance from node to word is another one (musl), or no list is
//! registered, the lock cannot be robust and says so.

use super::Node;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// include/uapi/linux/futex.h: `struct robust_list_head`.
#[repr(C)]
struct Head {
    first: *mut *mut Cells,
    futex_offset: libc::c_long,
    pending: *mut *mut Cells,
}

/// A node's `next` cell is what all pointers point to.
type Cells = libc::c_void;

/// From a node's `next` cell to the word of its lock, in bytes: that of glibc on 64-bit machines.
const TO_WORD: libc::c_long = -32;

/// What the calling thread is to the kernel.
#[derive(Clone, Copy)]
pub(super) struct Thread {
    /// gettid(2).
    pub(super) id: u32,
    head: *mut Head,
}

std::thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread { id: 0, head: ptr::null_mut() }) };
}

/// The calling thread, asked of the kernel once.
#[inline]
pub(super) fn thread() -> Thread {
    let thread = THREAD.get();
    if thread.id == 0 { first() } else { thread }
}

#[cold]
fn first() -> Thread {
    static HANDLES_FORK: AtomicBool = AtomicBool::new(false);
    extern "C" fn forget() {
        THREAD.set(Thread { id: 0, head: ptr::null_mut() });
    }
    if !HANDLES_FORK.swap(true, Ordering::Relaxed) {
        // The forked child has another id. A child that was made past the C library must not use locks of this kind.
        // SAFETY: the handler touches thread-local memory alone.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    }
    let (mut head, mut bytes) = (ptr::null_mut::<Head>(), 0usize);
    // SAFETY: the call writes the two locals.
    let code = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut bytes) };
    // SAFETY: a registered head lives as long as its thread.
    let fits = code == 0 && !head.is_null() && unsafe { (*head).futex_offset } == TO_WORD;
    // SAFETY: the call has no arguments.
    let id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let thread = Thread { id, head: if fits { head } else { ptr::null_mut() } };
    THREAD.set(thread);
    thread
}

impl Thread {
    /// True if the kernel can be shown the locks of this thread.
    pub(super) fn is_listed(&self) -> bool {
        !self.head.is_null()
    }

    /// From here on the kernel looks at the lock of `node` if the thread dies.
    pub(super) fn begin(&self, node: &Node) {
        // SAFETY: the head lives as long as the thread, and the kernel reads it when the thread is dead.
        unsafe { ptr::write_volatile(&raw mut (*self.head).pending, node.next_cell().cast()) };
        compiler_fence(Ordering::SeqCst);
    }

    /// From here on it looks at the list alone.
    pub(super) fn end(&self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { ptr::write_volatile(&raw mut (*self.head).pending, ptr::null_mut()) };
    }

    /// Puts the node at the front of the list. The thread owns its lock.
    pub(super) fn link(&self, node: &Node) {
        // SAFETY: all cells are of nodes whose locks this thread holds, or of the head. The order of the stores keeps the list
        // whole for a kernel that walks it from the head by `next` cells.
        unsafe {
            let first = (&raw mut (*self.head).first).cast::<*mut Cells>();
            let second = first.read();
            node.next_cell().write(second);
            node.previous_cell().write(first.cast());
            previous_of(second).write(node.next_cell().cast());
            compiler_fence(Ordering::SeqCst);
            first.write_volatile(node.next_cell().cast());
        }
    }

    /// Takes the node out of the list. The thread owns its lock.
    pub(super) fn unlink(&self, node: &Node) {
        // SAFETY: as in `link`.
        unsafe {
            let (next, previous) = (node.next_cell().read(), node.previous_cell().read());
            previous_of(next).write(previous);
            compiler_fence(Ordering::SeqCst);
            // Bit 0 marks locks with priority inheritance, which are of the C library.
            previous.map_addr(|address| address & !1).cast::<*mut Cells>().write_volatile(next);
            compiler_fence(Ordering::SeqCst);
            node.next_cell().write(ptr::null_mut());
            node.previous_cell().write(ptr::null_mut());
        }
    }
}

/// The `previous` cell in front of a `next` cell.
///
/// # Safety
/// `next` points to the `next` cell of a node or of the head.
unsafe fn previous_of(next: *mut Cells) -> *mut *mut Cells {
    let next = next.map_addr(|address| address & !1).cast::<*mut Cells>();
    // SAFETY: both have a `previous` cell there.
    unsafe { next.sub(1) }
}
