//! Against Debian's archive, if this machine's apt reaches one.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests, without libtest")]

use holdup_kernels::{Cache, Options, Spec, read_image, unpack_deb};
use holdup_model::{Event, Observer};
use holdup_testkit::ignore;

struct Printed;

impl Observer for Printed {
    #[allow(clippy::print_stdout, reason = "the test says why it is ignored, and what is fetched")]
    fn event(&mut self, event: Event<'_>) {
        if let Event::Step(text) | Event::Note(text) = event {
            println!("{text}");
        }
    }
}

fn a_kernel_and_a_package_come_from_the_archive_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let options = Options { arch: "x86_64".into(), ..Options::default() };
    let available = match cache.available(&options, &mut Printed) {
        Ok(available) => available,
        Err(problem) => {
            ignore(format!("this machine's apt reaches no archive of Debian: {problem}"));
        }
    };
    let newest = available.iter().find(|kernel| kernel.flavour.as_deref() == Some("cloud")).unwrap();
    let spec = Spec::parse(&newest.spec()).unwrap();
    let kernel = cache.get(&spec, &options, &mut Printed).unwrap();
    assert_eq!(kernel.release, newest.release);
    assert!(kernel.source.contains(&newest.package), "{}", kernel.source);
    assert_eq!(read_image(&kernel.image).unwrap().version_line, kernel.version_line);
    let config = std::fs::read_to_string(kernel.config.as_ref().unwrap()).unwrap();
    assert!(config.contains("CONFIG_VIRTIO=y"));
    let offline = Options { offline: true, ..options.clone() };
    assert_eq!(cache.get(&spec, &offline, &mut Printed).unwrap(), kernel);

    let never = Spec::parse("debian:1.2.3").unwrap();
    let problem = cache.get(&never, &options, &mut Printed).unwrap_err();
    assert!(problem.hint.unwrap().contains("nearest versions"));

    let package = cache.package("busybox-static", Some("bookworm"), &options, &mut Printed).unwrap();
    let into = folder.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let (facts, unpacked) = unpack_deb(&package, &into, &|path| path.ends_with("bin/busybox")).unwrap();
    assert_eq!((facts.package.as_str(), unpacked.files.len()), ("busybox-static", 1));
    assert_eq!(cache.package("busybox-static", Some("bookworm"), &offline, &mut Printed).unwrap(), package);
}

holdup_testkit::tests!(
    long:
    a_kernel_and_a_package_come_from_the_archive_once
);
holdup_testkit::main!();
