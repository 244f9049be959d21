"""The layer of SQL that a real server of the same major answers, joined to the cluster that is served."""

from __future__ import annotations

from pathlib import Path

from headwater.local_servers.server_errors import LocalServerError
from headwater.local_servers.server_programs import ServerPrograms, find_programs, programs_in
from headwater.walsender.catalog_layer.answers import CatalogAnswers
from headwater.walsender.catalog_server.catalog_servers import CatalogServers, CatalogSource
from headwater.walsender.copying.copied_rows import CopySource
from headwater.walsender.served_cluster import ServedCluster


def catalog_answers(cluster: ServedCluster, directory: str | None) -> CatalogAnswers:
    """Return what answers SQL about the catalogs; a server is started on first need.

    Args:
        cluster: that is served.
        directory: of the server's programs; None for those that are installed for Headwater.
    """
    source = CatalogSource(
        backup=cluster.source.catalog,
        wal=cluster.look,
        state_at_end=cluster.state_at_end,
        programs=lambda: _programs(cluster.major, directory),
    )

    def rows() -> CopySource:
        return CopySource(cluster.source.catalog, cluster.look(), cluster.version)

    return CatalogAnswers(CatalogServers(source), rows, cluster.state_at_end)


def _programs(major: int, directory: str | None) -> ServerPrograms:
    if directory is not None:
        return programs_in(Path(directory), major)
    try:
        return find_programs(major)
    except LocalServerError as error:
        raise LocalServerError(
            f"SQL about the catalogs needs server programs of PostgreSQL {major}, which are not installed",
            hint="name them with --postgres-bin, or run: make servers",
        ) from error
