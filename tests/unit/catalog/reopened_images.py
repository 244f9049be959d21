"""Catalogs that go on after an image."""

from __future__ import annotations

from headwater.base.value_codec import read_value, same, value_bytes
from headwater.catalog.store.catalog_image import CatalogImage
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.image_io import image_of, store_of
from unit.catalog.made_catalog import (
    Log,
)


def reopened(store: CatalogStore, log: Log, horizon: int, next_xid: int = 2000) -> tuple[CatalogStore, Log]:
    """Open the store of an image that was written and read, and its log."""
    image = image_of(store, horizon, log.lsn + 0x80, next_xid)
    opened = store_of(read_value(CatalogImage, value_bytes(image)))
    assert same(image_of(opened, horizon, log.lsn + 0x80, next_xid), image)
    more = Log(opened)
    more.lsn = log.lsn
    return opened, more
