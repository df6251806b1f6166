//! The time slice extension of rseq: whether a program can use it here.
//!
//! Sources: `kernel/rseq.c`, `init/Kconfig`, `include/uapi/linux/rseq.h` (v7.0 to v7.3); glibc's
//! `sysdeps/unix/sysv/linux/rseq-internal.h` (2.36, 2.41).

use holdup_host::Host;
use holdup_host::kernel::{KernelFacts, asked_for};
use holdup_model::KernelVersion;
use holdup_model::survey::{Reading, SliceExtension};

const LENGTH: &str = "/sys/kernel/debug/rseq/slice_ext_nsec";
const AUXV: &str = "/proc/self/auxv";
/// AT_RSEQ_FEATURE_SIZE (include/uapi/linux/auxvec.h).
const FEATURE_SIZE: u64 = 27;
/// The kernel gives the extension to registrations longer than 32 bytes only (`rseq_register`, 7.0.10 and later).
const NEEDED_BYTES: u64 = 33;

/// Whether a step on the way is open, and in words.
enum Step {
    Available(String),
    Unavailable(String),
    Unknown(String),
}

pub(crate) fn slice_extension(host: &Host, ground: &KernelFacts) -> SliceExtension {
    let feature_size_bytes = feature_size(host);
    let libc = libc(host, ground);
    let steps = [
        version(ground),
        architecture(ground),
        option(ground),
        boot_option(ground),
        offered(&feature_size_bytes),
        registered(&libc, ground),
    ];
    let source = "the steps below";
    let unavailable = steps.iter().find_map(|s| if let Step::Unavailable(why) = s { Some(why) } else { None });
    let unknown = steps.iter().find_map(|s| if let Step::Unknown(why) = s { Some(why) } else { None });
    let usable = match (unavailable, unknown) {
        (Some(_), _) => Reading::found(false, source),
        (None, Some(why)) => Reading::unknown(source, why.clone()),
        (None, None) => Reading::found(true, source),
    };
    let reasons = steps.into_iter().map(|step| match step {
        Step::Available(words) => format!("available: {words}"),
        Step::Unavailable(words) => format!("not available: {words}"),
        Step::Unknown(words) => format!("not known: {words}"),
    });
    SliceExtension { usable, reasons: reasons.collect(), length_ns: length(host, ground), feature_size_bytes, libc }
}

fn version(ground: &KernelFacts) -> Step {
    match ground.version.value() {
        None => Step::Unknown("the kernel's version is not known".to_owned()),
        Some(v) if v < KernelVersion::new(7, 0) && ground.has_backports => {
            Step::Unknown(format!("it came with 7.0, and whether its vendor put it into this {v} is not known"))
        }
        Some(v) if v < KernelVersion::new(7, 0) => {
            Step::Unavailable(format!("kernel {v} does not have it; it came with 7.0"))
        }
        Some(v) if !v.is_read() => Step::Unknown(format!("kernel {v} is newer than this holdup knows")),
        Some(v) => Step::Available(format!("kernel {v} has it (7.0 and later)")),
    }
}

fn architecture(ground: &KernelFacts) -> Step {
    // The table ends with the newest version read; the configuration of later ones says it.
    let is_read = ground.version.value().is_some_and(KernelVersion::is_read);
    match ground.architecture.get().map(String::as_str) {
        None => Step::Unknown("the architecture is not known".to_owned()),
        Some(a @ ("x86_64" | "i686" | "s390x" | "riscv64" | "riscv32" | "loongarch64")) => {
            Step::Available(format!("{a} has the generic entry code that it needs"))
        }
        Some(a @ ("aarch64" | "ppc64le" | "ppc64" | "armv7l")) if is_read => Step::Unavailable(format!(
            "on {a} it is not offered (7.0 to 7.3: GENERIC_ENTRY or HAVE_GENERIC_TIF_BITS is missing)"
        )),
        Some(a) => Step::Unknown(format!("whether {a} has it is not known")),
    }
}

