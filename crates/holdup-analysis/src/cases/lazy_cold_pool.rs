//! The report of 2026: page faults under a spinlock while the buffer pool fills.

use super::{About, Case};
use crate::condition::{self, Condition};
use crate::words::number;
use holdup_model::survey::{Advice, HugePagesAsked, Server, Survey, Weight};
use holdup_model::text::size;
use holdup_model::{Meta, PreemptModel};

static META: Meta = Meta {
    id: "lazy-cold-pool",
    summary: "lazy preemption while a buffer pool on 4 KiB pages fills",
    docs: "Up to PostgreSQL 18 a backend that needs a buffer takes it from a freelist under one spinlock, as long as \
           the freelist is not empty: from the start of the server until the pool is full. Under that lock it touches \
           the descriptors of the buffers, and each backend's first touch of each 4 KiB page of them is a page fault. \
           That is counted on real servers. Under lazy a request to reschedule sends no interrupt and comes due at the next return \
           from the kernel, which with such a fault lies inside the section; all others then spin, and sleep for at least 1 ms. \
           With this lock by itself on Linux 6.19 lazy loses 5 times as many holders there as none and 67 times as many as full \
           (counted in an emulated guest); for PostgreSQL on many CPUs the loss is simulated only.\n\n\
           Reported in April 2026 for 96 CPUs of arm64, PostgreSQL 17, 1024 clients, pgbench simple-update: 98,565 tps \
           with PREEMPT_NONE, 50,751 tps on 7.0 with the lazy model, 55 % of the CPU time in s_lock below \
           StrategyGetBuffer. A second lab with 96 CPUs of x86 could not reproduce it, and with huge pages found the \
           contention not measurable. Of the full model no measurement is published.",
    references: &[
        "src/backend/storage/buffer/freelist.c:StrategyGetBuffer (PostgreSQL 15.18, 17.11, 18.6)",
        "kernel/Kconfig.preempt, kernel/sched/core.c:sched_dynamic_mode (v7.0)",
        "lore.kernel.org: 20260403191942.21410-1-dipiets@amazon.it",
    ],
};

/// The last major version with a freelist.
const LAST_WITH_FREELIST: u32 = 18;

pub static CASE: Case = Case {
    meta: &META,
    weight: Weight::High,
    report: Some("postgres-lazy-2026"),
    about: About::Server { conditions, advice },
};

fn conditions(survey: &Survey, server: &Server) -> Vec<Condition> {
    vec![model(survey), freelist(server), small_pages(survey, server), cold(server), clients(survey, server)]
}

fn advice(survey: &Survey, server: &Server) -> Vec<Advice> {
    let mut all = vec![huge_pages(survey, server), prewarm()];
    all.extend(other_model(survey));
    all
}

fn model(survey: &Survey) -> Condition {
    match condition::model(survey) {
        Err(unknown) => unknown,
        Ok((PreemptModel::Lazy, source)) => Condition::new(
            Some(true),
            format!(
                "The preemption model is {source}: a request to leave the CPU sends no interrupt and waits for the next \
                 return to user mode."
            ),
            match other_word(survey) {
                Some(word) => format!("the {word} model, which this kernel still offers"),
                None => String::new(),
            },
        ),
        Ok((PreemptModel::None | PreemptModel::Voluntary, source)) => Condition::new(
            Some(false),
            format!(
                "The preemption model is {source}: a request to leave the CPU interrupts it, so that few wait for the return \
                 from a page fault."
            ),
            "the lazy or full model, which is all that kernels from 7.0 on offer",
        ),
        Ok((PreemptModel::Full | PreemptModel::Rt, source)) => Condition::new(
            None,
            format!(
                "The preemption model is {source}: a backend can lose its CPU inside a page fault, but the few events that \
                 were counted under that model do not decide this case."
            ),
            "measure it: holdup run pgbench --vary postgres.huge_pages=off,on",
        ),
    }
}

fn freelist(server: &Server) -> Condition {
    match server.major_version.get() {
        None => Condition::unknown("The version of PostgreSQL", &server.major_version),
        Some(major) if *major > LAST_WITH_FREELIST => Condition::new(
            Some(false),
            format!("PostgreSQL {major} has no freelist and does not take this lock while the pool fills."),
            "a server of version 18 or older",
        ),
        Some(major) => Condition::new(
            Some(true),
            format!("PostgreSQL {major} takes buffers from a freelist under a spinlock until the pool is full."),
            "PostgreSQL 19, which has no freelist",
        ),
    }
}

