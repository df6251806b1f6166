//! The script of the array job.

use std::path::Path;

/// The exit code of a task on a node that does not see the folder of the run.
pub(crate) const NO_FOLDER: u32 = 66;
/// The exit code of a task on a node that does not see the folder in which holdup was started.
pub(crate) const NO_WORKING_FOLDER: u32 = 67;

/// The script that each task of the array runs: it looks whether the node sees the folders, and becomes holdup.
///
/// Slurm writes no output: on a node without the folder it could not.
pub fn script(folder: &Path, working_folder: &Path) -> String {
    let (folder, working) = (quoted(folder), quoted(working_folder));
    format!(
        "#!/bin/sh\n\
         # One part of a run of holdup: https://slurm.schedmd.com/job_array.html\n\
         folder={folder}\n\
         [ -r \"$folder/job.json\" ] && [ -x \"$folder/holdup\" ] || exit {NO_FOLDER}\n\
         cd {working} || exit {NO_WORKING_FOLDER}\n\
         exec >>\"$folder/log/part-$SLURM_ARRAY_TASK_ID.txt\" 2>&1\n\
         exec \"$folder/holdup\" run --part \"$SLURM_ARRAY_TASK_ID\" --of \"$folder\"\n"
    )
}

/// A path as a word of the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn a_path_of_any_letters_is_one_word(name in "[^\0/]{1,20}") {
            let path = Path::new("/tmp").join(&name);
            let said = Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(&path))).output().unwrap();
            prop_assert_eq!(String::from_utf8(said.stdout).unwrap(), path.display().to_string());
        }
    }
}
