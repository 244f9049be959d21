"""Files that a service is given for access: loaded together, and refused where they do not fit together.

They are loaded when the service starts, and again whenever it is told so; logins that have begun go on with what was
there. A file that cannot be used leaves what was loaded before as it was: the error comes before anything changes.

PostgreSQL: hba.c (load_hba, parse_hba_line), auth.c (ClientAuthentication).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import AccessError
from headwater.pg.version import Version
from headwater.walsender.access.authentication import Access
from headwater.walsender.access.host_rules import DEFAULT_RULES, HostRule, Method, parse_rules, read_rules
from headwater.walsender.access.peer import system_user_named
from headwater.walsender.access.tls import Encryption, load_encryption
from headwater.walsender.access.users import Users, read_users


@dataclass(frozen=True)
class LoadedAccess:
    """Access to a service, as it was loaded.

    Attributes:
        access: who may connect, and how.
        encryption: of connections; None where there is no certificate.
    """

    access: Access
    encryption: Encryption | None


@dataclass(frozen=True, kw_only=True)
class AccessFiles:
    """Files of a service.

    Attributes:
        users: see :mod:`headwater.walsender.access.users`; None for no user but the owner.
        host_rules: see :mod:`headwater.walsender.access.host_rules`; None for the default rules.
        certificate, key: see :mod:`headwater.walsender.access.tls`; None for no encryption.
        client_authority: what certificates of clients are verified by; None for none.
    """

    users: Path | None = None
    host_rules: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None

    def load(self, version: Version) -> LoadedAccess:
        """Load the files.

        Args:
            version: of the server that is stood for.

        Raises:
            AccessError: one cannot be used, or does not fit the others.
        """
        encryption = self._encryption()
        rules = parse_rules(DEFAULT_RULES, "default rules") if self.host_rules is None else read_rules(self.host_rules)
        for rule in rules:
            self._check_rule(rule)
        users = Users() if self.users is None else read_users(self.users)
        binding = None if encryption is None else encryption.binding
        owner = system_user_named(os.geteuid())
        return LoadedAccess(Access(rules, users, version, owner, binding), encryption)

    def _encryption(self) -> Encryption | None:
        if self.certificate is None and self.key is None and self.client_authority is None:
            return None
        if self.certificate is None or self.key is None:
            raise AccessError("a certificate and its private key are given together, expected both")
        return load_encryption(self.certificate, self.key, self.client_authority)

    def _check_rule(self, rule: HostRule) -> None:
        """Refuse a rule that no connection could ever fit: its author thinks otherwise."""
        message = ""
        if rule.kind == "hostssl" and self.certificate is None:
            message = "hostssl record cannot match because SSL is disabled"
        elif rule.method is Method.CERT and self.client_authority is None:
            message = "client certificates can only be checked if a root certificate store is available"
        if message:
            raise AccessError(f"line {rule.line}: {message}", file=str(self.host_rules))
