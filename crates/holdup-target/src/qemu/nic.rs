//! Which network card a guest and its peer get: one that their kernel drives.

use super::prepare::has_built_in;
use holdup_guest::arch::VirtioBus;
use holdup_guest::machine::Nic;
use holdup_kernels::Kernel;
use holdup_model::Problem;
use holdup_model::guest::Devices;

/// The cards that may be had, the preferred one first.
fn wanted(devices: Devices, virtio: VirtioBus) -> &'static [Nic] {
    match devices {
        Devices::Auto if virtio == VirtioBus::Ccw => &[Nic::VirtioNet],
        Devices::Auto => &[Nic::VirtioNet, Nic::E1000],
        Devices::Virtio => &[Nic::VirtioNet],
        Devices::Emulated => &[Nic::E1000],
    }
}

/// The options that a card needs, each with the module that it may be.
fn needs(nic: Nic, virtio: VirtioBus) -> Vec<(&'static str, &'static str)> {
    let bus = (nic == Nic::VirtioNet).then_some(virtio.driver());
    bus.into_iter().chain([(nic.option(), nic.module())]).collect()
}

/// True if the preferred card needs no module.
pub(super) fn is_built_in(kernel: &Kernel, devices: Devices, virtio: VirtioBus) -> bool {
    let first = wanted(devices, virtio)[0];
    needs(first, virtio).iter().all(|(option, _)| has_built_in(kernel.config.as_deref(), option))
}

/// The card, and the modules that it needs.
///
/// # Errors
/// When the kernel drives none of them, built in or by modules that could be had.
pub(super) fn choose(
    kernel: &Kernel,
    devices: Devices,
    virtio: VirtioBus,
    named: &str,
) -> Result<(Nic, Vec<&'static str>), Problem> {
    let config = kernel.config.as_deref();
    let text = config.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let is_module = |option: &str| text.lines().any(|line| line.strip_prefix(option) == Some("=m"));
    for nic in wanted(devices, virtio) {
        let mut rest = needs(*nic, virtio);
        rest.retain(|(option, _)| !has_built_in(config, option));
        if rest.is_empty() || (kernel.modules.is_some() && rest.iter().all(|(option, _)| is_module(option))) {
            return Ok((*nic, rest.into_iter().map(|(_, module)| module).collect()));
        }
    }
    let name = |nic: &Nic| format!("{} ({})", nic.device(virtio), nic.option());
    let names: Vec<String> = wanted(devices, virtio).iter().map(name).collect();
    let why = match (config, &kernel.modules) {
        (None, _) => "its configuration is not known, and with it which network card it drives".to_owned(),
        (_, None) => format!("it has no driver built in for {}, and its modules cannot be had", names.join(" or ")),
        (_, Some(_)) => format!("it has no driver for {}, built in or as a module", names.join(" or ")),
    };
    Err(Problem::host(format!("guest.peer with kernel {named}"), why)
        .hint("a kernel built here has virtio-net; of Debian's those whose modules are still in the archive's index"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn kernel(config: Option<&str>, modules: bool) -> (tempfile::TempDir, Kernel) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = config.map(|text| {
            let path = folder.path().join("config");
            std::fs::write(&path, text).expect("is written");
            path
        });
        let kernel = Kernel {
            spec: "file:/a".to_owned(),
            image: PathBuf::from("/a"),
            release: "7.0".to_owned(),
            version_line: String::new(),
            arch: "x86_64".to_owned(),
            sha256: String::new(),
            config: path,
            modules: modules.then(|| folder.path().to_owned()),
            source: String::new(),
        };
        (folder, kernel)
    }

    const BUILT: &str = "CONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_NET=y\n# CONFIG_E1000 is not set\n";
    const DEBIAN: &str = "CONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_NET=m\nCONFIG_E1000=m\n";

    #[test]
    fn a_card_is_one_that_the_kernel_drives() {
        let of = |config, modules, devices| {
            let (_folder, kernel) = kernel(config, modules);
            choose(&kernel, devices, VirtioBus::Pci, "k").map_err(|p| p.why)
        };
        assert_eq!(of(Some(BUILT), false, Devices::Auto), Ok((Nic::VirtioNet, Vec::new())));
        assert_eq!(of(Some(DEBIAN), true, Devices::Auto), Ok((Nic::VirtioNet, vec!["virtio_net"])));
        assert_eq!(of(Some(DEBIAN), true, Devices::Emulated), Ok((Nic::E1000, vec!["e1000"])));
        let both = Some("CONFIG_VIRTIO_PCI=m\nCONFIG_VIRTIO_NET=m\n");
        assert_eq!(of(both, true, Devices::Virtio), Ok((Nic::VirtioNet, vec!["virtio_pci", "virtio_net"])));
        assert_eq!(of(Some("CONFIG_E1000=y\n"), false, Devices::Auto), Ok((Nic::E1000, Vec::new())));
        let refused = |config, modules, devices| of(config, modules, devices).unwrap_err();
        assert!(refused(Some(BUILT), true, Devices::Emulated).contains("no driver for e1000 (CONFIG_E1000)"));
        assert!(refused(Some(DEBIAN), false, Devices::Auto).contains("its modules cannot be had"));
        assert!(refused(None, true, Devices::Auto).contains("its configuration is not known"));
    }

    #[test]
    fn a_card_of_s390x_is_virtio() {
        let of = |config, devices| {
            let (_folder, kernel) = kernel(Some(config), true);
            choose(&kernel, devices, VirtioBus::Ccw, "k").map_err(|p| p.why)
        };
        let debian = "CONFIG_S390_GUEST=y\nCONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_NET=m\n";
        assert_eq!(of(debian, Devices::Auto), Ok((Nic::VirtioNet, vec!["virtio_net"])));
        let refused = of("CONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_NET=y\nCONFIG_E1000=y\n", Devices::Auto).unwrap_err();
        assert!(refused.contains("no driver for virtio-net-ccw (CONFIG_VIRTIO_NET)"), "{refused}");
    }

    #[test]
    fn modules_are_fetched_only_for_a_card_that_needs_them() {
        let built_in = |config, devices| is_built_in(&kernel(Some(config), false).1, devices, VirtioBus::Pci);
        let (_kept, of_built) = kernel(Some(BUILT), false);
        assert!(is_built_in(&of_built, Devices::Auto, VirtioBus::Pci));
        assert!(!is_built_in(&of_built, Devices::Emulated, VirtioBus::Pci));
        assert!(!built_in(DEBIAN, Devices::Auto));
    }
}
