//! What stands in a ring.

use crate::arch;

const PERF_SAMPLE_TID: u64 = 1 << 1;
const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_SAMPLE_CALLCHAIN: u64 = 1 << 5;
const PERF_SAMPLE_REGS_USER: u64 = 1 << 12;
const PERF_SAMPLE_STACK_USER: u64 = 1 << 13;
/// What each sample has, in this order.
pub(super) const SAMPLE_TYPE: u64 =
    PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;

const PERF_SAMPLE_REGS_ABI_NONE: u64 = 0;
const PERF_SAMPLE_REGS_ABI_64: u64 = 2;
/// From here on a word of a call chain says what follows (`enum perf_callchain_context`).
const PERF_CONTEXT_MAX: u64 = (-4095_i64).cast_unsigned();
const PERF_CONTEXT_KERNEL: u64 = (-128_i64).cast_unsigned();
const MISC_COMM_EXEC: u16 = 1 << 13;

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_THROTTLE: u32 = 5;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
const RECORD_MMAP2: u32 = 10;
const RECORD_LOST_SAMPLES: u32 = 13;

/// Registers of a task in user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRegisters {
    /// Base pointer; x29.
    pub bp: u64,
    /// x30, on arm64.
    pub lr: Option<u64>,
    /// Stack pointer.
    pub sp: u64,
    /// Instruction pointer.
    pub ip: u64,
}

/// What a sample says of user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserSide<'a> {
    /// The task has none: a thread of the kernel, or one that is ending.
    None,
    /// It runs code of 32 bits.
    Bits32,
    /// Its registers, and its stack from the stack pointer on, as far as it was copied.
    Bits64(TaskRegisters, &'a [u8]),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'a> {
    /// A task was running.
    Sample {
        /// Its process.
        pid: u32,
        /// Its own id.
        tid: u32,
        /// Where it was in the kernel: the instruction pointer, then return addresses; empty in user mode.
        kernel: &'a [u64],
        /// Where it was in user mode.
        user: UserSide<'a>,
    },
    /// A process mapped code.
    Mapped {
        /// The process.
        pid: u32,
        /// First address.
        start: u64,
        /// Length, bytes.
        length: u64,
        /// Where in the file it begins, bytes.
        offset: u64,
        /// The file system's device, major and minor number, and the file's inode there; zero where there is no file.
        file: (u32, u32, u64),
        /// The file's path as the process knows it, or a name like `//anon` or `[vdso]`.
        path: String,
    },
    /// A task has another name.
    Named {
        /// The process.
        pid: u32,
        /// The task.
        tid: u32,
        name: String,
        /// By execve(2): what was mapped before is gone.
        is_exec: bool,
    },
    /// A task has begun.
    Began {
        /// Its process.
        pid: u32,
        /// Its own id.
        tid: u32,
        /// The process that it was made by.
        parent_pid: u32,
        /// The task that it was made by.
        parent_tid: u32,
    },
    /// A task has ended.
    Ended {
        /// Its process.
        pid: u32,
        /// Its own id.
        tid: u32,
    },
    /// The number of records that found no room.
    Lost(u64),
    /// The kernel stopped the clock until the next tick, because samples took it too long.
    Throttled,
}

/// Reads words and texts from a record's begin on.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes)
    }

    /// A text that ends with a zero byte.
    fn text(&mut self) -> Option<String> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&self.0[..end]).into_owned())
    }
}

/// Reads one record with its header, as [`SAMPLE_TYPE`] orders it. `chain` is memory for the addresses of a sample.
/// `Some(None)` for a kind that is not known, `None` for one that is cut or has another form.
pub fn parse<'a>(record: &'a [u8], chain: &'a mut Vec<u64>) -> Option<Option<Record<'a>>> {
    let mut cursor = Cursor(record);
    let kind = cursor.u32()?;
    let misc_and_length = cursor.u32()?;
    let misc = (misc_and_length & 0xffff) as u16;
    Some(Some(match kind {
        RECORD_SAMPLE => sample(cursor, chain)?,
        RECORD_LOST => {
            let _id = cursor.u64()?;
            Record::Lost(cursor.u64()?)
        }
        RECORD_LOST_SAMPLES => Record::Lost(cursor.u64()?),
        RECORD_THROTTLE => Record::Throttled,
        RECORD_COMM => Record::Named {
            pid: cursor.u32()?,
            tid: cursor.u32()?,
            name: cursor.text()?,
            is_exec: misc & MISC_COMM_EXEC != 0,
        },
        RECORD_FORK | RECORD_EXIT => {
            let (pid, parent_pid, tid, parent_tid) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
            match kind {
                RECORD_FORK => Record::Began { pid, tid, parent_pid, parent_tid },
                _ => Record::Ended { pid, tid },
            }
        }
        RECORD_MMAP2 => {
            let (pid, _tid) = (cursor.u32()?, cursor.u32()?);
            let (start, length, offset) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
            let file = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
            // The inode's generation; protection and flags.
            cursor.take(8 + 8)?;
            Record::Mapped { pid, start, length, offset, file, path: cursor.text()? }
        }
        _ => return Some(None),
    }))
}

