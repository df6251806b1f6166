//! The servers of `postgres.build`, made before the first trial.

use crate::run::RunRequest;
use holdup_catalogue::pgbench::{BUILD, DEFAULT_VERSION, VERSION};
use holdup_kernels::build::{self, ServerSpec, Tests};
use holdup_kernels::{Cache, Options};
use holdup_load::PostgresOptions;
use holdup_model::guest::{PACKAGED, POSTGRES_SERVER};
use holdup_model::{Observer, Plan, Problem};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The options of a run, with the servers that its plan names: from the cache, or built now.
///
/// # Errors
/// When a level is no build, the plan or the command line names another server too, or a server cannot be built.
pub(crate) fn with_builds(
    request: &RunRequest<'_>,
    is_simulated: bool,
    observer: &mut dyn Observer,
) -> Result<PostgresOptions, Problem> {
    let mut postgres = request.postgres.clone();
    if is_simulated {
        return Ok(postgres);
    }
    let specs = specs(request.plan)?;
    for level in folders(request.plan) {
        let programs = programs(Path::new(&level[FOLDER.len()..]))?;
        postgres.builds.insert(level, programs);
    }
    if specs.is_empty() && postgres.builds.is_empty() {
        return Ok(postgres);
    }
    let other = [("--pg", postgres.url.is_some()), ("--pg-bin", postgres.bin.is_some())];
    if let Some((name, _)) = other.iter().find(|(_, is_given)| *is_given) {
        return Err(Problem::usage(format!("{BUILD} and {name}"), "the plan has holdup build the server")
            .hint(format!("leave {name} away")));
    }
    let cache = Cache::open(&request.guests.cache.clone().unwrap_or_else(Cache::default_root))?;
    let options = Options {
        mirror: request.guests.mirror.clone(),
        offline: request.guests.offline,
        cancel: Some(request.cancel.flag()),
        ..Options::default()
    };
    for (level, spec) in specs {
        let server = build::server(&spec, Tests::None, &cache, &options, observer)?;
        postgres.builds.insert(level, server.bin());
    }
    Ok(postgres)
}

/// A level of `postgres.build` that begins so is a server that somebody else built, in this folder.
const FOLDER: &str = "dir:";

fn folders(plan: &Plan) -> BTreeSet<String> {
    let levels = crate::levels::levels(plan, BUILD).map(|level| level.value.to_string());
    levels.filter(|level| level.starts_with(FOLDER)).collect()
}

/// The folder with the programs of a server that was installed somewhere beneath a folder.
fn programs(folder: &Path) -> Result<PathBuf, Problem> {
    let places = ["bin", "inst/bin", "install/bin", "tmp_install/bin", "."].map(|place| folder.join(place));
    places.into_iter().find(|bin| bin.join("postgres").is_file() && bin.join("pgbench").is_file()).ok_or_else(|| {
        Problem::trial(format!("server in {}", folder.display()), "no folder there has postgres and pgbench")
            .hint("the build has to install into {dir}/inst: ./configure --prefix={dir}/inst && make install")
    })
}

/// The levels of `postgres.build`, each with what is built for it.
///
/// # Errors
/// When a level is no build, or the plan names another server too.
pub(crate) fn specs(plan: &Plan) -> Result<Vec<(String, ServerSpec)>, Problem> {
    let texts = |name: &'static str| -> BTreeSet<String> {
        crate::levels::levels(plan, name).map(|level| level.value.to_string()).collect()
    };
    let (mut builds, versions) = (texts(BUILD), texts(VERSION));
    if !folders(plan).is_empty() {
        builds.retain(|build| !build.starts_with(FOLDER));
        if builds.is_empty() {
            return Ok(Vec::new());
        }
    }
    let known = versions.first().map_or(DEFAULT_VERSION, String::as_str);
    if versions.len() > 1 {
        let all: Vec<&str> = versions.iter().map(String::as_str).collect();
        return Err(Problem::usage(format!("{VERSION} = {}", all.join(", ")), "servers of a plan are of one version")
            .hint(format!("a run for each: --set {VERSION}={known}")));
    }
    let builds = match builds.is_empty() && !versions.is_empty() {
        true => BTreeSet::from([build::STOCK.to_owned()]),
        false => builds,
    };
    let other = texts(POSTGRES_SERVER).into_iter().find(|server| !server.starts_with(PACKAGED));
    if let (Some(other), false) = (other, builds.is_empty()) {
        return Err(Problem::usage(format!("{BUILD} and {POSTGRES_SERVER} = {other}"), "both name the guest's server")
            .hint(format!(
                "{VERSION} chooses the version; {POSTGRES_SERVER} = {PACKAGED}{known} has its libraries used"
            )));
    }
    if let (Some(guest), false) = (&plan.guest, builds.is_empty())
        && !holdup_guest::arch::of(guest.arch)?.is_hosts()
    {
        let what = format!("{BUILD} and guest.arch = {}", guest.arch.word());
        return Err(Problem::usage(what, "PostgreSQL is built for the architecture of this host")
            .hint(format!("{POSTGRES_SERVER} = {PACKAGED}{known} has Debian's packages")));
    }
    builds.into_iter().map(|build| ServerSpec::parse(known, &build).map(|spec| (build, spec))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(factors: &str) -> Result<Vec<String>, Problem> {
        let text = format!("[[workload]]\nkind = \"pgbench\"\n{factors}");
        let (plan, _) = crate::checked(&text, holdup_model::Machine { cpus: 2, memory_bytes: 8 << 30 });
        specs(&plan).map(|all| all.into_iter().map(|(level, spec)| format!("{level}: {spec}")).collect())
    }

    #[test]
    fn a_plan_names_servers_of_one_version() {
        assert_eq!(of("").unwrap(), Vec::<String>::new());
        let two = "[factors]\n\"postgres.build\" = [\"stock\", \"patches/spin-slice-extension\"]\n";
        let patched = "patches/spin-slice-extension: 18 patches/spin-slice-extension";
        assert_eq!(of(two).unwrap(), [patched, "stock: 18 stock"]);
        let seventeen = format!("{two}[set]\n\"postgres.version\" = \"17\"\n");
        assert_eq!(of(&seventeen).unwrap()[1], "stock: 17 stock");
        assert_eq!(of("[set]\n\"postgres.version\" = \"17\"\n").unwrap(), ["stock: 17 stock"]);
        let several = of("[factors]\n\"postgres.version\" = [\"17\", \"18\"]\n").unwrap_err();
        assert!(several.hint.unwrap().contains("--set postgres.version=17"));
        assert!(of("[factors]\n\"postgres.build\" = [\"stock\", \"faster\"]\n").unwrap_err().why.contains("faster"));
    }
}