fn option(ground: &KernelFacts) -> Step {
    let known = ground.option("CONFIG_RSEQ_SLICE_EXTENSION");
    match known.get() {
        Some(true) => Step::Available(format!("CONFIG_RSEQ_SLICE_EXTENSION=y ({})", known.source)),
        Some(false) => Step::Unavailable(format!(
            "CONFIG_RSEQ_SLICE_EXTENSION is off ({}), as in the kernels of all distributions that were looked at",
            known.source
        )),
        None => Step::Unknown(format!("CONFIG_RSEQ_SLICE_EXTENSION: {}", known.why_unknown.unwrap_or_default())),
    }
}

fn boot_option(ground: &KernelFacts) -> Step {
    let Some(line) = ground.command_line.get() else {
        return Step::Unknown("the command line cannot be read".to_owned());
    };
    match asked_for(line, "rseq_slice_ext") {
        Some(word) if is_no(word) => {
            Step::Unavailable(format!("rseq_slice_ext={word} on the command line switches it off"))
        }
        _ => Step::Available("no rseq_slice_ext=0 on the command line".to_owned()),
    }
}

/// What `kstrtobool` takes for no (lib/kstrtox.c).
fn is_no(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.starts_with(['0', 'n', 'f']) || word.starts_with("of")
}

fn offered(size: &Reading<u64>) -> Step {
    match size.get() {
        Some(bytes) if *bytes >= NEEDED_BYTES => Step::Available(format!("the kernel offers {bytes} bytes of rseq")),
        Some(bytes) => Step::Unavailable(format!("the kernel offers {bytes} bytes of rseq, {NEEDED_BYTES} are needed")),
        None => Step::Unknown(format!("the length of rseq: {}", size.why_unknown.clone().unwrap_or_default())),
    }
}

/// True if this is a 7.0 that may be from before 7.0.10, which took to refusing registrations of 32 bytes.
fn may_take_32_bytes(ground: &KernelFacts) -> bool {
    let patch = ground.release.get().and_then(|release| {
        let rest = release.splitn(3, '.').nth(2)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    });
    ground.version.value() == Some(KernelVersion::new(7, 0)) && patch.is_none_or(|patch| patch < 10)
}

fn registered(libc: &Reading<String>, ground: &KernelFacts) -> Step {
    let Some(text) = libc.get() else {
        return Step::Unknown(format!("the C library: {}", libc.why_unknown.clone().unwrap_or_default()));
    };
    let version = text.strip_prefix("glibc ").and_then(KernelVersion::of_release);
    match version {
        Some(v) if v >= KernelVersion::new(2, 41) => {
            Step::Available(format!("{text} registers all that the kernel offers (2.41 and later)"))
        }
        Some(_) if may_take_32_bytes(ground) => Step::Unknown(format!(
            "{text} registers 32 bytes only, which kernels from 7.0.10 on refuse for it; whether this one does is not known"
        )),
        Some(_) => Step::Unavailable(format!(
            "{text} registers 32 bytes only (up to 2.40), so a program must run with \
             GLIBC_TUNABLES=glibc.pthread.rseq=0 and register its own"
        )),
        None => Step::Unavailable(format!("{text} does not register rseq, so a program must register its own")),
    }
}

/// The number that the kernel puts into the auxiliary vector of every program.
fn feature_size(host: &Host) -> Reading<u64> {
    let bytes = match host.read(AUXV) {
        Ok(bytes) => bytes,
        Err(e) => return Reading::unknown(AUXV, e.message),
    };
    match auxiliary(&bytes, FEATURE_SIZE) {
        Some(size) => Reading::found(size, AUXV),
        None => Reading::unknown(AUXV, "AT_RSEQ_FEATURE_SIZE is not in it: the kernel is older than 6.3"),
    }
}

/// A value of an auxiliary vector of 64-bit words. A tree may come from a machine of another byte order; types are small numbers.
fn auxiliary(vector: &[u8], wanted: u64) -> Option<u64> {
    let is_big_endian = vector.first_chunk().is_some_and(|first| u64::from_le_bytes(*first) > u64::from(u32::MAX));
    let word = |bytes: &[u8]| {
        let bytes: [u8; 8] = bytes.try_into().unwrap_or_default();
        if is_big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    };
    let pairs = vector.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..])));
    pairs.take_while(|(key, _)| *key != 0).find_map(|(key, value)| (key == wanted).then_some(value))
}

