//! The commands of tutorials and how-to pages as one script for each page.
//!
//! A block is fenced as `sh`. All blocks of a page run in one shell, in the order of the page. A block whose first line begins
//! with [`NOT_RUN`] is not run. A command that ends in [`EXIT_CODES`] may end with one of these codes, any other with 0 only.

use crate::Repo;
use holdup_model::text::shell_quoted;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// The folders whose pages are run.
pub const FOLDERS: [&str; 2] = ["docs/tutorials", "docs/how-to"];

/// How a block says that it is not run, before the reason.
const NOT_RUN: &str = "# not run by the tests: ";

/// How a command says with which codes it may end.
const EXIT_CODES: &str = "# exit code ";

/// What is wrong with the blocks of all these pages: one that is neither run nor says why not.
pub fn check(repo: &Repo) -> Vec<String> {
    let mut wrong = Vec::new();
    for folder in FOLDERS {
        for (name, text) in repo.under(folder) {
            let blocks = blocks(text);
            let page = format!("{folder}/{name}");
            if !blocks.iter().any(|(language, block)| language == "sh" && !block.starts_with(NOT_RUN)) {
                wrong.push(format!("{page}: no command of it is run"));
            }
            let is_command = |block: &str| block.lines().any(|line| line.trim_start().starts_with("holdup "));
            let unknown = blocks.iter().filter(|(language, block)| language != "sh" && is_command(block));
            wrong.extend(unknown.map(|(_, block)| {
                format!(
                    "{page}: a command stands in a block that is not fenced as sh: {}",
                    block.lines().next().unwrap_or_default()
                )
            }));
        }
    }
    wrong
}

/// The blocks of a page, with the words behind their fences; one that is indented has none.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(words) => words.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                open = Some((language, String::new()));
            }
            Event::Text(text) => {
                if let Some((_, block)) = &mut open {
                    block.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

/// The commands of a page as a script for sh(1), which ends with the first that fails.
pub fn script(text: &str) -> String {
    let mut script = String::from("set -eu\n");
    for (_, block) in blocks(text).into_iter().filter(|(language, _)| language == "sh") {
        if block.starts_with(NOT_RUN) {
            continue;
        }
        script.push_str(&format!("echo {} >&2\n", shell_quoted(block.trim_end())));
        let mut command = String::new();
        for line in block.lines() {
            command.push_str(&format!("{line}\n"));
            if !line.ends_with('\\') {
                script.push_str(&checked(&std::mem::take(&mut command)));
            }
        }
        script.push_str(&command);
    }
    script
}

/// A line of the shell, and with which codes it may end where it says so.
fn checked(command: &str) -> String {
    let Some((_, codes)) = command.split_once(EXIT_CODES) else { return command.to_owned() };
    let codes = codes.trim_end().replace(" or ", "|").replace(", ", "|");
    format!(
        "set +e\n{command}code=$?\nset -e\ncase $code in {codes}) ;; *) echo \"exit code $code\" >&2; exit 1 ;; esac\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn run(page: &str) -> (bool, String) {
        let done = Command::new("sh").args(["-c", &script(page)]).output().expect("sh is there");
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    }

    #[test]
    fn blocks_run_in_one_shell_in_order() {
        let page = "# P\n```sh\na=1\n```\nText\n```sh\n# not run by the tests: it needs another host\nexit 9\n```\n```sh\necho $a\n```\n```text\nexit 9\n```\n";
        assert_eq!(run(page), (true, "1\n".to_owned()));
    }

    #[test]
    fn a_command_that_fails_fails_the_page() {
        assert!(!run("```sh\nfalse\n```\n").0);
        assert!(!run("```sh\nsh -c 'exit 2'   # exit code 0, 1 or 3\n```\n").0);
        assert!(run("```sh\nsh -c 'exit 3'   # exit code 0, 1 or 3\n```\n").0);
        assert!(!run("```sh\nfalse\nsh -c 'exit 3'   # exit code 3\n```\n").0, "each for itself");
        assert!(run("```sh\nsh -c \\\n 'exit 3'   # exit code 3\ncat <<END >/dev/null\nx\nEND\n```\n").0);
        assert!(!run("```sh\nsh -c 'exit 3'\n```\n").0);
    }

    #[test]
    fn a_command_outside_of_a_block_that_is_run_is_found() {
        let wrong = |text: &str| check(&Repo::of(&[("docs/how-to/a.md", text)])).len();
        assert_eq!(wrong("```sh\nholdup check\n```\n"), 0);
        assert_eq!(wrong("```sh\nholdup check\n```\n\n    holdup run x\n"), 1);
        assert_eq!(wrong("```sh\n# not run by the tests: no\nholdup check\n```\n"), 1, "nothing is run");
        assert_eq!(wrong("Words.\n"), 1);
    }
}
