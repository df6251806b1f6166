# unit.sh UNIT PROGRAM FOLDER: systemd as the first process of its own namespaces, on a view of this root that is written to memory, with a server
# and the unit. Facts go to FOLDER/facts, what the exporter says to FOLDER/said. Takes root.
set -eu
if [ $# = 3 ]; then
    # What systemd makes of control groups is below one of this test.
    unified=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$unified" ] || exit 9
    group=$unified/holdup-unit-$$
    mkdir "$group"
    code=0
    sh -c 'echo $$ >"$0/cgroup.procs"; exec timeout --kill-after=5 240 unshare --fork --kill-child --propagation private \
        --pid --mount --uts --ipc --cgroup --net sh "$@" inside' "$group" "$0" "$@" || code=$?
    find "$group" -depth -type d -exec rmdir {} +
    exit $code
fi
unit=$1 program=$2 folder=$3
mkdir "$folder/view"
mount -t tmpfs none "$folder/view"
mkdir "$folder/view/upper" "$folder/view/work" "$folder/view/root"
mount -t overlay none -o "lowerdir=/,upperdir=$folder/view/upper,workdir=$folder/view/work" "$folder/view/root" || exit 9
root=$folder/view/root
mount -t proc none "$root/proc"
mount -t sysfs none "$root/sys"
mount -t tracefs none "$root/sys/kernel/tracing"
mount -t cgroup2 none "$root/sys/fs/cgroup" || exit 9
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 none "$root/run"
mount -t tmpfs -o mode=1777 none "$root/tmp"
ip link set lo up
# Nothing of this host is started, and the unit has the folders of a new one.
rm -rf "$root/etc/systemd/system" "$root/var/lib/holdup-exporter" "$root/var/cache/holdup-exporter" "$root/etc/default/holdup-exporter"
units=$root/etc/systemd/system
mkdir "$units" "$units/holdup-exporter.service.d" "$root/in"
mount --bind "$folder" "$root/in"
cp "$unit" "$units/holdup-exporter.service"
cp "$program" "$root/usr/bin/holdup"
printf '[Service]\nStandardError=append:/in/said\n' >"$units/holdup-exporter.service.d/said.conf"
cat >"$units/server.service" <<'UNIT'
[Service]
Type=notify
User=postgres
RuntimeDirectory=postgresql
StateDirectory=server
ExecStartPre=/bin/sh -c 'exec "$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/initdb" -A trust -N -D /var/lib/server/data'
ExecStart=/bin/sh -c 'exec "$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/postgres" -D /var/lib/server/data -k /run/postgresql -h ""'
UNIT
cat >"$units/facts.service" <<'UNIT'
[Unit]
After=holdup-exporter.service server.service
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
TimeoutStartSec=120
ExecStart=/bin/sh /in/facts.sh
StandardOutput=file:/in/facts
StandardError=inherit
UNIT
printf '[Unit]\nRequires=basic.target server.service holdup-exporter.service facts.service\nAllowIsolate=yes\n' >"$units/unit.target"
cat >"$folder/facts.sh" <<'FACTS'
watched() { curl -s --max-time 5 127.0.0.1:9918/metrics | grep -q '^holdup_up{watched="postgres"} 1$'; }
main() { systemctl show holdup-exporter --property MainPID --value; }
until watched; do sleep 0.2; done
first=$(main)
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$first/status"
kill -KILL "$first"
until [ "$(main)" != "$first" ] && watched; do sleep 0.2; done
systemctl show holdup-exporter --property NRestarts --property ActiveState --property MemoryMax --property CPUQuotaPerSecUSec
systemctl stop holdup-exporter
systemctl show holdup-exporter --property Result --property ExecMainStatus
FACTS
export container=other
exec chroot "$root" /lib/systemd/systemd --unit=unit.target