fn small_pages(survey: &Survey, server: &Server) -> Condition {
    const CHANGE: &str = "shared memory on huge pages (huge_pages = on)";
    // Of any size: a server may have asked for others than the default.
    let has_none = survey.memory.huge_pages_all_bytes.get() == Some(&0);
    match (server.huge_pages_in_effect.get(), server.huge_pages_asked.get()) {
        (Some(true), _) => Condition::new(
            Some(false),
            format!("Its shared memory lies on huge pages ({}).", server.huge_pages_in_effect.source),
            "huge_pages = off, or too few huge pages at the next start while huge_pages = try",
        ),
        (Some(false), asked) => {
            let asked = match asked {
                Some(HugePagesAsked::Try) => ", although huge_pages = try: there were too few huge pages at its start",
                Some(HugePagesAsked::On) => ", although huge_pages = on is set: it was not restarted since",
                _ => "",
            };
            let source = &server.huge_pages_in_effect.source;
            Condition::new(Some(true), format!("Its shared memory lies on small pages ({source}){asked}."), CHANGE)
        }
        (None, _) if has_none => Condition::new(
            Some(true),
            format!(
                "This host has no huge page of any size (Hugetlb in {}), so its shared memory lies on small pages.",
                survey.memory.huge_pages_all_bytes.source
            ),
            CHANGE,
        ),
        // A file may have been changed since the server was started; the server itself reports what it was started with.
        (None, Some(HugePagesAsked::On)) if !server.huge_pages_asked.source.starts_with("pg_settings") => {
            Condition::unknown(
                "huge_pages = on is set; whether the server was started with it",
                &server.huge_pages_in_effect,
            )
        }
        (None, Some(HugePagesAsked::On)) => Condition::new(
            Some(false),
            format!(
                "huge_pages = on ({}): a server that runs with it has its shared memory on huge pages.",
                server.huge_pages_asked.source
            ),
            "huge_pages = off or try",
        ),
        (None, _) => Condition::unknown("Whether its shared memory lies on huge pages", &server.huge_pages_in_effect),
    }
}

fn cold(server: &Server) -> Condition {
    match server.pool.get() {
        None => Condition::unknown("Whether its buffer pool still fills", &server.pool),
        Some(pool) if pool.is_cold() => Condition::new(
            Some(true),
            format!(
                "Its buffer pool still fills: {} of {} buffers are free.",
                number(pool.unused_buffers as f64),
                number(pool.buffers as f64)
            ),
            "a pool that is full, until the next restart",
        ),
        Some(pool) => Condition::new(
            Some(false),
            format!(
                "Its buffer pool is full ({} buffers), so the freelist is not used now.",
                number(pool.buffers as f64)
            ),
            "a restart, or a large table that is dropped or truncated: then the freelist is used until the pool is full \
             again",
        ),
    }
}

fn clients(survey: &Survey, server: &Server) -> Condition {
    match server.clients.get() {
        None => Condition::unknown("The number of its clients", &server.clients),
        Some(clients) => condition::more_than_cpus(
            survey,
            server,
            *clients,
            &format!("It has {clients} clients"),
            ("fewer clients than CPUs, by a connection pool", "more clients than CPUs"),
        ),
    }
}

fn huge_pages(survey: &Survey, server: &Server) -> Advice {
    let pages = match (server.shared_buffers_bytes.get(), survey.memory.huge_page_bytes.get()) {
        // shared_memory_size is a little more than shared_buffers; the server itself reports the exact number.
        (Some(buffers), Some(page)) if *page > 0 => {
            let least = buffers.div_ceil(*page);
            format!("more than {least} of {} for {} of shared_buffers", size(*page), size(*buffers))
        }
        _ => "as many as the server says".to_owned(),
    };
    Advice {
        action: format!(
            "reserve huge pages ({pages}; `postgres -D DATA -C shared_memory_size_in_huge_pages` says how many, from \
             version 15 on) with `sysctl vm.nr_hugepages=N`, set huge_pages = on (not try, which falls back in \
             silence), restart the server"
        ),
        evidence: "with huge pages the contention was not measurable on 96 CPUs of x86 (A. Freund, April 2026), and \
                   each backend has some 500 times fewer first touches under the lock; no publication compares the two \
                   causes apart"
            .to_owned(),
        undo: format!(
            "set huge_pages back, restart, `sysctl vm.nr_hugepages={}`",
            survey.memory.huge_pages_total.get().map_or_else(|| "N, the former number".to_owned(), u64::to_string)
        ),
    }
}

fn prewarm() -> Advice {
    Advice {
        action: "fill the pool by one connection before clients come (extension pg_prewarm), after every restart"
            .to_owned(),
        evidence:
            "follows from the source: the lock is taken only while the freelist is not empty; no experiment is known"
                .to_owned(),
        undo: "none is needed".to_owned(),
    }
}

/// A model that leaves kernel code alone, if this very kernel can be switched to one.
fn other_word(survey: &Survey) -> Option<&'static str> {
    let choices = survey.preempt.choices.get()?;
    let model =
        [PreemptModel::None, PreemptModel::Voluntary].into_iter().find(|m| choices.contains(m) && choices.len() > 1)?;
    Some(model.word())
}

/// How to get there.
fn other_model(survey: &Survey) -> Option<Advice> {
    let word = other_word(survey)?;
    Some(Advice {
        action: format!("{}; this kernel still offers it", condition::how_to_switch(survey, word)),
        evidence: "98,565 tps with PREEMPT_NONE against 50,751 tps with lazy (96 CPUs of arm64, PostgreSQL 17, 1024 \
                   clients); kernels from 7.0 on do not offer it any more"
            .to_owned(),
        undo: "write the former word back, or take preempt= away".to_owned(),
    })
}
