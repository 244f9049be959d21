"""Output plugins are found by an entry point's name, or in a file that is named with its class.

An entry point of the group ``headwater.plugins`` is a plugin that renders whole slices
(:class:`headwater.plugins.api.SlicePlugin`), or one that is called for each change
(:class:`headwater.plugins.callbacks.output_plugin.OutputPlugin`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points

from headwater.errors import PluginError
from headwater.plugins.api import PluginContext, SlicePlugin
from headwater.plugins.callbacks import output_plugin as callbacks
from headwater.plugins.callbacks.callback_plugin import CallbackPlugin
from headwater.plugins.callbacks.plugin_file import PluginSource

GROUP = "headwater.plugins"

MakePlugin = Callable[[Sequence[tuple[str, str | None]], PluginContext], SlicePlugin]
"""Makes a plugin of its options and the session."""


@cache
def _points() -> dict[str, EntryPoint]:
    """Return the plugins that are installed, by name; looking through all packages takes long, and they stay."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        points.setdefault(point.name, point)
    return points


def plugin_names() -> list[str]:
    """Return the names of the plugins that are installed."""
    return sorted(_points())


def load_plugin(name: str) -> MakePlugin:
    """Load what makes an output plugin.

    Args:
        name: of an entry point, or ``PATH:CLASS``.

    Raises:
        PluginError: no plugin of that name, or what is found is none.
        UntrustedPathError: another user could have put the file there.
    """
    if (point := _points().get(name)) is not None:
        loaded = point.load()
        if isinstance(loaded, type) and issubclass(loaded, SlicePlugin):
            return loaded
        if isinstance(loaded, type) and issubclass(loaded, callbacks.OutputPlugin):
            return _called(loaded, name, None)
        raise PluginError(
            f'"{point.value}" is not an output plugin', hint="expected a subclass of headwater.OutputPlugin"
        )
    if ":" in name:
        source = PluginSource.read(name)
        return _called(source.load(), source.class_name, source)
    raise PluginError(
        f'unknown output plugin "{name}"',
        hint=f"known plugins are {', '.join(plugin_names())}; PATH:CLASS names one of your own",
    )


def definitions_asked_for(name: str, options: Sequence[tuple[str, str | None]]) -> str:
    """Name what an output plugin reports by the definitions of objects; see :meth:`SlicePlugin.asks_for_definitions`.

    Raises:
        PluginError: there is no such plugin, or an option is wrong.
    """
    make_plugin = load_plugin(name)
    if isinstance(make_plugin, type) and issubclass(make_plugin, SlicePlugin):
        return make_plugin.asks_for_definitions(options)
    return ""


def _called(plugin: type[callbacks.OutputPlugin], name: str, source: PluginSource | None) -> MakePlugin:
    callbacks.check_callbacks(plugin)
    return partial(CallbackPlugin, plugin, name, source)