fn sample<'a>(mut cursor: Cursor<'a>, chain: &'a mut Vec<u64>) -> Option<Record<'a>> {
    let (pid, tid, _time) = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
    chain.clear();
    let mut is_kernel = false;
    let length = usize::try_from(cursor.u64()?).ok()?;
    let words = cursor.take(length.checked_mul(8)?)?;
    for word in words.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_ne_bytes) {
        match word {
            PERF_CONTEXT_MAX.. => is_kernel = word == PERF_CONTEXT_KERNEL,
            address if is_kernel => chain.push(address),
            _ => {}
        }
    }
    let abi = cursor.u64()?;
    let registers = match abi {
        PERF_SAMPLE_REGS_ABI_NONE => None,
        _ => {
            let bp = cursor.u64()?;
            let lr = if arch::HAS_LINK { Some(cursor.u64()?) } else { None };
            Some(TaskRegisters { bp, lr, sp: cursor.u64()?, ip: cursor.u64()? })
        }
    };
    let room = usize::try_from(cursor.u64()?).ok()?;
    let stack = match room {
        0 => &[][..],
        _ => {
            let bytes = cursor.take(room)?;
            let copied = usize::try_from(cursor.u64()?).ok()?;
            bytes.get(..copied)?
        }
    };
    let user = match registers {
        None => UserSide::None,
        Some(registers) if abi == PERF_SAMPLE_REGS_ABI_64 => UserSide::Bits64(registers, stack),
        Some(_) => UserSide::Bits32,
    };
    Some(Record::Sample { pid, tid, kernel: chain, user })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record of these words, with its header.
    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len() + 8).expect("short");
        [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &length.to_ne_bytes(), body].concat()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    const TASK: u64 = 8 << 32 | 7;

    #[test]
    fn a_sample_has_the_kernel_s_addresses_registers_and_the_copied_part_of_the_stack() {
        let chain =
            [PERF_CONTEXT_KERNEL, 0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020, (-512_i64).cast_unsigned(), 0x40];
        let lr: &[u64] = if arch::HAS_LINK { &[0x7] } else { &[] };
        let body = [&[TASK, 99, 5][..], &chain, &[2, 0xb], lr, &[0x5, 0x1], &[16, 1, 2, 8]].concat();
        let mut memory = Vec::new();
        let whole = record(9, 2, &words(&body));
        let Some(Some(Record::Sample { pid, tid, kernel, user })) = parse(&whole, &mut memory) else {
            panic!("a sample")
        };
        assert_eq!((pid, tid, kernel), (7, 8, &[0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020][..]));
        let stack = 1_u64.to_ne_bytes();
        assert_eq!(
            user,
            UserSide::Bits64(TaskRegisters { bp: 0xb, lr: lr.first().copied(), sp: 0x5, ip: 0x1 }, &stack)
        );
        // A thread of the kernel has neither registers nor a stack.
        let whole = record(9, 1, &words(&[TASK, 99, 0, 0, 0]));
        let Some(Some(Record::Sample { user, .. })) = parse(&whole, &mut memory) else { panic!("a sample") };
        assert_eq!(user, UserSide::None);
        // More copied than there was room for.
        assert_eq!(parse(&record(9, 1, &words(&[TASK, 99, 0, 2, 1, 1, 1, 8, 0, 9])), &mut memory), None);
    }

    #[test]
    fn what_happens_beside_samples_is_read() {
        let mut memory = Vec::new();
        let mut read = |record: &[u8]| parse(record, &mut memory).map(|read| read.map(|read| format!("{read:?}")));
        let name = [&words(&[TASK])[..], b"postgres\0\0\0\0\0\0\0\0"].concat();
        let said = read(&record(3, 1 << 13, &name)).flatten().expect("a name");
        assert_eq!(said, "Named { pid: 7, tid: 8, name: \"postgres\", is_exec: true }");
        let mapped = [&words(&[TASK, 0x1000, 0x2000, 0x3000, 1, 2, 3, 4])[..], b"/usr/bin/x\0\0\0\0\0\0"].concat();
        let said = read(&record(10, 2, &mapped)).flatten().expect("a mapping");
        assert_eq!(
            said,
            "Mapped { pid: 7, start: 4096, length: 8192, offset: 12288, file: (1, 0, 2), path: \"/usr/bin/x\" }"
        );
        let task = words(&[1 << 32 | 7, 1 << 32 | 8, 55]);
        assert_eq!(
            read(&record(7, 0, &task)).flatten().as_deref(),
            Some("Began { pid: 7, tid: 8, parent_pid: 1, parent_tid: 1 }")
        );
        assert_eq!(read(&record(4, 0, &task)).flatten().as_deref(), Some("Ended { pid: 7, tid: 8 }"));
        assert_eq!(read(&record(2, 0, &words(&[1, 77]))).flatten().as_deref(), Some("Lost(77)"));
        assert_eq!(read(&record(13, 0, &words(&[78]))).flatten().as_deref(), Some("Lost(78)"));
        assert_eq!(read(&record(200, 0, &words(&[78]))), Some(None), "of a later kernel");
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_read_but_never_a_panic(kind in 0_u32..24, misc: u16, body in prop::collection::vec(any::<u64>(), 0..40)) {
            let mut memory = Vec::new();
            let small: Vec<u64> = body.iter().map(|word| if word & 1 == 0 { word >> 58 } else { *word }).collect();
            let whole = record(kind, misc, &words(&small));
            let _read = parse(&whole, &mut memory);
            let mut memory = Vec::new();
            let _cut = parse(&whole[..whole.len() / 2], &mut memory);
        }
    }
}
