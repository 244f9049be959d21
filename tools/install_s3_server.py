"""Install a second S3 server for tests of stores, versitygw, into the cache beside the servers.

Usage: ``python tools/install_s3_server.py`` prints where its program is; it is made from its source, a Go module, which
takes some minutes. Needs Python and ``go``, and no root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from headwater.base.cache_places import server_cache
from headwater.base.temporary_directories import OwnDirectory
from headwater.base.trusted_paths import make_directory
from headwater.errors import HeadwaterError

MODULE, VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"


def main() -> int:
    """Install it, unless it is there; exit status 1 with one line when that fails."""
    try:
        print(installed(server_cache()))
    except (OSError, HeadwaterError, subprocess.CalledProcessError) as error:
        print(f"install_s3_server: {error}", file=sys.stderr)
        return 1
    return 0


def installed(root: Path) -> Path:
    """Return the program, which is made if it is missing.

    Args:
        root: of the cache.
    """
    target = root / f"versitygw-{VERSION}"
    if not target.exists():
        if shutil.which("go") is None:
            raise OSError("the server is made from a Go module, and this machine has no go")
        make_directory(root, 0o755)
        with OwnDirectory(root, hidden=True) as partial:
            _make(partial)
            with suppress(FileExistsError):  # of a run at the same time
                (partial / "bin").rename(target)
    return target / "versitygw"


def _make(partial: Path) -> None:
    """Make the program, in the directory ``bin``."""
    flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
    own = {"GOPATH": str(partial / "go"), "GOBIN": str(partial / "bin"), "GOFLAGS": flags, "CGO_ENABLED": "0"}
    subprocess.run(["go", "install", "-trimpath", f"{MODULE}@{VERSION}"], env=os.environ | own, check=True)
    shutil.rmtree(partial / "go")


if __name__ == "__main__":
    sys.exit(main())
