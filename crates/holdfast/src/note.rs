//! Points of critical sections that a binary declares in an ELF note, for tools that attribute switches to locks.

/// Declares that the place where it stands is a point of a critical section.
///
/// `holdup record` sees from the instruction pointer of a task that was switched out whether it holds a lock or waits for one. Where
/// code declares its points, no analysis has to find them; the locks of this crate do. A point costs no instruction: the
/// assembler writes the address of the place into the section `.note.holdup`, which is not loaded. Code that the compiler copies
/// (inlined, unrolled, one instance for each type) gives a point for each copy.
///
/// The first argument is one of
/// - `acquired`: a task at this address holds the lock,
/// - `released`: it holds it no longer; the instruction before gave it back,
/// - `waiting`: it wants the lock and does not have it,
/// - `waiting_no_longer`: it has given up;
///
/// the second the name of the section, the third the number of the lock: points with the same number belong together. Both are
/// literals.
///
/// # Format
///
/// Section `.note.holdup`, of type `SHT_NOTE`, not allocated, aligned to 4: one note after the other, each an `Elf64_Nhdr`
/// (`n_namesz` 7, `n_descsz`, `n_type` 1), the name `holdup\0` and one byte of padding, and a description in the byte order
/// of the file, padded to 4:
///
/// | bytes | what |
/// |---|---|
/// | 8 | address of the point, as the file's section headers count |
/// | 2 | kind: 1 acquired, 2 released, 3 waiting, 4 waiting no longer |
/// | 2 | 0 |
/// | 4 | number of the lock |
/// | rest | name of the section, ended by a zero byte |
///
/// The linker may drop code (`--gc-sections`) and keep its notes. GNU ld then keeps the code as well; lld writes the
/// distance of the point from the begin of its function, or 0. Such an address does not lie in an executable section, by
/// which a reader knows that it is to be ignored.
///
/// # Order
///
/// The statement is an `asm!` that may read and write memory as far as the compiler knows, so it stays between the memory accesses
/// (atomic ones among them) that stand before and after it in the program. Arithmetic in registers may still move across
/// it: a few instructions that do not touch memory can lie on the wrong side of a point.
#[macro_export]
macro_rules! point {
    (acquired, $section:literal, $lock:literal) => { $crate::point!(@1, $section, $lock) };
    (released, $section:literal, $lock:literal) => { $crate::point!(@2, $section, $lock) };
    (waiting, $section:literal, $lock:literal) => { $crate::point!(@3, $section, $lock) };
    (waiting_no_longer, $section:literal, $lock:literal) => { $crate::point!(@4, $section, $lock) };
    (@$kind:literal, $section:literal, $lock:literal) => {{
        // In the flags of the section, `?` makes the note share the fate of a function that the linker keeps once.
        #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
        // SAFETY: no instruction at all.
        unsafe {
            core::arch::asm!(
                "991:",
                ".pushsection .note.holdup,\"?\",@note",
                ".balign 4",
                ".4byte 7, 993f - 992f, 1",
                ".asciz \"holdup\"",
                ".balign 4",
                "992:",
                ".8byte 991b",
                concat!(".2byte ", stringify!($kind), ", 0"),
                concat!(".4byte ", stringify!($lock)),
                concat!(".asciz \"", $section, "\""),
                "993:",
                ".balign 4",
                ".popsection",
                options(nostack, preserves_flags)
            );
        }
    }};
}

/// A point of a [`Mutex`](crate::Mutex): `holdfast.h` declares the same.
macro_rules! mutex_point {
    ($kind:ident) => {
        $crate::point!($kind, "holdfast: mutex", 1751539713)
    };
}
pub(crate) use mutex_point;

/// A point of a [`RwLock`](crate::RwLock) that is held alone.
macro_rules! write_point {
    ($kind:ident) => {
        $crate::point!($kind, "holdfast: rwlock, writer", 1751539714)
    };
}
pub(crate) use write_point;

/// A point of a [`RwLock`](crate::RwLock) that is held together with others.
macro_rules! read_point {
    ($kind:ident) => {
        $crate::point!($kind, "holdfast: rwlock, reader", 1751539715)
    };
}
pub(crate) use read_point;
