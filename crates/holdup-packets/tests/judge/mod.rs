//! tshark 4.6, the judge of what a frame holds and how a segment is marked. It is `HOLDUP_TSHARK`, or `tshark` on the path
//! when that is 4.6; `script/get-tshark` brings one.
#![allow(dead_code, reason = "each test that takes this in uses a part of it")]

use holdup_testkit::ignore;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The version whose answers hold.
const VERSION: &str = "4.6.";

/// A tshark that can be asked.
pub(crate) struct Tshark {
    program: PathBuf,
    /// The first line of its version.
    pub(crate) version: String,
    folder: tempfile::TempDir,
}

/// tshark 4.6; without it the test is ignored.
///
/// # Panics
/// When `HOLDUP_TSHARK` names something else.
pub(crate) fn tshark() -> Tshark {
    let named = std::env::var_os("HOLDUP_TSHARK");
    let program = PathBuf::from(named.clone().unwrap_or_else(|| "tshark".into()));
    let said = Command::new(&program).arg("--version").output();
    let version = said.ok().map(|out| String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or("").to_owned());
    let is_right = version.as_ref().is_some_and(|version| version.contains(&format!(") {VERSION}")));
    if is_right {
        let folder = tempfile::tempdir().expect("a folder can be made");
        return Tshark { program, version: version.unwrap_or_default(), folder };
    }
    assert!(named.is_none(), "HOLDUP_TSHARK is no tshark {VERSION}x: {version:?}");
    match version {
        Some(version) => ignore(format!("tshark is {version:?} and not {VERSION}x: script/get-tshark")),
        None => ignore("there is no tshark: script/get-tshark"),
    }
}

impl Tshark {
    /// The fields of each frame of a capture, with the preferences that tshark has by default, and arguments more. Where a
    /// field stands several times in a frame, its values are joined by commas.
    ///
    /// # Panics
    /// When tshark fails.
    pub(crate) fn fields(&self, capture: &[u8], fields: &[&str], more: &[&str]) -> Vec<Vec<String>> {
        rows(&self.text(capture, &arguments(fields, more)), fields)
    }

    /// For a file that may be damaged or not a capture: the output of tshark until it failed.
    pub(crate) fn fields_so_far(&self, capture: &[u8], fields: &[&str], more: &[&str]) -> Vec<Vec<String>> {
        let out = self.output(capture, &arguments(fields, more));
        rows(&String::from_utf8_lossy(&out.stdout), fields)
    }

    /// What tshark says of a capture, by arguments.
    ///
    /// # Panics
    /// When tshark fails.
    pub(crate) fn text(&self, capture: &[u8], arguments: &[&str]) -> String {
        let out = self.output(capture, arguments);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "tshark: {said}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn output(&self, capture: &[u8], arguments: &[&str]) -> Output {
        let file = self.folder.path().join("capture");
        std::fs::write(&file, capture).expect("a file can be written");
        let mut command = Command::new(&self.program);
        // Preferences of the user would change the answers.
        command.env("WIRESHARK_CONFIG_DIR", self.folder.path().join("none"));
        command.args(["-n", "-r"]).arg(&file).args(arguments).output().expect("tshark can be started")
    }
}

fn arguments<'a>(fields: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["-T", "fields", "-E", "separator=/t", "-E", "aggregator=,"];
    arguments.extend(more);
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    arguments
}

fn rows(text: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let rows: Vec<Vec<String>> = text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == fields.len()), "tshark gave other fields than {fields:?}");
    rows
}
