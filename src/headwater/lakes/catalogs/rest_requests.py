"""Requests to a REST catalog that pyiceberg (0.12) does not make, or makes without an end.

A commit to several tables is one request of Iceberg's REST specification (``POST /v1/{prefix}/transactions/commit``),
which a catalog lists among its endpoints if it has it. It is made on pyiceberg's own session, which signs it.

pyiceberg waits for an answer without end. So its session gets a limit here, and asks again for what only reads. And it
mixes credentials of several kinds, name by name, which are kept apart here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import _RETRY_ARGS, SIGV4, Endpoint, HttpMethod, RestCatalog
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.utils.properties import property_as_bool
from requests import HTTPError
from requests.adapters import HTTPAdapter
from tenacity import retry
from urllib3.util import Retry

from headwater.base.overrides import override
from headwater.lakes.stores.library_options import CREDENTIALS

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from headwater.lakes.catalogs.prepared_commit import PreparedCommit

_PATH = "transactions/commit"
SEVERAL_TABLES = Endpoint(http_method=HttpMethod.POST, path=f"/v1/{{prefix}}/{_PATH}")

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 300.0
"""How long a catalog may take, to be reached and to answer."""

_PASSING = (429, 502, 503, 504)


class _Limited(HTTPAdapter):
    """Sends requests that end."""

    @override
    def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
        options["timeout"] = options.get("timeout") or (CONNECT_SECONDS, ANSWER_SECONDS)
        return super().send(request, *arguments, **options)


def limit_requests(catalog: RestCatalog) -> None:
    """Let each request of a catalog end, and ask again for what only reads; one that signs requests does as it does."""
    if property_as_bool(catalog.properties, SIGV4, False):
        return
    reads = ("GET", "HEAD")
    again = Retry(
        total=8,
        backoff_factor=0.2,
        backoff_max=5,
        allowed_methods=reads,
        status_forcelist=_PASSING,
        raise_on_status=False,
    )
    for prefix in ("https://", "http://"):
        catalog._session.mount(prefix, _Limited(max_retries=again))


def keep_credentials_apart(catalog: RestCatalog) -> None:
    """Let credentials that come with a table be all of them: a token of the configuration belongs to another key."""
    load = catalog._load_file_io

    def loaded(properties: Mapping[str, str] = EMPTY_DICT, location: str | None = None) -> FileIO:
        others = dict.fromkeys(CREDENTIALS, "") if CREDENTIALS[0] in properties else {}
        return load({**others, **properties}, location)

    catalog._load_file_io = loaded  # type: ignore[method-assign]


def takes_several_tables(catalog: RestCatalog) -> bool:
    """Tell whether a catalog commits to several tables in one request."""
    return SEVERAL_TABLES in catalog._supported_endpoints


@retry(**_RETRY_ARGS)  # type: ignore[call-overload]
def commit_in_one_request(catalog: RestCatalog, commits: Sequence[PreparedCommit]) -> None:
    """Commit to several tables, as far as the catalog keeps its word to all of them or none.

    Args:
        catalog: which takes that; commits: what is done.

    Raises:
        CommitFailedException: somebody else has written to one.
        CommitStateUnknownException: it is not known whether it was done.
        RESTError: any other refusal.
    """
    body = ",".join(_change(commit).model_dump_json() for commit in commits)
    response = catalog._session.post(catalog.url(_PATH), data=f'{{"table-changes":[{body}]}}'.encode())
    try:
        response.raise_for_status()
    except HTTPError as error:
        doubtful = dict.fromkeys((500, 502, 503, 504), CommitStateUnknownException)
        _handle_non_200_response(error, {404: NoSuchTableError, 409: CommitFailedException, **doubtful})


def _change(commit: PreparedCommit) -> CommitTableRequest:
    *namespace, name = commit.table.name()
    return CommitTableRequest(
        identifier=TableIdentifier(namespace=Namespace(namespace), name=name),
        requirements=commit.requirements,
        updates=commit.updates,
    )
