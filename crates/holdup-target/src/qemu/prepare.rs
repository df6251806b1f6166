//! What a boot needs on disk: a kernel, an initramfs, a folder.

use super::boots::Choice;
use super::nic;
use crate::session::SessionRequest;
use holdup_guest::arch::Architecture;
use holdup_guest::image::{self, Image, ImageRequest, Modules, PostgresFiles};
use holdup_guest::machine::Nic;
use holdup_kernels::{Cache, Kernel, Options, Spec};
use holdup_load::{PostgresOptions, Workload};
use holdup_model::guest::{Devices, PACKAGED};
use holdup_model::{Event, Observer, ParameterKind, Plan, Problem, Value};
use holdup_postgres::Binaries;
use holdup_postgres::find::{Need, SearchPath};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The option of the virtio console, and the module that it may be.
const VIRTIO_CONSOLE: (&str, &str) = ("CONFIG_VIRTIO_CONSOLE", "virtio_console");

/// The cache of the agent in a guest, whose home is `/` ([`Cache::default_root`]).
const GUEST_CACHE: &str = "/.cache/holdup";

/// What a boot needs.
pub(super) struct Prepared {
    pub(super) arch: &'static Architecture,
    pub(super) kernel: Kernel,
    /// Its image as QEMU boots it.
    pub(super) kernel_image: PathBuf,
    pub(super) image: Image,
    /// The servers that were built for the plan, each with the folder of its programs in the guest.
    pub(super) postgres_builds: BTreeMap<String, String>,
    pub(super) virtio_console: bool,
    /// The card at both ends of the link, where there is a peer.
    pub(super) nic: Option<Nic>,
    /// Where QEMU runs; it writes nothing there.
    pub(super) folder: PathBuf,
}

impl Prepared {
    /// The folder of PostgreSQL's programs in the guest.
    pub(super) fn postgres_bin(&self) -> Option<String> {
        self.image.postgres_bin.as_ref().map(|bin| bin.display().to_string())
    }
}

/// What a boot needs, fetched and built where it is not cached.
pub(super) fn prepared(
    request: &SessionRequest<'_>,
    choice: &Choice,
    observer: &mut dyn Observer,
) -> Result<Prepared, Problem> {
    let guest = super::machine_of(request.plan);
    let arch = super::architecture(request.plan)?;
    let agent = arch.program(&guest.program)?;
    let cache = Cache::open(&request.guests.cache.clone().unwrap_or_else(Cache::default_root))?;
    let root = cache.root().to_owned();
    let mut options = Options {
        mirror: request.guests.mirror.clone(),
        offline: request.guests.offline,
        arch: arch.machine.to_owned(),
        modules: guest.devices == Devices::Virtio,
        cancel: Some(request.cancel.flag()),
    };
    let spec = Spec::parse(&choice.kernel)?;
    let mut kernel = cache.get(&spec, &options, observer)?;
    let needs_console = arch.serial.is_none() && !has_built_in(kernel.config.as_deref(), VIRTIO_CONSOLE.0);
    let needs_card = guest.peer && !nic::is_built_in(&kernel, guest.devices, arch.virtio);
    if (needs_console || needs_card) && !options.modules {
        // Its modules are 160 MB, so they are fetched only where they are needed.
        options.modules = true;
        kernel = cache.get(&spec, &options, observer)?;
    }
    let nic = guest.peer.then(|| nic::choose(&kernel, guest.devices, arch.virtio, &choice.kernel)).transpose()?;
    let (virtio_console, mut wanted) = console(&kernel, guest.devices, arch, &choice.kernel)?;
    wanted.extend(nic.iter().flat_map(|(_, modules)| modules.iter().copied()));
    wanted.dedup();
    let postgres = postgres(request, choice, &cache, &options, observer)?;
    let template = built(request).or_else(|| postgres.clone()).as_ref().and_then(|files| {
        match image::template(files, &root.join("templates"), observer) {
            Ok(template) => Some(template),
            Err(problem) => {
                let text =
                    format!("each guest runs initdb itself, which takes it a minute when it is emulated: {problem}");
                observer.event(Event::Note(&text));
                None
            }
        }
    });
    let mut extra: Vec<(PathBuf, PathBuf)> = configuration(&kernel).into_iter().collect();
    extra.extend(maps(request, &agent, postgres.as_ref(), &Cache::maps(&root)));
    extra.extend(files(request.plan)?);
    let is_more = |bin: &&PathBuf| !matches!(&postgres, Some(PostgresFiles::Bin(main)) if main == *bin);
    let more_postgres = request.postgres.builds.values().filter(is_more).cloned().collect();
    let programs = programs(request.plan);
    programs.iter().try_for_each(|program| is_seen("program", program))?;
    let image = image::assemble(
        &ImageRequest {
            agent,
            postgres,
            more_postgres,
            programs,
            modules: kernel
                .modules
                .clone()
                .filter(|_| !wanted.is_empty())
                .map(|dir| Modules { dir, wanted: wanted.iter().map(|m| (*m).to_owned()).collect() }),
            extra,
            facts: Vec::new(),
            template,
        },
        &root.join("images"),
        observer,
    )?;
    let nic = nic.map(|(nic, _)| nic);
    let kernel_image = cache.bootable(&kernel)?;
    let builds = request.postgres.builds.iter();
    let postgres_builds = builds.map(|(level, bin)| (level.clone(), bin.display().to_string())).collect();
    let folder = PathBuf::from("/");
    Ok(Prepared { arch, kernel, kernel_image, image, postgres_builds, virtio_console, nic, folder })
}

