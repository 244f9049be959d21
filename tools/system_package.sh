#!/usr/bin/env bash
# Make sure that a program, or the file of that path, is there: tools/system_package.sh PROGRAM PACKAGE. Missing, it is
# installed with apt-get.
set -euo pipefail

program=$1
package=$2
if command -v "$program" >/dev/null || [ -f "$program" ]; then
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "$program is missing and this machine has no apt-get: install it by hand" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
fi
echo "installing $package" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq >&2
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "$package" >&2
