"""Options for a store as libraries of tables take them, made of those that fsspec takes.

What is not given they find where the store's own library does: in variables of the environment, and files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from headwater.errors import UsageError
from headwater.lakes.stores.object_store import Store
from headwater.wal.segments.remote import option_value

_DELTA = {
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
    "endpoint_url": "aws_endpoint_url",
    "region_name": "aws_region",
    "anon": "aws_skip_signature",
}
"""Of fsspec's options, those that have another name there."""
_ICEBERG = {
    "key": "s3.access-key-id",
    "secret": "s3.secret-access-key",
    "token": "s3.session-token",
    "endpoint_url": "s3.endpoint",
    "region_name": "s3.region",
    "anon": "s3.anonymous",
}
CREDENTIALS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
"""Properties of pyiceberg that belong together."""

_REGION, _ANY_REGION = {"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1"
"""Variables that name the region; what servers take that are not Amazon's."""

_INSIDE = "client_kwargs"
_OWN = ("config_kwargs", "default_block_size", "max_concurrency", "use_listings_cache")
"""Options that only say how fsspec asks."""


def options_for_delta(store: Store) -> dict[str, str]:
    """Return a store's options as ``deltalake`` takes them: commits are made on a condition.

    Raises:
        UsageError: one has no equal there.
    """
    options = {_DELTA[name]: _text(value) for name, value in _given(store).items()}
    endpoint = options.get("aws_endpoint_url") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint.startswith("http://"):
        options["aws_allow_http"] = "true"
    if endpoint and not _REGION & os.environ.keys():
        options.setdefault("aws_region", _ANY_REGION)
    return {"aws_conditional_put": "etag", **options}


def options_for_iceberg(store: Store) -> dict[str, str]:
    """Return a store's options as properties of ``pyiceberg``'s files.

    Raises:
        UsageError: one has no equal there.
    """
    options = {_ICEBERG[name]: _text(value) for name, value in _given(store).items()}
    if "s3.endpoint" in options and not _REGION & os.environ.keys():
        options.setdefault("s3.region", _ANY_REGION)  # else the library asks Amazon for it
    return options


def options_of_iceberg(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return properties of ``pyiceberg``'s files as fsspec takes them; none where they have no credentials.

    What a catalog gives with a table is among them, in the place of all others.
    """
    if CREDENTIALS[0] not in properties:
        return {}
    names = {there: name for name, there in _ICEBERG.items()}
    options = {name: str(properties[there]) for there, name in names.items() if properties.get(there)}
    region = options.pop("region_name", None)
    return options | ({} if region is None else {_INSIDE: json.dumps({"region_name": region})})


def _given(store: Store) -> dict[str, Any]:
    """Return the options of a store by fsspec's names, those inside of others among them."""
    given = {name: option_value(value) for name, value in store.options if name not in _OWN}
    inside = given.pop(_INSIDE, {})
    known = {**(inside if isinstance(inside, Mapping) else {}), **given}
    strange = sorted(known.keys() - _DELTA.keys())
    if strange:
        raise UsageError(
            f"the storage option {strange[0]} is not known to the library of this format",
            hint="set the store's own variables (AWS_PROFILE, ...), or give key, secret, token, endpoint_url",
        )
    return known


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
