use super::*;
use crate::archive::made::{Made, deb, tar};
use std::fs;

fn unpacked(bytes: &[u8]) -> (io::Result<(DebFacts, Unpacked)>, tempfile::TempDir) {
    let outer = tempfile::tempdir().unwrap();
    let into = outer.path().join("into");
    fs::create_dir(&into).unwrap();
    (read_from(&mut &*bytes, Some((&into, &|_| true))), outer)
}

fn small() -> Vec<u8> {
    deb(
        "linux-image-7.0.1-a",
        &[
            Made::File("./boot/vmlinuz-7.0.1-a", b"image"),
            Made::File("./usr/bin/program", b"#!"),
            Made::Link("./usr/lib/libx.so", "libx.so.1"),
            Made::HardLink("./usr/bin/same", "./usr/bin/program"),
        ],
    )
}

#[test]
fn a_package_is_parsed_and_unpacked() {
    let (read, outer) = unpacked(&small());
    let (facts, unpacked) = read.unwrap();
    assert_eq!((facts.package.as_str(), facts.version.as_str()), ("linux-image-7.0.1-a", "7.0.1-1"));
    assert_eq!(facts.architecture, "amd64");
    assert_eq!(unpacked.files.len(), 4);
    assert_eq!((unpacked.left_out.len(), unpacked.bytes), (0, 7));
    let into = outer.path().join("into");
    assert_eq!(fs::read(into.join("boot/vmlinuz-7.0.1-a")).unwrap(), b"image");
    assert_eq!(fs::read_link(into.join("usr/lib/libx.so")).unwrap(), Path::new("libx.so.1"));
    assert_eq!(fs::read(into.join("usr/bin/same")).unwrap(), b"#!");
}

#[test]
fn a_truncated_package_is_refused_at_every_offset() {
    let whole = small();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.deb");
    for cut in 0..whole.len() {
        let read = read_from(&mut &whole[..cut], Some((folder.path(), &|_| false)));
        assert!(read.is_err(), "cut at {cut}");
    }
    fs::write(&path, &whole[..whole.len() - 700]).unwrap();
    let problem = unpack_deb(&path, &folder.path().join("into"), &|_| false).unwrap_err();
    assert_eq!(problem.why, format!("the file is cut off (at byte {})", whole.len() - 700));
}

#[test]
fn nothing_leaves_the_folder() {
    for (name, members) in [
        ("up", vec![Made::File("../evil", b"x")]),
        ("up, later", vec![Made::File("./usr/../../evil", b"x")]),
        ("through a link", vec![Made::Link("./d", "../.."), Made::File("./d/evil", b"x")]),
        ("through an absolute link", vec![Made::Link("./d", "/tmp"), Made::File("./d/evil", b"x")]),
        ("over a link", vec![Made::Link("./d", "../evil"), Made::File("./d", b"x")]),
        ("a link in a link", vec![Made::Link("./d", "e"), Made::Link("./d/f", "../../evil")]),
        ("hard link", vec![Made::HardLink("./h", "../../../../../../etc/hostname")]),
        ("hard link through a link", vec![Made::Link("./l", "/etc/hostname"), Made::HardLink("./h", "./l")]),
        ("twice", vec![Made::File("./a", b"1"), Made::File("./a", b"2")]),
        ("file and folder", vec![Made::File("./a", b"1"), Made::File("./a/b", b"2")]),
    ] {
        let (read, outer) = unpacked(&deb("p", &members));
        let names: Vec<_> = fs::read_dir(outer.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["into"], "{name}");
        assert!(!Path::new("/tmp/evil").exists(), "{name}");
        if let Ok((_, unpacked)) = read {
            for file in &unpacked.files {
                let real = outer.path().join("into").join(file).canonicalize();
                let root = outer.path().join("into").canonicalize().unwrap();
                assert!(real.map_or(true, |real| real.starts_with(&root)), "{name}: {}", file.display());
            }
        }
    }
}

#[test]
fn an_absolute_path_is_one_below_the_folder() {
    let (read, outer) = unpacked(&deb("p", &[Made::File("/etc/inside", b"x")]));
    assert_eq!(read.unwrap().1.files, [Path::new("etc/inside")]);
    assert!(outer.path().join("into/etc/inside").exists());
}

#[test]
fn wrong_sizes_are_refused_before_they_are_used() {
    let mut name_bomb = tar(&[Made::File("././@LongLink", b"")]);
    name_bomb[156] = b'L';
    name_bomb[124..136].copy_from_slice(b"77777777777\0");
    let sum: u32 = name_bomb[..512]
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
        .sum();
    name_bomb[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = b"!<arch>\ndebian-binary   0           0     0     100644  4         `\n2.0\n".to_vec();
    archive.extend(format!("{:16}{:32}{:<10}`\n", "control.tar", "", name_bomb.len()).as_bytes());
    archive.extend(&name_bomb);
    let error = unpacked(&archive).0.unwrap_err().to_string();
    assert!(error.contains("bytes long"), "{error}");
    let lie = b"!<arch>\ncontrol.tar.xz  0           0     0     100644  9999999999`\n";
    assert!(unpacked(lie).0.unwrap_err().to_string().contains("9999999999 bytes long"));
    for (bytes, says) in [
        (b"!<arch>\n".as_slice(), "no data"),
        (b"PK\x03\x04aaaa", "not a Debian package"),
        (b"!<arch>\ndebian-binary   0           0     0     100644  4         `\n3.0\n", "version `3.0`"),
    ] {
        let error = unpacked(bytes).0.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn long_names_of_both_kinds_are_read() {
    let long = format!("./usr/{}/file", "long/".repeat(60));
    let (read, _outer) = unpacked(&deb("p", &[Made::File(&long, b"x")]));
    assert_eq!(read.unwrap().1.files, [Path::new(&long[2..])]);
    let record = format!(" path={long}\n");
    let length = (record.len() + 3).to_string();
    assert_eq!(length.len(), 3);
    let pax = format!("{length}{record}");
    let members = [Made::Raw(b'x', pax.as_bytes()), Made::File("./short", b"y")];
    let (read, _outer) = unpacked(&deb("p", &members));
    assert_eq!(read.unwrap().1.files, [Path::new(&long[2..])]);
}