/// Whether the guest gets a virtio console, and the modules that it needs for it.
fn console(
    kernel: &Kernel,
    devices: Devices,
    arch: &Architecture,
    named: &str,
) -> Result<(bool, Vec<&'static str>), Problem> {
    let refused = |devices: &str, why: &str, hint: &str| {
        Err(Problem::host(format!("guest.devices = {devices} with kernel {named}"), why).hint(hint))
    };
    let config = kernel.config.as_deref();
    let is_only = arch.serial.is_none();
    if is_only && devices == Devices::Emulated {
        let why = format!("QEMU's machine for {} has no serial port for the agent", arch.id);
        return refused("emulated", &why, "devices = \"auto\" takes a virtio port");
    }
    // A kernel whose configuration is not known is tried.
    let built_in = has_built_in(config, VIRTIO_CONSOLE.0) || is_only && config.is_none();
    let is_required = is_only || devices == Devices::Virtio;
    let as_module = !built_in && is_required && kernel.modules.is_some();
    if is_required && !built_in && !as_module {
        let hint = match is_only {
            true => "take another kernel, such as one of Debian's",
            false => "devices = \"auto\" uses a serial port where there is none",
        };
        let devices = if devices == Devices::Virtio { "virtio" } else { "auto" };
        return refused(devices, "it has no virtio console, built in or as a module that could be had", hint);
    }
    let needs = [arch.virtio.driver(), VIRTIO_CONSOLE].into_iter();
    let modules = needs.filter(|(option, _)| as_module && !has_built_in(config, option));
    Ok((devices != Devices::Emulated && (built_in || as_module), modules.map(|(_, module)| module).collect()))
}

/// True if an option is built in. A kernel whose configuration is not known is taken to have none: the serial ports
/// that are used then are in every distribution's.
pub(super) fn has_built_in(config: Option<&Path>, name: &str) -> bool {
    option(config, name).as_deref() == Some("y")
}

/// The configuration in the guest, for a kernel that says its preemption model nowhere else.
fn configuration(kernel: &Kernel) -> Option<(PathBuf, PathBuf)> {
    let config = kernel.config.as_ref().filter(|config| !has_built_in(Some(config), "CONFIG_PREEMPT_DYNAMIC"))?;
    Some((config.clone(), PathBuf::from(format!("/boot/config-{}", kernel.release))))
}

