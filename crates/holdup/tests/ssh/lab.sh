# Hosts, by default `srv` and `cli`, each with an sshd in its network and mount namespaces, on a bridge of one more.
# Runs in namespaces that the test made: [HOSTS='srv cli'] lab.sh FOLDER COMMAND...
set -e
HOSTS=${HOSTS:-srv cli}
D=$1
shift
mkdir -p /run/holdup /run/sshd /run/netns
mount -t tmpfs -o mode=700 none /run/holdup
mount -t tmpfs none /run/netns
ip link set lo up
ip link add br0 type bridge
ip addr add 10.99.0.1/24 dev br0
ip link set br0 up
ssh-keygen -q -t ed25519 -N '' -f "$D/user_key"
n=2
# Clients have another CLOCK_MONOTONIC, as hosts have that were booted at other times.
T='-T --monotonic 100000'
unshare $T true 2> /dev/null || T=
for h in $HOSTS; do
    ip netns add $h
    ip link add v$h type veth peer name e0 netns $h
    ip link set v$h master br0 up
    ip -n $h addr add 10.99.0.$n/24 dev e0
    ip -n $h addr add fd99::$n/64 dev e0 nodad
    ip -n $h link set e0 up
    ip -n $h link set lo up
    mkdir -p "$D/$h/home" "$D/$h/state"
    ssh-keygen -q -t ed25519 -N '' -f "$D/$h/host_key"
    cat > "$D/$h/sshd_config" <<C
ListenAddress 10.99.0.$n:2222
HostKey $D/$h/host_key
AuthorizedKeysFile $D/user_key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
LogLevel ERROR
SetEnv HOME=$D/$h/home HOLDUP_STATE_DIR=$D/$h/state XDG_CACHE_HOME=$D/$h/home/.cache
C
    echo "the-$h $(cat "$D/$h/host_key.pub")" >> "$D/known"
    cat >> "$D/ssh_config" <<C
Host $h
 HostName 10.99.0.$n
 Port 2222
 User root
 IdentityFile $D/user_key
 IdentitiesOnly yes
 UserKnownHostsFile $D/known
 GlobalKnownHostsFile /dev/null
 HostKeyAlias the-$h
C
    U=
    [ $h = srv ] || U=$T
    ip netns exec $h unshare -m $U --propagation private sh -c \
        "mount -t tmpfs -o mode=700 none /run/holdup; exec /usr/sbin/sshd -D -e -f '$D/$h/sshd_config'" 2> "$D/$h/log" &
    sshds="$sshds $!"
    n=$((n + 1))
done
trap 'kill $sshds' EXIT
for h in $HOSTS; do
    for i in 1 2 3 4 5 6 7 8 9 10; do
        ssh -F "$D/ssh_config" -o BatchMode=yes $h true && break
        sleep 0.3
    done
done
export HOLDUP_SSH="ssh -F $D/ssh_config"
"$@"
