//! What developers run: `cargo xtask NAME`.

use anyhow::{Context as _, Result};
use std::process::ExitCode;
use xtask::{
    Repo, against_guests, budgets, calibrate, catalogues, constants, curve, ignored, inside, invariants, layers, opens,
    platforms, purity, reports, site, texts, truth, validation, web,
};

const USAGE: &str = "\
usage: cargo xtask NAME
  against-guests SIMULATED.holdup GUESTS.holdup
               the tables of one plan simulated and run in guests, as Markdown for docs/simulator.md
  calibrate [TABLE…]  simulates what the statistics promise and writes docs/calibration.md (minutes; use --release)
  curve FILE   draws the CSV on standard input that `cargo bench -p holdup-sim --bench machine -- --curve` wrote as SVG
  ignored FILE [ALLOWED]
               which tests could not run, as HOLDUP_IGNORED=FILE noted them, and whether ALLOWED lists them all
  inside FOLDER TARGET TIMESTAMP
               writes the licences of what is in the release for a target, and its bill of materials; prints the licence of
               the whole (script/packages)
  reports      the pages of published reports and the table in README.md, from reports/*.toml
  site FOLDER HOLDUP
               what mdBook builds the site from, with the reference that the program HOLDUP lists (script/site)
  site-check FOLDER
               whether every link of the built site leads somewhere
  site-commands PAGE
               the commands of a page as a script for sh (script/site-commands)
  tidy [--write] [--release PATH]
               the checks of the repository that no compiler makes (also in cargo test); --write lowers the numbers of
               budgets.toml that are better now, --release counts the bytes of a program too
  truth LIST [--list] [--repeats N] [--minutes N] [--keep] [GROUP…]
               tries the statements about a live host that `cargo nextest list` wrote into LIST (script/truth)
  validation PART
               puts what it reads into a part of docs/simulator.md (script/validate-simulator)
  web-stale    whether the built web bundle belongs to its sources
  web-hash     the first line that the built web bundle must have for the present sources";

#[allow(clippy::print_stdout, reason = "this program is for people at a terminal")]
fn say(line: &str) {
    println!("{line}");
}

fn main() -> Result<ExitCode> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let wrong = match name.as_str() {
        "tidy" => tidy(&budgets::TidyOptions::parse(&std::env::args().skip(2).collect::<Vec<_>>())?)?,
        "against-guests" => {
            let [simulated, guests] =
                std::env::args().skip(2).collect::<Vec<_>>().try_into().map_err(|_| {
                    anyhow::anyhow!("against-guests: it takes two bundles\nhint: the simulated one first")
                })?;
            say(&against_guests::run(simulated.as_ref(), guests.as_ref())?);
            Vec::new()
        }
        "calibrate" => {
            calibrate::write(&std::env::args().skip(2).collect::<Vec<_>>(), &say)?;
            Vec::new()
        }
        "truth" => {
            let args: Vec<String> = std::env::args().skip(2).collect();
            let (list, rest) = args.split_first().context("truth: the list of tests is missing")?;
            truth::run(&xtask::repo::root(), list.as_ref(), &truth::Options::parse(rest)?, &say)?
        }
        "validation" => {
            let part = std::env::args().nth(2).unwrap_or_default();
            validation::write(&xtask::repo::root(), &part, &std::io::read_to_string(std::io::stdin())?)?;
            Vec::new()
        }
        "curve" => {
            let series = curve::read(&std::io::read_to_string(std::io::stdin())?)?;
            let file =
                std::env::args().nth(2).ok_or_else(|| anyhow::anyhow!("curve: the name of the SVG is missing"))?;
            std::fs::write(&file, curve::draw(&series)).with_context(|| file.clone())?;
            series.iter().for_each(|series| say(&series.says()));
            Vec::new()
        }
        "ignored" => {
            let read = |n: usize| std::env::args().nth(n).map(|file| std::fs::read_to_string(&file).context(file));
            let noted = read(2).context("ignored: the name of a file is missing")?.unwrap_or_default();
            say(ignored::summary(&noted).trim_end());
            read(3).transpose()?.map_or_else(Vec::new, |allowed| ignored::check(&allowed, &noted))
        }
        "inside" => {
            let [folder, target, timestamp] =
                std::env::args().skip(2).collect::<Vec<_>>().try_into().map_err(|_| {
                    anyhow::anyhow!("inside: it takes a folder, a target of Rust and a time as in 2026-01-31T00:00:00Z")
                })?;
            say(&inside::write(folder.as_ref(), &target, &timestamp)?);
            Vec::new()
        }
        "reports" => {
            reports::write(&xtask::repo::root())?;
            Vec::new()
        }
        "site" | "site-check" | "site-commands" => site_task(&name)?,
        "web-stale" => web::check(&Repo::here()?),
        "web-hash" => {
            let hash = web::hash(&Repo::here()?).ok_or_else(|| anyhow::anyhow!("web/src: there are no sources"))?;
            say(&web::head(&hash));
            Vec::new()
        }
        "" | "help" | "--help" => {
            say(USAGE);
            Vec::new()
        }
        other => {
            say(&format!("`{other}` is no task\n{USAGE}"));
            return Ok(ExitCode::from(2));
        }
    };
    wrong.iter().for_each(|line| say(line));
    Ok(ExitCode::from(u8::from(!wrong.is_empty())))
}

/// The tasks of script/site.
fn site_task(name: &str) -> Result<Vec<String>> {
    let given = |n: usize| std::env::args_os().nth(n).with_context(|| format!("{name}: an argument is missing"));
    match name {
        "site" => site::assemble(&Repo::here()?, given(3)?.as_ref(), given(2)?.as_ref()).map(|()| Vec::new()),
        "site-check" => site::html::check(given(2)?.as_ref()),
        _ => {
            let page = given(2)?;
            say(&site::commands::script(&std::fs::read_to_string(&page).context(page.display().to_string())?));
            Ok(Vec::new())
        }
    }
}

fn tidy(options: &budgets::TidyOptions) -> Result<Vec<String>> {
    let mut repo = Repo::here()?;
    let counts = budgets::count(&repo, options.release.as_deref())?;
    if options.write {
        let text = budgets::lowered(repo.text(budgets::FILE).unwrap_or_default(), &counts)?;
        std::fs::write(xtask::repo::root().join(budgets::FILE), &text).context(budgets::FILE)?;
        repo.files.insert(budgets::FILE.to_owned(), text.into_bytes());
    }
    let repo = &repo;
    let (crates, edges) = layers::edges()?;
    Ok([
        layers::check(repo, &crates, &edges),
        purity::check(repo),
        opens::check(repo),
        opens::own_reads(repo),
        constants::check(repo),
        catalogues::check(repo),
        platforms::check(repo),
        texts::check(repo),
        budgets::check(repo, &counts),
        invariants::check(repo),
        reports::check(repo),
        web::check(repo),
        site::links::check(repo),
        site::commands::check(repo),
    ]
    .concat())
}
