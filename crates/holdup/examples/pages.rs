//! Writes the man pages and the completions of the command line: `cargo run -p holdup --example pages -- FOLDER` fills
//! `FOLDER/man1`, `FOLDER/bash`, `FOLDER/zsh` and `FOLDER/fish`. `script/packages` puts them where each shell looks.
//!
//! An example, so that nothing of what makes them is in the release.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::io::{Error, Result};
use std::path::Path;

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: &Command, folder: &Path) -> Result<()> {
    for subcommand in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write_pages(subcommand, folder)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let page = Man::new(command.clone()).manual("holdup").source(format!("holdup {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(folder.join(format!("{name}.1")), text)
}

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| Error::other("usage: pages FOLDER"))?;
    let folder = Path::new(&folder);
    let mut command = holdup::command_line().disable_help_subcommand(true);
    let completions = [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];
    for (name, shell) in completions {
        fs::create_dir_all(folder.join(name))?;
        clap_complete::generate_to(shell, &mut command, "holdup", folder.join(name))?;
    }
    fs::create_dir_all(folder.join("man1"))?;
    command.build();
    write_pages(&command, &folder.join("man1"))
}
