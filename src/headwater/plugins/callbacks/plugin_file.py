"""An output plugin in a file of one's own: its text travels to decode tasks, so they need not see the file.

The file is run: it must lie where only root and this user could have put it.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from headwater.base.system_errors import reason_of
from headwater.base.trusted_paths import check_path
from headwater.errors import PluginError
from headwater.plugins.callbacks import output_plugin as callbacks


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
        """Read what ``PATH:CLASS`` names.

        Raises:
            PluginError: it cannot be read.
            UntrustedPathError: another user could have put it there.
        """
        path, _, class_name = name.rpartition(":")
        try:
            return cls(path, check_path(Path(path)).read_text("utf-8"), class_name)
        except (OSError, UnicodeDecodeError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else "it is no text in UTF-8"
            raise PluginError(f'could not read output plugin "{path}": {reason}') from None

    def load(self) -> type[callbacks.OutputPlugin]:
        """Return the class.

        Raises:
            PluginError: the file fails, or has no such plugin.
        """
        plugin = getattr(self._module(), self.class_name, None)
        if not (isinstance(plugin, type) and issubclass(plugin, callbacks.OutputPlugin)):
            raise PluginError(
                f'"{self.class_name}" of {self.path} is not an output plugin',
                hint="expected a subclass of headwater.OutputPlugin",
            )
        return plugin

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
