//! The script of the array job.

use crate::job::Stage;
use crate::queue::MARK;
use std::collections::BTreeSet;
use std::path::Path;

/// The exit code of a task on a node that does not see the folder of the run.
pub(crate) const NO_FOLDER: u32 = 66;
/// The exit code of a task on a node that does not see the folder in which holdup was started.
pub(crate) const NO_WORKING_FOLDER: u32 = 67;
/// The exit code of a task on a node that has no folder for what is brought to it.
pub(crate) const NO_SCRATCH: u32 = 68;
/// The exit code of a task that cannot say where it is.
pub(crate) const NO_COMMENT: u32 = 69;
/// The exit code of a task to which nothing was brought.
pub(crate) const NOT_STAGED: u32 = 71;

/// How long a task waits for what it needs, and then for its part to be fetched, s.
pub(crate) const STAGE_WAIT_S: u64 = 600;
/// The file that is brought last: all others are there.
pub(crate) const STAGED: &str = "staged";
/// The folder for files that programs of the plan read.
pub(crate) const FILES: &str = "files";

/// The script that each task of the array runs: it looks whether the node sees the folders, and becomes holdup.
///
/// Slurm writes no output: on a node without the folder it could not.
pub(crate) fn script(folder: &Path, working_folder: &Path) -> String {
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

/// The script of a task on a node that shares no storage with this host: it makes a folder that only its user can enter, says where
/// in the comment of its job, waits until what it needs is there, runs its part, says that in the comment, and waits until SIGUSR1
/// says that the part was fetched. SLURM_JOB_ID does not do for the comment: of one task it is the number of the array. The folder is removed at every end but SIGKILL.
pub(crate) fn staged_script(stage: &Stage) -> String {
    let at = quoted(&stage.folder.join("holdup-XXXXXXXX"));
    let folders: BTreeSet<&Path> = stage.files.iter().filter_map(|(_, name)| name.parent()).collect();
    let folders: String =
        folders.into_iter().map(|f| format!(" \"$at\"/{}", quoted(&Path::new(FILES).join(f)))).collect();
    format!(
        "#!/bin/sh\n\
         # One part of a run of holdup, which brings all that it needs: sbcast(1), and srun(1) to fetch it\n\
         umask 077\n\
         at=$(mktemp -d {at}) || exit {NO_SCRATCH}\n\
         child= fetched= said= waited=0\n\
         trap 'rm -rf \"$at\"' EXIT\n\
         trap '[ -z \"$child\" ] || {{ kill -TERM \"$child\"; wait \"$child\"; }}; exit 143' TERM INT\n\
         trap 'fetched=$said' USR1\n\
         say() {{ scontrol update \"JobId=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\" \"Comment={MARK}:$1:$at\"; }}\n\
         mkdir -p \"$at/parts\" \"$at/log\" \"$at/{FILES}\"{folders} && say waits || exit {NO_COMMENT}\n\
         until [ -e \"$at/{STAGED}\" ]; do\n\
         \x20   [ $((waited += 1)) -le {STAGE_WAIT_S} ] || exit {NOT_STAGED}\n\
         \x20   sleep 1\n\
         done\n\
         cd \"$at/{FILES}\" || exit {NO_SCRATCH}\n\
         \"$at/holdup\" run --part \"$SLURM_ARRAY_TASK_ID\" --of \"$at\" >>\"$at/log/part-$SLURM_ARRAY_TASK_ID.txt\" 2>&1 &\n\
         child=$!\n\
         until wait \"$child\"; code=$?; ! kill -0 \"$child\" 2>/dev/null; do :; done\n\
         child= waited=0\n\
         until [ -n \"$fetched\" ] || [ $((waited += 1)) -gt {STAGE_WAIT_S} ]; do\n\
         \x20   [ -n \"$said\" ] || {{ say \"ended:$code\" && said=1; }}\n\
         \x20   sleep 1 & wait $!\n\
         done\n\
         exit \"$code\"\n"
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
