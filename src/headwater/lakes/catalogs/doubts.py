"""Errors of catalogs: which refuse a commit, and which leave open what has happened or may pass.

Libraries of a catalog that is not in use are not loaded for this.
"""

from __future__ import annotations

import sys
from http import HTTPStatus
from typing import Any

_OWN = ("pyiceberg.", "sqlalchemy.", "botocore.", "requests.")
"""Where errors of catalogs come from: the library, and those that it asks with."""


def is_of_catalog(error: Exception) -> bool:
    """Tell whether an error comes from the library, whose own have no common type, or from what it asks with."""
    return isinstance(error, ValueError | NotImplementedError) or type(error).__module__.startswith(_OWN)


def is_refusal(error: Exception) -> bool:
    """Tell whether a commit was refused, as the table is not what it was."""
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError, ValidationException

    return isinstance(error, CommitFailedException | TableAlreadyExistsError | ValidationException)


def may_pass(error: Exception) -> bool:
    """Tell whether a question may have been answered, or will be a moment later."""
    from pyiceberg.exceptions import (
        CommitStateUnknownException,
        ServerError,
        ServiceUnavailableError,
        TooManyRequestsError,
    )

    passing = (CommitStateUnknownException, ServerError, ServiceUnavailableError, TooManyRequestsError)
    return isinstance(error, passing) or _is_lost(error) or _is_of_sql(error) or _is_of_amazon(error)


def words_of(error: Exception) -> str:
    """Return what an error says, without statements of a database and without answers that may have credentials."""
    if type(error).__module__.startswith("pydantic"):
        kinds: list[dict[str, Any]] = error.errors(include_input=False, include_url=False)  # type: ignore[attr-defined]
        places = ", ".join(".".join(map(str, kind["loc"])) + f": {kind['msg']}" for kind in kinds)
        return f"an answer of the catalog is not what Iceberg's specification says: {places}"
    return str(getattr(error, "orig", None) or error)


def _is_lost(error: Exception) -> bool:
    requests = sys.modules.get("requests")
    if requests is None:
        return False
    lost = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    return isinstance(error, lost) and not isinstance(error, requests.exceptions.SSLError)


def _is_of_sql(error: Exception) -> bool:
    """Tell whether a database has gone away, or is not there yet: one that is a file is what it is."""
    sqlalchemy = sys.modules.get("sqlalchemy.exc")
    if sqlalchemy is None or not isinstance(error, sqlalchemy.DBAPIError):
        return False
    is_operational = isinstance(error, sqlalchemy.OperationalError)
    return error.connection_invalidated or (is_operational and not type(error.orig).__module__.startswith("sqlite"))


def _is_of_amazon(error: Exception) -> bool:
    botocore = sys.modules.get("botocore.exceptions")
    if botocore is None:
        return False
    if isinstance(error, botocore.ClientError):
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, botocore.HTTPClientError) and not isinstance(error, botocore.SSLError)
