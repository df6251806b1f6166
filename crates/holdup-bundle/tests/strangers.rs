//! Bundles of other users: nothing beside them is written, opened without need or believed.

use crate::common;
use common::{names, sample, write};
use holdup_model::MemoryBudget;
use holdup_testkit::ignore;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

fn bundle() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    write(&path, &sample(2)).expect("is written");
    (folder, path)
}

/// Gives a bundle and its folder to another user; false where this process may not.
fn give_away(folder: &Path, path: &Path) {
    if !holdup_testkit::is_root() {
        ignore("only root can give files away");
    }
    chown(folder, Some(54_321), None).and_then(|()| chown(path, Some(54_321), None)).expect("is given");
}

fn what_is_no_file_beside_a_bundle_is_refused_and_not_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    for suffix in ["-journal", "-wal", "-shm"] {
        let (folder, path) = bundle();
        let beside = folder.path().join(format!("a.holdup{suffix}"));
        mknodat(CWD, &beside, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
        let problem = holdup_bundle::read(&path).expect_err("it is refused");
        assert!(problem.why.contains(suffix) && problem.hint.is_some(), "{problem}");
        std::fs::remove_file(&beside).expect("is removed");
        std::os::unix::fs::symlink("/etc/passwd", &beside).expect("a link");
        holdup_bundle::read(&path).expect_err("a link is refused");
    }
}

/// The first bytes of a journal (pager.c, `aJournalMagic`).
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The header of a journal of some pages of a file as it is, padded to a sector, and the bytes of a page.
fn begun_journal(bytes: &[u8], pages: u32) -> (Vec<u8>, u32) {
    let page_bytes = u32::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let mut journal = MAGIC.to_vec();
    for number in [pages, 0, u32::try_from(bytes.len()).expect("is small") / page_bytes, 512, page_bytes] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(512, 0);
    (journal, page_bytes)
}

/// A journal with which SQLite puts zeros into a page.
fn forged_journal(bytes: &[u8], page: u32) -> Vec<u8> {
    let (mut journal, page_bytes) = begun_journal(bytes, 1);
    journal.extend(page.to_be_bytes());
    // The sum of zeros and of a nonce of zero.
    journal.resize(journal.len() + page_bytes as usize + 4, 0);
    journal
}

/// Finding H1 of the attacks, b: in a folder such as /tmp anybody makes a journal for a bundle that is whole.
fn a_journal_that_its_owner_did_not_make_is_no_journal() {
    let (folder, path) = bundle();
    let own = holdup_bundle::read(&path).expect("is read");
    let bytes = std::fs::read(&path).expect("is there");
    let journal = folder.path().join("a.holdup-journal");
    let plant = || std::fs::write(&journal, forged_journal(&bytes, 5)).expect("is written");
    plant();
    holdup_bundle::read(&path).expect_err("the owner's own is rolled back, and this one does harm");
    std::fs::write(&path, &bytes).expect("is written");
    let is_read_as_it_is = |what: &str| {
        assert_eq!(holdup_bundle::read(&path).as_ref(), Ok(&own), "{what}");
        assert!(holdup_bundle::verify(&path, &MemoryBudget::default()).expect("is verified").whole, "{what}");
        assert_eq!(std::fs::read(&path).expect("is there"), bytes, "{what}");
    };
    // Another file of the owner, by a second name.
    std::fs::write(folder.path().join("other"), forged_journal(&bytes, 5)).expect("is written");
    let _none = std::fs::remove_file(&journal);
    std::fs::hard_link(folder.path().join("other"), &journal).expect("is linked");
    is_read_as_it_is("a hard link");
    std::fs::remove_file(&journal).expect("is removed");
    if !holdup_testkit::is_root() {
        ignore("only root can give files away");
    }
    plant();
    chown(&journal, Some(54_321), None).expect("is given");
    set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("is set");
    is_read_as_it_is("another user's");
}

/// Finding H1 of the attacks: the same while the bundle is written.
fn a_journal_beside_a_bundle_that_is_written_changes_nothing() {
    let (folder, whole) = (tempfile::tempdir().expect("a folder"), sample(3));
    let path = folder.path().join("a.holdup");
    let mut writer = common::create(&path, &whole).expect("is begun");
    for trial in &whole.trials {
        let bytes = std::fs::read(&path).expect("is read through the link");
        let forged = forged_journal(&bytes, 5);
        std::fs::write(folder.path().join("a.holdup-journal"), forged).expect("is written");
        writer.add_trial(trial).expect("is written");
    }
    writer.finish(&holdup_model::bundle::Ending::Complete).expect("is finished");
    std::fs::remove_file(folder.path().join("a.holdup-journal")).expect("it is the stranger's, and there");
    assert_eq!(holdup_bundle::read(&path).expect("is read").trials, whole.trials);
    assert_eq!(names(folder.path()), ["a.holdup"]);
}