/// The section maps of the programs in the guest, made here: an emulated guest would take minutes for each. Those that
/// cannot be made here are missing there too, or are made there, with the reason.
fn maps(
    request: &SessionRequest<'_>,
    agent: &Path,
    postgres: Option<&PostgresFiles>,
    folder: &Path,
) -> Vec<(PathBuf, PathBuf)> {
    if !holdup_evidence::want_sections(&request.plan.collectors) {
        return Vec::new();
    }
    let of_builds = request.postgres.builds.values().cloned();
    let bins = of_builds.chain(postgres.map(PostgresFiles::bin_here)).map(|bin| bin.join("postgres"));
    let programs = programs(request.plan).into_iter().chain(bins).chain([agent.to_owned()]);
    let sections = &request.plan.collect.sections;
    let kept = programs.filter_map(|program| {
        let program = program.canonicalize().ok()?;
        holdup_evidence::keep_map(request.host, &program, sections, folder, &mut || {}).ok().flatten()
    });
    let names: BTreeSet<String> = kept.collect();
    let there = Cache::maps(Path::new(GUEST_CACHE));
    names.into_iter().map(|name| (folder.join(&name), there.join(name))).collect()
}

/// The value of an option of a kernel's configuration; `None` where it is not set, or the configuration is not known.
pub(super) fn option(config: Option<&Path>, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(config?).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// The PostgreSQL that goes into the guest; `None` for a plan that needs none.
fn postgres(
    request: &SessionRequest<'_>,
    choice: &Choice,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Option<PostgresFiles>, Problem> {
    let mut kinds = request.plan.workloads.iter().map(|w| w.kind.as_str());
    if !kinds.any(|kind| holdup_workloads::find(kind).is_some_and(Workload::has_postgres)) {
        return Ok(None);
    }
    let named = choice.postgres.as_deref();
    if let Some(version) = named.and_then(|named| named.strip_prefix(PACKAGED)) {
        let postgres = holdup_kernels::postgres(version, cache, options, observer)?;
        return Ok(Some(PostgresFiles::Root { root: postgres.root, bin: postgres.bin }));
    }
    if let Some(built) = built(request) {
        return Ok(Some(built));
    }
    let folder = named.map(Path::new).or(request.postgres.bin.as_deref());
    let arch = super::architecture(request.plan)?;
    if folder.is_none() && !arch.is_hosts() {
        let why = format!("the guest is {}, and that of this host is for {}", arch.machine, std::env::consts::ARCH);
        return Err(Problem::usage("PostgreSQL for the guest", why).hint("--pg-deb 17 takes Debian's packages"));
    }
    Ok(Some(PostgresFiles::Bin(Binaries::find(&SearchPath::of_this_host(folder), Need::Server)?.bin)))
}

/// Of the servers that were built for the plan the one whose initdb makes the clusters.
fn built(request: &SessionRequest<'_>) -> Option<PostgresFiles> {
    PostgresOptions::client(&request.postgres.builds).cloned().map(PostgresFiles::Bin)
}

/// The files that workloads name in their parameters, with their places in the guest, where the working folder is `/`.
fn files(plan: &Plan) -> Result<Vec<(PathBuf, PathBuf)>, Problem> {
    let mut all = BTreeSet::new();
    for used in &plan.workloads {
        let parameters = holdup_workloads::find(&used.kind).map_or(&[][..], Workload::parameters);
        for parameter in parameters.iter().filter(|parameter| parameter.kind == ParameterKind::Path) {
            let axes = used.axes.iter().filter(|axis| axis.name == parameter.name);
            let varied = axes.flat_map(|axis| axis.levels.iter().map(|level| &level.value));
            for value in used.parameters.get(parameter.name).into_iter().chain(varied) {
                let Value::Text(named) = value else { continue };
                let there = Path::new("/").join(named);
                is_seen(parameter.name, &there)?;
                all.insert((PathBuf::from(named), there));
            }
        }
    }
    Ok(all.into_iter().collect())
}

/// Whether a file at this place in an image is seen in the guest.
fn is_seen(what: &str, there: &Path) -> Result<(), Problem> {
    let Some(mounted) = holdup_guest::init::covers(there) else { return Ok(()) };
    let why = format!("a guest has its own {mounted}, without it");
    Err(Problem::usage(format!("{what} {}", there.display()), why).hint("put the file into another folder"))
}

/// The programs that workloads of the kind `command` start.
fn programs(plan: &Plan) -> Vec<PathBuf> {
    let commands = plan.workloads.iter().filter(|w| w.kind == "command");
    let words = commands.flat_map(|w| {
        let fixed = w.parameters.get("command").into_iter().cloned();
        let varied = w.axes.iter().filter(|a| a.name == "command").flat_map(|a| &a.levels).map(|l| l.value.clone());
        fixed.chain(varied)
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &str| {
        if name.contains('/') {
            return Some(PathBuf::from(name));
        }
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    let mut all: Vec<PathBuf> = words
        .filter_map(|value| serde_json::from_str::<Vec<String>>(&value.to_string()).ok())
        .filter_map(|words| found(words.first()?))
        .collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_guest::arch;

    type Console = Result<(bool, Vec<&'static str>), String>;

    /// The console of a guest whose kernel has this configuration.
    fn of(arch: &str, devices: Devices, config: Option<&str>, has_modules: bool) -> Console {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        std::fs::write(&path, config.unwrap_or_default()).expect("is written");
        let kernel = Kernel {
            spec: "file:/a".to_owned(),
            image: PathBuf::from("/a"),
            release: "7.0".to_owned(),
            version_line: String::new(),
            arch: arch.to_owned(),
            sha256: String::new(),
            config: config.map(|_| path),
            modules: has_modules.then(|| folder.path().to_owned()),
            source: String::new(),
        };
        let arch = arch::find(arch).expect("one of a guest");
        console(&kernel, devices, arch, "k").map_err(|problem| problem.to_string())
    }

    const BUILT_IN: Option<&str> = Some("CONFIG_S390_GUEST=y\nCONFIG_VIRTIO_CONSOLE=y\n");
    const MODULE: Option<&str> = Some("CONFIG_S390_GUEST=y\nCONFIG_VIRTIO_PCI=m\nCONFIG_VIRTIO_CONSOLE=m\n");

    #[test]
    fn a_machine_without_a_second_serial_port_needs_a_virtio_console() {
        assert_eq!(of("s390x", Devices::Auto, BUILT_IN, false), Ok((true, vec![])));
        assert_eq!(of("s390x", Devices::Auto, None, false), Ok((true, vec![])), "it is tried");
        assert_eq!(of("s390x", Devices::Auto, MODULE, true), Ok((true, vec!["virtio_console"])));
        let said = of("s390x", Devices::Auto, MODULE, false).unwrap_err();
        assert!(said.contains("guest.devices = auto with kernel k") && said.contains("no virtio console"), "{said}");
        let said = of("s390x", Devices::Emulated, BUILT_IN, false).unwrap_err();
        assert!(said.contains("machine for s390x has no serial port"), "{said}");
    }

    #[test]
    fn a_machine_with_two_serial_ports_needs_none() {
        assert_eq!(of("amd64", Devices::Auto, MODULE, true), Ok((false, vec![])));
        assert_eq!(of("amd64", Devices::Auto, None, false), Ok((false, vec![])));
        assert_eq!(of("amd64", Devices::Auto, BUILT_IN, false), Ok((true, vec![])));
        assert_eq!(of("amd64", Devices::Emulated, BUILT_IN, false), Ok((false, vec![])));
        assert_eq!(of("amd64", Devices::Virtio, MODULE, true), Ok((true, vec!["virtio_pci", "virtio_console"])));
        assert!(of("amd64", Devices::Virtio, MODULE, false).is_err_and(|said| said.contains("uses a serial port")));
    }

    #[test]
    fn files_of_parameters_come_along_unless_the_guest_would_not_see_them() {
        let of = |axis: &str| {
            let stream = "[[workload]]\nkind = \"stream\"\n";
            let text = format!("target = \"qemu\"\n{stream}profile = [{axis}]\n[set]\nkernel = \"file:/a\"\n");
            files(&crate::checked(&text, holdup_model::Machine { cpus: 2, memory_bytes: 8 << 30 }).0)
        };
        let pair = |name: &str| (PathBuf::from(name), PathBuf::from(name));
        assert_eq!(of("\"/srv/b.xml\", \"/srv/a.xml\""), Ok(vec![pair("/srv/a.xml"), pair("/srv/b.xml")]));
        let said = of("\"/srv/a.xml\", \"/tmp/b.xml\"").unwrap_err().to_string();
        assert!(said.contains("profile /tmp/b.xml: a guest has its own /tmp"), "{said}");
    }
}
