#!/usr/bin/env bash
# Trains on two "hosts" of one machine: two network namespaces with a cable between them, one torchrun in each.
#
#     sudo scripts/two_hosts.sh [DATA [OPTIONS OF headtail train …]]
#
# Makes the namespaces headtail-a (10.77.0.1) and headtail-b (10.77.0.2), and removes them at the end. The two reach each
# other and nothing else. Needs root and `ip`. PYTHON names the interpreter that has headtail, OUT the run folder.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
out=${OUT:-$(mktemp -d)/run}
if [ $# -gt 0 ]; then data=$1; shift; else data=debian; fi
options=("$@")
if [ ${#options[@]} -eq 0 ]; then
    options=(--preset fast --hidden 16 --structure 0 --links-per-batch 8192 --epochs 2)
fi

if ! command -v ip > /dev/null || ! ip netns add headtail-a 2> /dev/null; then
    echo "skipped: this user may not make network namespaces (ip netns add needs root); two addresses of one host do:" >&2
    echo "  torchrun --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port 29500 -m headtail train …   and" >&2
    echo "  torchrun --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port 29500 -m headtail train …" >&2
    exit 0
fi
trap 'kill "${first:-}" 2> /dev/null || true; for end in a b; do ip netns del headtail-$end 2> /dev/null || true; done' EXIT
ip netns add headtail-b
ip link add headtail-a0 type veth peer name headtail-b0
for end in a b; do
    ip link set headtail-${end}0 netns headtail-$end
    ip -n headtail-$end addr add 10.77.0.$([ $end = a ] && echo 1 || echo 2)/24 dev headtail-${end}0
    ip -n headtail-$end link set headtail-${end}0 up
    ip -n headtail-$end link set lo up
done

host() { # host NAME NODE_RANK: one torchrun with one rank, in its own namespace
    # gloo would look up the host's name, which both namespaces share; it is told which cable to use instead.
    ip netns exec "headtail-$1" env GLOO_SOCKET_IFNAME="headtail-${1}0" OMP_NUM_THREADS=1 \
        "$python" -m torch.distributed.run --nnodes 2 --node-rank "$2" --nproc-per-node 1 \
        --master-addr 10.77.0.1 --master-port 29577 --local-addr "10.77.0.$(($2 + 1))" \
        -m headtail train "$data" --out "$out" --device cpu "${options[@]}"
}
bytes() { ip netns exec headtail-a cat "/sys/class/net/headtail-a0/statistics/$1_bytes"; }

host a 0 &
first=$!
host b 1
wait "$first"
echo "over the cable: $(($(bytes tx) / 1048576)) MiB from the first host, $(($(bytes rx) / 1048576)) MiB to it"
