//! The shared memory of a server, from /proc/PID/smaps of its postmaster.

/// A mapping as smaps describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mapping {
    /// What is mapped: `/dev/zero (deleted)`.
    pub(super) name: String,
    /// Its length.
    pub(super) size_bytes: u64,
    /// The size of the pages that the kernel backs it with.
    pub(super) page_bytes: Option<u64>,
    /// True if hugetlbfs backs it (`ht` among VmFlags); `None` where the flags are missing.
    pub(super) is_huge: Option<bool>,
    /// As much as transparent huge pages hold of it in this process.
    pub(super) transparent_bytes: u64,
}

/// What smaps says about the server's main shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) mapping: Mapping,
    /// True if it lies on huge pages of hugetlbfs.
    pub(super) is_huge: bool,
}

/// The main shared memory: the largest shared and writable mapping of those that can be it. Its name shows how it was
/// made (`src/backend/port/sysv_shmem.c`): anonymous memory is called `/dev/zero (deleted)` or, on huge pages,
/// `/anon_hugepage (deleted)` by the kernel, a System V segment `/SYSV…`. Segments for parallel queries and rings of
/// io_uring have other names.
pub(super) fn shared(smaps: &str) -> Option<Shared> {
    let all = mappings(smaps);
    let is_main = |mapping: &&Mapping| {
        mapping.name == "/dev/zero (deleted)"
            || mapping.name.starts_with("/SYSV")
            || mapping.name.starts_with("/anon_hugepage")
    };
    let mapping = all.iter().filter(|(shared, _)| *shared).map(|(_, mapping)| mapping).filter(is_main);
    let mapping = mapping.max_by_key(|mapping| mapping.size_bytes)?.clone();
    // Where the flags are missing, the smallest page size of any mapping is the machine's own.
    let base = all.iter().filter_map(|(_, mapping)| mapping.page_bytes).min();
    let is_huge = mapping.is_huge.unwrap_or_else(|| match (mapping.page_bytes, base) {
        (Some(its), Some(base)) if its > base => true,
        _ => mapping.name.starts_with("/anon_hugepage"),
    });
    Some(Shared { mapping, is_huge })
}

/// All mappings, each with whether it is shared and writable.
fn mappings(smaps: &str) -> Vec<(bool, Mapping)> {
    let mut all: Vec<(bool, Mapping)> = Vec::new();
    for line in smaps.lines() {
        if let Some(head) = head(line) {
            all.push(head);
            continue;
        }
        let (Some((_, mapping)), Some((key, rest))) = (all.last_mut(), line.split_once(':')) else { continue };
        let bytes = || rest.trim().strip_suffix(" kB").and_then(|kb| kb.trim().parse::<u64>().ok()?.checked_mul(1024));
        match key {
            "KernelPageSize" => mapping.page_bytes = bytes(),
            "ShmemPmdMapped" => mapping.transparent_bytes = bytes().unwrap_or(0),
            "VmFlags" => mapping.is_huge = Some(rest.split_ascii_whitespace().any(|flag| flag == "ht")),
            _ => {}
        }
    }
    all
}

/// The line `7f00-7f10 rw-s 00000000 00:01 1025 /dev/zero (deleted)`.
fn head(line: &str) -> Option<(bool, Mapping)> {
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let (begin, end) = (u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let (rights, rest) = rest.split_once(' ')?;
    let mut name = rest;
    for _ in 0..3 {
        name = name.trim_start().split_once(' ').map_or("", |(_, rest)| rest);
    }
    let is_shared = rights.starts_with("rw") && rights.ends_with('s');
    let size_bytes = end.checked_sub(begin)?;
    Some((is_shared, Mapping { name: name.trim_start().to_owned(), size_bytes, ..Mapping::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "\
55d0c0000000-55d0c0100000 r--p 00000000 fe:00 12 /usr/lib/postgresql/15/bin/postgres
Size:               1024 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
VmFlags: rd mr mw me sd
7f0000000000-7f0008e00000 rw-s 00000000 00:01 1025                       /dev/zero (deleted)
Size:             145408 kB
KernelPageSize:        4 kB
ShmemPmdMapped:        0 kB
VmFlags: rd wr sh mr mw me ms sd
7f1000000000-7f1000007000 rw-s 00000000 00:1a 3 /dev/shm/PostgreSQL.3120 (x)
Size:                 28 kB
7f1100000000-7f1100001000 rw-s 00000000 00:01 0 /SYSV0052e2c1 (deleted)
KernelPageSize:        4 kB
VmFlags: rd wr sh
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn the_main_shared_memory_is_the_largest_of_those_that_can_be_it() {
        let found = shared(SMALL).expect("it is there");
        assert_eq!((found.mapping.size_bytes, found.is_huge), (0x8e0_0000, false));
        assert_eq!(found.mapping.name, "/dev/zero (deleted)");
        let of_sysv = SMALL.replace("7f1100001000", "7f1200000000");
        assert_eq!(shared(&of_sysv).expect("there").mapping.name, "/SYSV0052e2c1 (deleted)");
        // Segments for parallel queries may be larger; they are not it.
        let parallel = SMALL.replace("7f1000007000", "7f1100000000");
        assert_eq!(shared(&parallel), Some(found));
    }

    #[test]
    fn huge_pages_are_recognised_by_flags_by_sizes_and_by_the_name() {
        let check = |text: &str, expect: bool| assert_eq!(shared(text).expect("there").is_huge, expect, "{text}");
        let huge = SMALL.replace("/dev/zero", "/anon_hugepage");
        check(&huge.replace("rd wr sh mr mw me ms sd", "rd wr sh mr mw me ms de ht sd"), true);
        check(&SMALL.replace("rd wr sh mr mw me ms sd", "rd wr sh ht sd"), true);
        let without_flags =
            |text: &str| text.lines().filter(|l| !l.starts_with("VmFlags")).collect::<Vec<_>>().join("\n");
        check(&without_flags(SMALL), false);
        check(&without_flags(&huge), true);
        let large = without_flags(SMALL).replace("ShmemPmdMapped", "KernelPageSize: 2048 kB\nShmemPmdMapped");
        check(&large, true);
        // With 64 kB pages everything is large, and nothing huge.
        check(&without_flags(SMALL).replace(" 4 kB", "64 kB"), false);
    }

    #[test]
    fn transparent_huge_pages_are_distinguished() {
        let found = shared(&SMALL.replace("ShmemPmdMapped:        0", "ShmemPmdMapped:   143360")).expect("there");
        assert_eq!((found.is_huge, found.mapping.transparent_bytes), (false, 143_360 * 1024));
    }

    #[test]
    fn what_is_cut_or_foreign_has_no_shared_memory_and_no_panic() {
        for text in
            ["", "x", "7f-7e rw-s 0 0 0 /dev/zero (deleted)", "7f00-7f10", "7f00-7f10 rw-s", "-", "a-b c d e f g"]
        {
            assert_eq!(shared(text), None, "{text:?}");
        }
        for length in 0..SMALL.len() {
            let _any = shared(&SMALL[..length]);
        }
    }
}