/// Name and version of the host's C library, from the library itself.
fn libc(host: &Host, ground: &KernelFacts) -> Reading<String> {
    // It names itself at the head of its help, within the first megabytes.
    const LONGEST: usize = 8 << 20;
    const NAME: &str = "GNU C Library";
    let machine = ground.architecture.value().unwrap_or_else(|| "x86_64".to_owned());
    let paths = [
        format!("/lib/{machine}-linux-gnu/libc.so.6"),
        format!("/usr/lib/{machine}-linux-gnu/libc.so.6"),
        "/lib64/libc.so.6".to_owned(),
        "/usr/lib64/libc.so.6".to_owned(),
        "/usr/lib/libc.so.6".to_owned(),
    ];
    for path in &paths {
        let Ok(bytes) = host.read_head_bytes(path, LONGEST) else { continue };
        let Some(at) = bytes.windows(NAME.len()).position(|window| window == NAME.as_bytes()) else { continue };
        let line = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 200)]).into_owned();
        let version = line.split("version ").nth(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            rest[..end].trim_end_matches('.').to_owned()
        });
        return match version.filter(|v| !v.is_empty()) {
            Some(version) => Reading::found(format!("glibc {version}"), path.clone()),
            None => Reading::unknown(path.clone(), "it does not name its version"),
        };
    }
    let musl = format!("/lib/ld-musl-{machine}.so.1");
    if host.exists(&musl) {
        return Reading::found("musl".to_owned(), musl);
    }
    Reading::unknown(paths[0].clone(), "no C library is where it is looked for")
}

fn length(host: &Host, ground: &KernelFacts) -> Reading<u64> {
    if ground.version.get().is_some_and(|v| *v < KernelVersion::new(7, 0)) {
        return Reading::unknown(LENGTH, "kernels before 7.0 do not have it");
    }
    holdup_host::text::one_line(host, LENGTH)
        .and_then(|text| text.parse().map_err(|_| format!("`{}` is no number", holdup_host::text::shown(&text))))
        .but("run holdup as root, with debugfs mounted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn a_step_is_not_available_only_where_that_is_known() {
        let check = |release: &str, architecture: &str, expect: &str| {
            let fs = MemoryFs::of(&[
                ("/proc/sys/kernel/osrelease", release),
                ("/proc/sys/kernel/arch", architecture),
                ("/lib64/libc.so.6", "GNU C Library (x) stable release version 2.36."),
            ]);
            let reasons = slice_extension(&fs.host(), &KernelFacts::of(&fs.host())).reasons;
            assert!(reasons.iter().any(|reason| reason.contains(expect)), "{release} {architecture}: {reasons:#?}");
        };
        check("6.1.0", "x86_64", "not available: kernel 6.1 does not have it");
        check("6.12.0-55.el10.x86_64", "x86_64", "not known: it came with 7.0");
        check("7.2.12", "aarch64", "not available: on aarch64");
        check("7.2.12", "ppc64le", "HAVE_GENERIC_TIF_BITS");
        check("7.4.1", "aarch64", "not known: whether aarch64 has it");
        check("7.0.4", "x86_64", "not known: glibc 2.36 registers 32 bytes only");
        check("7.0.13+deb13-amd64", "x86_64", "not available: glibc 2.36 registers 32 bytes only");
        check("7.1.2", "x86_64", "not available: glibc 2.36 registers 32 bytes only");
    }

    #[test]
    fn an_auxiliary_vector_is_read_in_the_byte_order_of_its_machine() {
        let words = [33, 0x7fff_0000_1000, FEATURE_SIZE, 28, 0, 0, FEATURE_SIZE, 1];
        let of = |bytes: fn(u64) -> [u8; 8]| words.into_iter().flat_map(bytes).collect::<Vec<u8>>();
        for vector in [of(u64::to_le_bytes), of(u64::to_be_bytes)] {
            assert_eq!((auxiliary(&vector, FEATURE_SIZE), auxiliary(&vector, 6)), (Some(28), None));
        }
        assert_eq!(auxiliary(&[27, 0, 0], FEATURE_SIZE), None);
    }
}
