//! The version and machine of a kernel image, read from its header.

use crate::archive::{decompressed, reason};
use holdup_model::Problem;
use std::io::{self, Read};
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// As `uname -r` prints it.
    pub release: String,
    /// Release, builder, number, kind and date of the build.
    pub version_line: String,
    /// `x86_64`, `aarch64` or `s390x`.
    pub arch: &'static str,
    /// `bzImage`, `Image` or `vmlinux`, and its wrapping.
    pub kind: String,
}

/// Images are unpacked into memory; those of distributions are below 100 MB.
pub(crate) const MOST_BYTES: u64 = 512 << 20;

const LONGEST: usize = 512;

/// Reads an image.
///
/// # Errors
/// When the file cannot be read or is no kernel for one of these machines.
pub fn read_image(path: &Path) -> Result<ImageFacts, Problem> {
    let problem = |why: String| {
        Problem::host(format!("kernel {}", path.display()), why).hint(
            "a bzImage (of x86 or s390x), an arm64 Image (plain, compressed, or for EFI), or an ELF vmlinux is needed",
        )
    };
    let metadata = path.metadata().map_err(|e| problem(e.to_string()))?;
    if !metadata.is_file() {
        return Err(problem("not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    holdup_files::open_input(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|e| problem(e.to_string()))?;
    image_facts(&bytes).map_err(problem)
}

/// The facts of an image in memory.
pub fn image_facts(bytes: &[u8]) -> Result<ImageFacts, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if at(bytes, 0x202, 4) == b"HdrS" {
        return bz_image(bytes);
    }
    if bytes.starts_with(b"\x7fELF") {
        return vmlinux(bytes);
    }
    if at(bytes, 56, 4) == b"ARM\x64" {
        return linux_version(bytes, "aarch64", "Image");
    }
    if at(bytes, 0x10008, 6) == b"S390EP" {
        return s390_image(bytes);
    }
    if is_for_efi(bytes) {
        return linux_version(&zboot(bytes)?, "aarch64", "Image for EFI");
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let plain = plain(bytes).map_err(|e| format!("a gzip stream that cannot be read: {}", reason(&e)))?;
        return match at(&plain, 56, 4) == b"ARM\x64" {
            true => linux_version(&plain, "aarch64", "Image in gzip"),
            false => Err("not a kernel: a gzip stream that holds no arm64 Image".to_owned()),
        };
    }
    Err(match bytes {
        [b'!', b'<', b'a', b'r', b'c', b'h', b'>', ..] => "not a kernel but a package; use deb:PATH".to_owned(),
        [0xed, 0xab, 0xee, 0xdb, ..] => "not a kernel but a package; use rpm:PATH".to_owned(),
        _ if bytes.len() < 0x206 => format!("not a kernel: only {} bytes long", bytes.len()),
        _ => "not a kernel: neither the header of a bzImage, of an arm64 Image nor of ELF".to_owned(),
    })
}

fn at(bytes: &[u8], from: usize, length: usize) -> &[u8] {
    from.checked_add(length).and_then(|to| bytes.get(from..to)).unwrap_or_default()
}

fn u16_at(bytes: &[u8], from: usize) -> u16 {
    at(bytes, from, 2).try_into().map(u16::from_le_bytes).unwrap_or_default()
}

fn u32_at(bytes: &[u8], from: usize) -> u32 {
    at(bytes, from, 4).try_into().map(u32::from_le_bytes).unwrap_or_default()
}

fn plain(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    decompressed(bytes)?.take(MOST_BYTES).read_to_end(&mut all)?;
    Ok(all)
}

/// An x86 image (Documentation/arch/x86/boot.rst, 7.2: "The real-mode kernel header").
fn bz_image(bytes: &[u8]) -> Result<ImageFacts, String> {
    let protocol = u16_at(bytes, 0x206);
    if protocol < 0x0200 {
        return Err(format!("a kernel of the boot protocol {protocol:#06x}, which has no version"));
    }
    let pointer = usize::from(u16_at(bytes, 0x20e));
    let sectors = match bytes.get(0x1f1) {
        Some(0) | None => 4,
        Some(sectors) => usize::from(*sectors),
    };
    if pointer == 0 || pointer >= sectors * 512 {
        return Err("a bzImage without a version".to_owned());
    }
    let setup = (sectors + 1) * 512;
    // XLF_KERNEL_64: an image without it is for 32-bit machines.
    let is_64_bit = protocol >= 0x020c && u16_at(bytes, 0x236) & 1 == 1;
    if !is_64_bit {
        return Err("a kernel for 32-bit x86 machines, which holdup does not boot".to_owned());
    }
    if bytes.len() <= setup {
        return Err(format!("a bzImage that is cut off: {} bytes, of which {setup} are its setup code", bytes.len()));
    }
    let protected = u64::from(u32_at(bytes, 0x1f4)) * 16;
    if (bytes.len() as u64) < setup as u64 + protected {
        let (is, whole) = (bytes.len(), setup as u64 + protected);
        return Err(format!("a bzImage that is cut off: {is} bytes of {whole}"));
    }
    let text = bytes.get(0x200 + pointer..).unwrap_or_default();
    facts(text, "x86_64", "bzImage")
}

/// An s390x image, which is loaded at address 0 (arch/s390/boot/head.S, 7.2: `struct parmarea` of asm/setup.h at 0x10400, whose
/// sixth field is the address of the version since 5.2).
fn s390_image(bytes: &[u8]) -> Result<ImageFacts, String> {
    let address = at(bytes, 0x10428, 8).try_into().map(u64::from_be_bytes).unwrap_or_default();
    let text = usize::try_from(address).ok().filter(|address| *address != 0).and_then(|from| bytes.get(from..));
    facts(text.ok_or("an s390x bzImage without a version, or one that is cut off")?, "s390x", "bzImage of s390x")
}

fn vmlinux(bytes: &[u8]) -> Result<ImageFacts, String> {
    let arch = match (bytes.get(4), bytes.get(5), u16_at(bytes, 18)) {
        (Some(2), Some(1), 62) => "x86_64",
        (Some(2), Some(1), 183) => "aarch64",
        (Some(2), Some(2), of_big_endian) if of_big_endian.swap_bytes() == 22 => "s390x",
        (Some(2), Some(1), other) => {
            return Err(format!("an ELF file for machine number {other}, neither x86_64 (62) nor aarch64 (183)"));
        }
        (Some(2), Some(2), other) => {
            return Err(format!("a big-endian ELF file for machine number {}, not s390x (22)", other.swap_bytes()));
        }
        _ => return Err("an ELF file, but not of 64 bits".to_owned()),
    };
    linux_version(bytes, arch, "vmlinux").map_err(|_| "an ELF file, but not a kernel: it has no version".to_owned())
}

/// True if these are the first bytes of an EFI program that unpacks a kernel.
pub(crate) fn is_for_efi(bytes: &[u8]) -> bool {
    bytes.starts_with(b"MZ") && at(bytes, 4, 4) == b"zimg"
}

/// The kernel in an EFI program that unpacks it (drivers/firmware/efi/libstub/zboot-header.S, 7.2).
pub(crate) fn zboot(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let pe = u32_at(bytes, 0x3c) as usize;
    let machine = u16_at(bytes, pe.saturating_add(4));
    if at(bytes, pe, 4) != b"PE\0\0" || machine != 0xaa64 {
        return Err(format!("an EFI kernel for machine number {machine:#06x}, not aarch64 (0xaa64)"));
    }
    let payload = at(bytes, u32_at(bytes, 8) as usize, u32_at(bytes, 12) as usize);
    if payload.is_empty() {
        return Err("an EFI kernel that is cut off".to_owned());
    }
    plain(payload).map_err(|e| format!("an EFI kernel that cannot be unpacked: {}", reason(&e)))
}

/// The facts in the banner of an uncompressed kernel (init/version-timestamp.c, 7.2: linux_banner).
fn linux_version(bytes: &[u8], arch: &'static str, kind: &str) -> Result<ImageFacts, String> {
    let banner = b"Linux version ";
    let mut from = 0;
    while let Some(found) = find(bytes.get(from..).unwrap_or_default(), banner) {
        from += found + banner.len();
        let text = bytes.get(from..).unwrap_or_default();
        // The format string of /proc/version begins the same way.
        if text.first().is_some_and(u8::is_ascii_digit)
            && let Ok(facts) = facts(text, arch, kind)
        {
            return Ok(facts);
        }
    }
    Err(format!("an {kind} without a version"))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0;
    loop {
        from += bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if at(bytes, from, what.len()) == what {
            return Some(from);
        }
        from += 1;
    }
}

/// Parses text that begins with the release and ends with a zero byte or a line feed.
fn facts(text: &[u8], arch: &'static str, kind: &str) -> Result<ImageFacts, String> {
    let text = text.get(..LONGEST.min(text.len())).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == 0 || *byte == b'\n');
    let end = end.ok_or_else(|| format!("a {kind} whose version has no end"))?;
    let line = String::from_utf8_lossy(&text[..end]).into_owned();
    let release = line.split(' ').next().unwrap_or_default().to_owned();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-.+~_".contains(c);
    // The release becomes a part of paths.
    if !release.starts_with(|c: char| c.is_ascii_digit()) || !release.chars().all(fits) || release.contains("..") {
        return Err(format!("a {kind} whose release is `{}`", release.escape_debug()));
    }
    if line.chars().any(char::is_control) {
        return Err(format!("a {kind} whose version is `{}`", line.escape_debug()));
    }
    Ok(ImageFacts { release, version_line: line, arch, kind: kind.to_owned() })
}

/// Refuses an image for another machine.
///
/// # Errors
/// Names both machines.
pub fn check_arch(path: &Path, facts: &ImageFacts, arch: &str) -> Result<(), Problem> {
    if facts.arch == arch {
        return Ok(());
    }
    let why = format!("it is for {}, and the machine is to be {arch}", facts.arch);
    Err(Problem::host(format!("kernel {} ({})", path.display(), facts.release), why)
        .hint(format!("use a kernel for {arch}, or --arch {}; in a plan guest.arch", facts.arch)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    /// An empty bzImage.
    pub(crate) fn bz_image(release: &str) -> Vec<u8> {
        let mut image = vec![0; 5 * 512 + 160];
        image[0x1f1] = 4;
        image[0x1f4] = 10;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x020f_u16.to_le_bytes());
        image[0x20e..0x210].copy_from_slice(&0x300_u16.to_le_bytes());
        image[0x236] = 1;
        let text = format!("{release} (builder@host) #1 SMP PREEMPT_DYNAMIC 2026-01-01\0");
        image[0x500..0x500 + text.len()].copy_from_slice(text.as_bytes());
        image
    }

    fn arm_image(release: &str) -> Vec<u8> {
        let mut image = vec![0; 4096];
        image[56..60].copy_from_slice(b"ARM\x64");
        let text = format!("Linux version %s (b@h)\0Linux version {release} (b@h) (gcc) #1 SMP\n\0");
        image[900..900 + text.len()].copy_from_slice(text.as_bytes());
        image
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    /// An s390x bzImage.
    fn s390_image(release: &str) -> Vec<u8> {
        let mut image = vec![0; 0x10700];
        image[0x10008..0x1000e].copy_from_slice(b"S390EP");
        image[0x10428..0x10430].copy_from_slice(&0x10600_u64.to_be_bytes());
        let text = format!("{release} (b@h) #1 SMP\0");
        image[0x10600..0x10600 + text.len()].copy_from_slice(text.as_bytes());
        image
    }

    /// An arm64 Image that an EFI program unpacks.
    pub(crate) fn efi_image(release: &str) -> Vec<u8> {
        let mut efi = vec![0; 512];
        efi[..2].copy_from_slice(b"MZ");
        efi[4..8].copy_from_slice(b"zimg");
        let payload = gzip(&arm_image(release));
        efi[8..12].copy_from_slice(&512_u32.to_le_bytes());
        efi[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        efi[0x3c] = 0x80;
        efi[0x80..0x86].copy_from_slice(b"PE\0\0\x64\xaa");
        efi.extend(payload);
        efi
    }

    #[test]
    fn each_kind_of_image_has_its_release_and_machine() {
        let efi = efi_image("7.2.1-a");
        let mut elf = arm_image("7.2.1-e");
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18] = 62;
        let mut big = elf.clone();
        big[5] = 2;
        big[18..20].copy_from_slice(&[0, 22]);
        for (image, release, arch, kind) in [
            (bz_image("7.0.13+deb13-amd64"), "7.0.13+deb13-amd64", "x86_64", "bzImage"),
            (arm_image("7.2.1-a"), "7.2.1-a", "aarch64", "Image"),
            (gzip(&arm_image("7.2.1-a")), "7.2.1-a", "aarch64", "Image in gzip"),
            (efi, "7.2.1-a", "aarch64", "Image for EFI"),
            (elf, "7.2.1-e", "x86_64", "vmlinux"),
            (s390_image("7.2.13+deb14-s390x"), "7.2.13+deb14-s390x", "s390x", "bzImage of s390x"),
            (big, "7.2.1-e", "s390x", "vmlinux"),
        ] {
            let facts = image_facts(&image).unwrap();
            assert_eq!((facts.release.as_str(), facts.arch, facts.kind.as_str()), (release, arch, kind));
            assert!(facts.version_line.starts_with(release) && facts.version_line.contains("#1 SMP"));
            for cut in 0..image.len().min(2600) {
                let _no_panic = image_facts(&image[..cut]);
            }
        }
    }

    #[test]
    fn files_that_are_no_kernels_are_refused() {
        let mut old = bz_image("2.4.1");
        old[0x236] = 0;
        let mut rude = bz_image("7.0");
        rude[0x500..0x507].copy_from_slice(b"../../x");
        let mut endless = bz_image("7.0");
        endless[0x500..].fill(b'7');
        let whole = bz_image("7.0");
        let mut s390 = s390_image("7.0");
        s390.truncate(0x10500);
        let mut powerpc = vec![0; 4096];
        powerpc[..20].copy_from_slice(b"\x7fELF\x02\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\x15");
        for (bytes, says) in [
            (b"".as_slice(), "empty"),
            (b"#!/bin/sh\n", "only 10 bytes"),
            (b"!<arch>\ndebian-binary", "deb:PATH"),
            (&old, "32-bit"),
            (&rude, "whose release is"),
            (&endless, "no end"),
            (&whole[..2700], "2700 bytes of 2720"),
            (&s390, "without a version, or one that is cut off"),
            (&powerpc, "machine number 21, not s390x"),
            (&[b'x'; 4096], "neither the header"),
            (&[0x1f, 0x8b, 8, 0, 0], "cannot be read"),
        ] {
            let error = image_facts(bytes).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_kernel_for_another_machine_is_refused_by_both_names() {
        let facts = image_facts(&arm_image("7.0")).unwrap();
        let error = check_arch(Path::new("Image"), &facts, "x86_64").unwrap_err().to_string();
        assert!(error.contains("aarch64") && error.contains("x86_64"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000), what in 0_usize..4) {
            let mut bytes = bytes;
            let magic: (usize, &[u8]) = [(0x202, b"HdrS".as_slice()), (56, b"ARM\x64"), (0, b"\x7fELF"), (4, b"zimg")][what];
            if bytes.len() > magic.0 + 4 {
                bytes[magic.0..magic.0 + magic.1.len()].copy_from_slice(magic.1);
            }
            if let Ok(facts) = image_facts(&bytes) {
                prop_assert!(!facts.release.is_empty() && !facts.release.contains('/'));
            }
        }
    }
}