/// SQLite removes the file that a journal names as its super-journal, wherever it is.
fn a_journal_that_names_another_file_is_refused() {
    let (folder, path) = bundle();
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "").expect("is written");
    let name = victim.to_str().expect("is UTF-8").as_bytes();
    // A header of no pages, then the page and name of pager.c, `writeSuperJournal`.
    let (mut journal, _) = begun_journal(&std::fs::read(&path).expect("is there"), 0);
    journal.extend(u32::MAX.to_be_bytes());
    journal.extend(name);
    journal.extend(u32::try_from(name.len()).expect("is short").to_be_bytes());
    journal.extend(name.iter().map(|byte| u32::from(*byte)).sum::<u32>().to_be_bytes());
    journal.extend(MAGIC);
    std::fs::write(folder.path().join("a.holdup-journal"), journal).expect("is written");
    for _ in 0..2 {
        let problem = holdup_bundle::read(&path).expect_err("it is refused");
        assert!(problem.why.contains("names another file"), "{problem}");
        assert!(victim.exists(), "what the journal names was removed");
        // Of another user it is refused as well.
        give_away(folder.path(), &path);
        chown(folder.path().join("a.holdup-journal"), Some(54_321), None).expect("is given");
    }
}

fn a_bundle_of_another_user_is_read_as_it_lies_there() {
    let (folder, path) = bundle();
    let own = holdup_bundle::read(&path).expect("is read");
    give_away(folder.path(), &path);
    assert_eq!(holdup_bundle::read(&path).as_ref(), Ok(&own));
    // Write-ahead logging would make files beside it.
    let mut bytes = std::fs::read(&path).expect("is there");
    bytes[18..20].fill(2);
    std::fs::write(&path, &bytes).expect("is written");
    assert_eq!(holdup_bundle::read(&path).as_ref(), Ok(&own));
    // A name that means something in a URI.
    let odd = folder.path().join("a?mode=rw%41#b .holdup");
    std::fs::rename(&path, &odd).expect("is renamed");
    assert_eq!(holdup_bundle::read(&odd).as_ref(), Ok(&own));
    assert_eq!(names(folder.path()), ["a?mode=rw%41#b .holdup"]);
    assert_eq!(std::fs::read(&odd).expect("is there"), bytes);
}

fn a_bundle_that_others_may_write_is_read_as_one_of_theirs() {
    let (folder, path) = bundle();
    let own = holdup_bundle::read(&path).expect("is read");
    let mut bytes = std::fs::read(&path).expect("is there");
    bytes[18..20].fill(2);
    std::fs::write(&path, &bytes).expect("is written");
    set_permissions(&path, Permissions::from_mode(0o666)).expect("is set");
    assert_eq!(holdup_bundle::read(&path).as_ref(), Ok(&own));
    assert_eq!(names(folder.path()), ["a.holdup"]);
}

/// Finding L7 of the attacks.
fn the_copy_of_a_reader_that_was_killed_is_removed_by_the_next() {
    let (folder, path) = bundle();
    let journal = forged_journal(&std::fs::read(&path).expect("is there"), 5);
    std::fs::write(folder.path().join("a.holdup-journal"), journal).expect("is written");
    set_permissions(&path, Permissions::from_mode(0o666)).expect("is set");
    let copies =
        || tempfile::Builder::new().prefix("holdup-recover-").permissions(Permissions::from_mode(0o700)).tempdir();
    let (left, young) = (copies().expect("a folder"), copies().expect("a folder"));
    let file = std::fs::File::open(left.path()).expect("is there");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("is set");
    holdup_bundle::read(&path).expect_err("what the journal brings back is no bundle");
    assert!(!left.path().exists() && young.path().exists());
}

fn the_bundle_of_a_writer_that_was_killed_before_it_wrote_is_removed_by_the_next_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let draft = holdup_files::DraftFile::create(&path, true).expect("is made");
    let journal = draft.path().with_file_name("a.holdup-journal");
    std::fs::write(&journal, "").expect("is written");
    drop(draft);
    std::fs::remove_file(journal).expect("it kept the draft");
    assert!(path.is_symlink());
    let problem = holdup_bundle::read(&path).expect_err("it holds nothing");
    assert!(problem.why.starts_with("holds nothing"), "{problem}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

holdup_testkit::tests!(
    the_bundle_of_a_writer_that_was_killed_before_it_wrote_is_removed_by_the_next_reader,
    what_is_no_file_beside_a_bundle_is_refused_and_not_waited_for,
    a_journal_that_its_owner_did_not_make_is_no_journal,
    a_journal_beside_a_bundle_that_is_written_changes_nothing,
    a_journal_that_names_another_file_is_refused,
    the_copy_of_a_reader_that_was_killed_is_removed_by_the_next,
    a_bundle_of_another_user_is_read_as_it_lies_there,
    a_bundle_that_others_may_write_is_read_as_one_of_theirs
);
