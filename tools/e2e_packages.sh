#!/usr/bin/env bash
# Install what `make e2e` needs and is absent; the last line says why when that cannot be done.
set -euo pipefail

declare -A package_of=(
    [containerd]=containerd [runc]=runc [crun]=crun [busybox]=busybox-static [ip]=iproute2 [iptables-save]=iptables
    [/usr/lib/cni/bridge]=containernetworking-plugins [go]=golang-go
    [kubectl]=kubernetes-client [skopeo]=skopeo [docker-registry]=docker-registry [chromium]=chromium
    [kubectl]=kubernetes-client [systemd-analyze]=systemd [/usr/bin/python3]=python3
)
# Libraries of Go, as sources.
declare -A library_of=(
    [/usr/share/gocode/src/google.golang.org/grpc]=golang-google-grpc-dev
    [/usr/share/gocode/src/google.golang.org/protobuf]=golang-google-protobuf-dev
)
if ((EUID != 0)); then
    echo "make e2e needs root, for namespaces and containers" >&2
    exit 1
fi
packages=()
for program in "${!package_of[@]}"; do
    command -v "$program" >/dev/null || packages+=("${package_of[$program]}")
done
for directory in "${!library_of[@]}"; do
    [[ -d $directory ]] || packages+=("${library_of[$directory]}")
done
if ((${#packages[@]} == 0)); then
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -q && apt-get install -qy --no-install-recommends "${packages[@]}"; } >/dev/null; then
    echo "make e2e cannot install ${packages[*]}" >&2
    exit 1
fi
