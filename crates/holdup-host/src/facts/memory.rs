//! Memory: how much, in which pages, and what may move it.

use super::{from_choice_file, from_file, of_running_kernel, why};
use crate::Host;
use crate::machine::meminfo;
use holdup_model::Fact;

pub(super) fn collect(host: &Host, all: &mut Vec<Fact>) {
    const MEMINFO: &str = "/proc/meminfo";
    let text = host.read_text(MEMINFO);
    let line = |key: &str, name: &str| match &text {
        Err(e) => Fact::absent(key, MEMINFO, why(e)),
        Ok(text) => match meminfo(text, name) {
            Some(number) => Fact::read(key, number.to_string(), MEMINFO),
            None => Fact::absent(key, MEMINFO, format!("no number `{name}` in it")),
        },
    };
    all.push(of_running_kernel(host, "memory.page_bytes", "getauxval(3)", || rustix::param::page_size().to_string()));
    all.push(line("memory.total_bytes", "MemTotal").steady());
    all.push(line("memory.available_bytes", "MemAvailable"));
    all.push(line("memory.swap_total_bytes", "SwapTotal").steady());
    all.push(line("memory.swap_free_bytes", "SwapFree"));
    all.push(line("memory.huge_page_bytes", "Hugepagesize"));
    // The count of the sysctl and not of meminfo: that one also holds surplus pages, which come and go with their users.
    all.push(from_file(host, "memory.huge_pages_reserved", "/proc/sys/vm/nr_hugepages").steady());
    all.push(line("memory.huge_pages_total", "HugePages_Total"));
    all.push(line("memory.huge_pages_free", "HugePages_Free"));
    for (key, file) in
        [("memory.transparent_huge_pages", "enabled"), ("memory.transparent_huge_pages_defrag", "defrag")]
    {
        all.push(from_choice_file(host, key, &format!("/sys/kernel/mm/transparent_hugepage/{file}")).steady());
    }
    for (key, file) in [
        ("memory.swappiness", "vm/swappiness"),
        ("memory.overcommit", "vm/overcommit_memory"),
        ("memory.numa_balancing", "kernel/numa_balancing"),
    ] {
        all.push(from_file(host, key, &format!("/proc/sys/{file}")).steady());
    }
    all.push(from_file(host, "memory.same_page_merging", "/sys/kernel/mm/ksm/run").steady());
}
