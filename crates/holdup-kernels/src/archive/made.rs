//! Packages for tests.

pub(crate) enum Made<'a> {
    File(&'a str, &'a [u8]),
    Link(&'a str, &'a str),
    HardLink(&'a str, &'a str),
    /// A raw header type with its content.
    Raw(u8, &'a [u8]),
}

fn header(name: &str, kind: u8, target: &str, bytes: usize) -> Vec<u8> {
    let mut block = vec![0; 512];
    let name = &name.as_bytes()[..name.len().min(100)];
    block[..name.len()].copy_from_slice(name);
    block[100..108].copy_from_slice(b"0000755\0");
    block[124..136].copy_from_slice(format!("{bytes:011o}\0").as_bytes());
    block[156] = kind;
    block[157..157 + target.len()].copy_from_slice(target.as_bytes());
    block[257..265].copy_from_slice(b"ustar  \0");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

pub(crate) fn tar(members: &[Made<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut add = |name: &str, kind: u8, target: &str, content: &[u8]| {
        if name.len() > 100 {
            all.extend(header("././@LongLink", b'L', "", name.len() + 1));
            all.extend(name.as_bytes());
            all.resize((all.len() + 1).next_multiple_of(512), 0);
        }
        all.extend(header(name, kind, target, content.len()));
        all.extend(content);
        all.resize(all.len().next_multiple_of(512), 0);
    };
    for member in members {
        match member {
            Made::File(name, content) => add(name, b'0', "", content),
            Made::Link(name, target) => add(name, b'2', target, b""),
            Made::HardLink(name, target) => add(name, b'1', target, b""),
            Made::Raw(kind, content) => add("raw", *kind, "", content),
        }
    }
    all.resize(all.len() + 1024, 0);
    all
}

/// An uncompressed package of version 7.0.1-1 for amd64.
pub(crate) fn deb(name: &str, members: &[Made<'_>]) -> Vec<u8> {
    let control = format!("Package: {name}\nVersion: 7.0.1-1\nArchitecture: amd64\n");
    let control = tar(&[Made::File("./control", control.as_bytes())]);
    let mut all = b"!<arch>\n".to_vec();
    for (name, content) in [("debian-binary", b"2.0\n".to_vec()), ("control.tar", control), ("data.tar", tar(members))]
    {
        all.extend(format!("{name:16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", content.len()).as_bytes());
        all.extend(content);
    }
    all
}

fn rpm_header(tags: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let (mut index, mut store) = (Vec::new(), Vec::new());
    for (tag, kind, value) in tags {
        while *kind == 4 && store.len() % 4 != 0 {
            store.push(0);
        }
        for number in [*tag, *kind, u32::try_from(store.len()).unwrap(), 1] {
            index.extend(number.to_be_bytes());
        }
        store.extend(value);
    }
    let mut all = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
    all.extend(u32::try_from(tags.len()).unwrap().to_be_bytes());
    all.extend(u32::try_from(store.len()).unwrap().to_be_bytes());
    all.extend(index);
    all.extend(store);
    all
}

/// An uncompressed RPM package `kernel-core` 7.0.1-1.x for x86_64 with digests.
pub(crate) fn rpm(members: &[(&str, u32, &[u8])]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let hex = |bytes: &[u8]| -> Vec<u8> {
        let mut text: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        text.push('\0');
        text.into_bytes()
    };
    let mut payload = Vec::new();
    for (name, mode, content) in members.iter().copied().chain([("TRAILER!!!", 0, b"".as_slice())]) {
        payload.extend(b"070701");
        for number in [1, mode as usize, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0] {
            payload.extend(format!("{number:08x}").as_bytes());
        }
        payload.extend(name.as_bytes());
        payload.push(0);
        payload.resize(payload.len().next_multiple_of(4), 0);
        payload.extend(content);
        payload.resize(payload.len().next_multiple_of(4), 0);
    }
    let header = rpm_header(&[
        (1000, 6, b"kernel-core\0".to_vec()),
        (1001, 6, b"7.0.1\0".to_vec()),
        (1002, 6, b"1.x\0".to_vec()),
        (1022, 6, b"x86_64\0".to_vec()),
        (1124, 6, b"cpio\0".to_vec()),
        (5092, 8, hex(&payload)),
        (5093, 4, 8_u32.to_be_bytes().to_vec()),
    ]);
    let mut all = vec![0xed, 0xab, 0xee, 0xdb];
    all.resize(96, 0);
    let signature = rpm_header(&[(273, 6, hex(&header))]);
    all.extend(&signature);
    all.resize(96 + signature.len().next_multiple_of(8), 0);
    all.extend(header);
    all.extend(payload);
    all
}

mod tests {
    use super::*;
    use crate::fuzzing;
    use proptest::prelude::*;

    proptest! {
        /// Whole packages with some bytes changed reach further into the readers than random bytes.
        #[test]
        fn changed_bytes_end_in_files_or_reasons(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8), is_rpm: bool) {
            let mut package = match is_rpm {
                true => rpm(&[("./lib/a", 0o100_755, b"image"), ("./lib/l", 0o120_777, b"a")]),
                false => deb("p", &[Made::File("./boot/a", b"image"), Made::Link("./l", "boot/a"), Made::HardLink("./h", "./boot/a")]),
            };
            for (at, byte) in changes {
                let at = usize::from(at) % package.len();
                package[at] = byte;
            }
            let outer = tempfile::tempdir().unwrap();
            let into = outer.path().join("into");
            std::fs::create_dir(&into).unwrap();
            let read = if is_rpm { fuzzing::rpm(&package, &into) } else { fuzzing::deb(&package, &into) };
            prop_assert!(read.is_ok() || read.is_err_and(|why| !why.is_empty()));
            prop_assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 1);
        }
    }
}
