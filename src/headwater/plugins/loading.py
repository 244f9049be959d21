"""How output plugins are found: by an entry point's name, or in a file that is named with its class.

An entry point of the group ``headwater.plugins`` is a plugin that renders whole slices
(:class:`headwater.plugins.api.SlicePlugin`), or one that is called for each change
(:class:`headwater.plugins.callbacks.OutputPlugin`). A file of one's own is run: it must lie where only root and this
user could have put it. What travels to decode tasks is its text, so they need not see it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from headwater.errors import PluginError
from headwater.plugins import callbacks
from headwater.plugins.api import PluginContext, SlicePlugin
from headwater.trusted_paths import check_path

GROUP = "headwater.plugins"

MakePlugin = Callable[[Sequence[tuple[str, str | None]], PluginContext], SlicePlugin]
"""Makes a plugin of its options and the session."""


@dataclass(frozen=True)
class PluginSource:
    """A plugin of one's own.

    Attributes:
        path: of its file; text: what that holds.
        class_name: of the plugin in it.
    """

    path: str
    text: str
    class_name: str

    @classmethod
    def read(cls, name: str) -> PluginSource:
        """What ``PATH:CLASS`` names.

        Raises:
            PluginError: it cannot be read.
            UntrustedPathError: another user could have put it there.
        """
        path, _, class_name = name.rpartition(":")
        try:
            return cls(path, check_path(Path(path)).read_text("utf-8"), class_name)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            raise PluginError(f'could not read output plugin "{path}": {reason}') from None

    def load(self) -> type[callbacks.OutputPlugin]:
        """The class.

        Raises:
            PluginError: the file fails, or has no such plugin.
        """
        found = getattr(self._module(), self.class_name, None)
        if not (isinstance(found, type) and issubclass(found, callbacks.OutputPlugin)):
            raise PluginError(
                f'"{self.class_name}" of {self.path} is not an output plugin',
                hint="expected a subclass of headwater.plugins.OutputPlugin",
            )
        return found

    def _module(self) -> ModuleType:
        digest = hashlib.sha256(f"{self.path}\0{self.text}".encode()).hexdigest()
        name = f"headwater_plugin_{digest[:16]}"
        if name not in sys.modules:
            module = ModuleType(name)
            module.__file__ = self.path
            sys.modules[name] = module
            try:
                exec(compile(self.text, self.path, "exec"), vars(module))
            except Exception as error:
                del sys.modules[name]
                raise PluginError(f"output plugin {self.path} fails: {type(error).__name__}: {error}") from error
        return sys.modules[name]


def plugin_names() -> list[str]:
    """Names of the plugins that are installed."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def load_plugin(name: str) -> MakePlugin:
    """What makes an output plugin.

    Args:
        name: of an entry point, or ``PATH:CLASS``.

    Raises:
        PluginError: no plugin of that name, or what is found is none.
        UntrustedPathError: another user could have put the file there.
    """
    for point in entry_points(group=GROUP, name=name):
        found = point.load()
        if isinstance(found, type) and issubclass(found, SlicePlugin):
            return found
        if isinstance(found, type) and issubclass(found, callbacks.OutputPlugin):
            return _called(found, name, None)
        raise PluginError(
            f'"{point.value}" is not an output plugin', hint="expected a subclass of headwater.plugins.OutputPlugin"
        )
    if ":" in name:
        source = PluginSource.read(name)
        return _called(source.load(), source.class_name, source)
    raise PluginError(
        f'unknown output plugin "{name}"',
        hint=f"known plugins are {', '.join(plugin_names())}; PATH:CLASS names one of your own",
    )


def definitions_asked_for(name: str, options: Sequence[tuple[str, str | None]]) -> str:
    """What an output plugin tells by the definitions of objects; see :meth:`SlicePlugin.asks_for_definitions`.

    Raises:
        PluginError: there is no such plugin, or an option is wrong.
    """
    made = load_plugin(name)
    if isinstance(made, type) and issubclass(made, SlicePlugin):
        return made.asks_for_definitions(options)
    return ""


def _called(plugin: type[callbacks.OutputPlugin], name: str, source: PluginSource | None) -> MakePlugin:
    from headwater.plugins.callback_plugin import CallbackPlugin

    callbacks.check_callbacks(plugin)
    return partial(CallbackPlugin, plugin, name, source)
