#!/usr/bin/env bash
# Set up a virtual environment with Headwater and all that its tests need: tools/install.sh VENV [SPARK].
# SPARK is a version such as 4.1, whose newest release is taken; without it the one of constraints.txt.
# Python 3.11 or newer must be there; Java 17 and Python's venv module are installed when they are missing.
set -euo pipefail

venv=$1
spark=${2:-}
cd "$(dirname "$0")/.."

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Headwater needs Python 3.11 or newer" >&2
    return 1
}

java_is_new_enough() {
    local java=java version
    [ -n "${JAVA_HOME:-}" ] && java="$JAVA_HOME/bin/java"
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') || return 1
    [ -n "$version" ] && [ "$version" -ge 17 ]
}

python=$(find_python)
if ! java_is_new_enough; then
    tools/system_package.sh no-java-17 openjdk-17-jre-headless
    java_is_new_enough || { echo "Spark needs Java 17 or newer: set JAVA_HOME" >&2; exit 1; }
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    tools/system_package.sh no-venv-module python3-venv
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
constraints=constraints.txt
if [ -n "$spark" ]; then
    constraints=$venv/constraints.txt
    grep -vE '^(pyspark|py4j)==' constraints.txt > "$constraints"
    echo "pyspark~=$spark.0" >> "$constraints"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$constraints" -e '.[dev]'
