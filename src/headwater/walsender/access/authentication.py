"""Logins: the rule for a connection, the method that it names, and what the user may do.

:meth:`Access.begin` has a :class:`Pending` login or a :class:`Granted` one; each has bytes to send. What is pending
goes on with the client's next message::

    state = access.begin(request, peer)
    while isinstance(state, Pending):
        send(state.messages)
        kind, length = receive_header()
        state.check_header(kind, length)
        state = state.step(kind, receive(length - 4))
    send(state.messages)
    state.user

All that is refused is a SessionError, to be sent as FATAL before the connection is closed. An unknown user is refused
only when a known one with a wrong password would be, in the same words. Nothing here waits, reads a clock, or has
secrets in its messages.

The user of the system that runs the service need not be in the file of users. It has all rights and no password then:
the way in is the Unix socket.

PostgreSQL: auth.c (ClientAuthentication, auth_failed, CheckCertAuth, auth_peer), auth-sasl.c, postinit.c.

Known gaps: a user who proved who it is, and is no user, is refused before AuthenticationOk; the server does it after.
There are no maps of names (``pg_ident.conf``). How long a login may take is the session's to limit.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from headwater.errors import SessionError
from headwater.pg.sqlstates import INSUFFICIENT_PRIVILEGE, INVALID_AUTHORIZATION, PROTOCOL_VIOLATION
from headwater.pg.version import Version
from headwater.protocol.backend_messages import AUTHENTICATION_OK, authentication
from headwater.protocol.scram import (
    MOST_SASL_BYTES,
    NONCE_BYTES,
    Challenge,
    Login,
    initial_data,
    split_initial_response,
    wrong_password,
)
from headwater.protocol.startup import SessionRequest
from headwater.walsender.access.host_rules import HostRule, Interfaces, Method, is_physical, method_for
from headwater.walsender.access.peer import Peer, interfaces
from headwater.walsender.access.users import User, Users

_SASL, _SASL_CONTINUE, _SASL_FINAL = 10, 11, 12
_RESPONSE = b"p"


def new_nonce() -> bytes:
    """Return a server's nonce: random bytes in base64."""
    return b64encode(secrets.token_bytes(NONCE_BYTES))


@dataclass(frozen=True)
class Access:
    """The rules and users of a service: who may connect, and how.

    Attributes:
        rules: of hosts, in their order.
        users: of the service.
        version: of the server that is stood for: some errors differ.
        owner: the user of the system that runs the service; None for none that is let in by that.
        binding: of the service's certificate, for SCRAM-SHA-256-PLUS.
        nonce: makes a nonce for each login.
        list_interfaces: lists the addresses of this machine.
    """

    rules: Sequence[HostRule]
    users: Users
    version: Version
    owner: str | None = None
    binding: bytes | None = None
    nonce: Callable[[], bytes] = new_nonce
    list_interfaces: Interfaces = interfaces

    def begin(self, request: SessionRequest, peer: Peer) -> Pending | Granted:
        """Begin a login.

        Args:
            request: what the client asks for; peer: who it is.

        Raises:
            SessionError: no rule lets it in, or the rule's method does not.
        """
        method = method_for(self.rules, request, peer, self.list_interfaces)
        if method is Method.SCRAM:
            return self._begin_scram(request, peer)
        if method is Method.PEER and peer.system_user != request.user:
            raise _failed("Peer", request.user)
        if method is Method.CERT:
            _check_certificate(peer, request.user)
        return Granted(self, request)

    def _begin_scram(self, request: SessionRequest, peer: Peer) -> Pending:
        user = self.users.by_name.get(request.user)
        binding = self.binding if peer.is_encrypted else None
        verifier = None if user is None else user.verifier
        login = Login(request.user, verifier, self.users.secret, self.nonce(), binding)
        return Pending(self, request, login, authentication(_SASL, login.mechanisms))

    def user(self, request: SessionRequest) -> User:
        """Return the user that a client has proved to be.

        Args:
            request: what the client asks for.

        Raises:
            SessionError: there is no such user, or it must not do what it asks for.
        """
        user = self.users.by_name.get(request.user)
        if user is None and request.user == self.owner:
            user = User(request.user, may_copy_all=True)
        if user is None:
            raise SessionError(f'role "{request.user}" does not exist', sqlstate=INVALID_AUTHORIZATION)
        if request.is_replication:
            _check_replication(user, self.version)
        if is_physical(request) and not user.may_copy_all:
            detail = "This user may read publications, but not do physical replication."
            raise SessionError(_NOT_PERMITTED, sqlstate=INSUFFICIENT_PRIVILEGE, detail=detail)
        return user


@dataclass(frozen=True)
class Granted:
    """A login in which the client has proved who it is, which it is told before its rights are looked at.

    Attributes:
        access: what it is checked by; request: what the client asks for.
        messages: to be sent; the last one is AuthenticationOk.
    """

    access: Access
    request: SessionRequest
    messages: bytes = AUTHENTICATION_OK

    @property
    def user(self) -> User:
        """Who is in.

        Raises:
            SessionError: there is no such user, or it must not do what it asks for.
        """
        return self.access.user(self.request)


@dataclass(frozen=True, repr=False)
class Pending:
    """A login by SCRAM that waits for the client.

    Attributes:
        access: what it is checked by; request: what the client asks for.
        state: how far it has come.
        messages: to be sent.
        is_begun: the client has chosen a mechanism.
    """

    access: Access
    request: SessionRequest
    state: Login | Challenge
    messages: bytes
    is_begun: bool = False

    def check_header(self, kind: bytes, length: int) -> None:
        """Check the header of the client's next message, before its body is received.

        Args:
            kind: the letter; length: of the message without it, in bytes.

        Raises:
            SessionError: it is another message, or too long.
        """
        if kind != _RESPONSE:
            message = f"expected SASL response, got message type {kind[0]}"
            raise SessionError(message, sqlstate=PROTOCOL_VIOLATION)
        if not 4 <= length <= MOST_SASL_BYTES:
            raise wrong_password(self.request.user)

    def step(self, kind: bytes, body: bytes) -> Pending | Granted:
        """Go on with the client's next message.

        Args:
            kind: the letter; body: what follows the length.

        Raises:
            SessionError: it is malformed, or the password is wrong.
        """
        self.check_header(kind, len(body) + 4)
        if isinstance(self.state, Challenge):
            final = self.state.final(body)
            return Granted(self.access, self.request, authentication(_SASL_FINAL, final) + AUTHENTICATION_OK)
        if self.is_begun:
            return self._challenge(self.state, body)
        mechanism, rest = split_initial_response(body)
        login = self.state.choose(mechanism)
        data = initial_data(rest)
        if data is None:
            return replace(self, state=login, messages=authentication(_SASL_CONTINUE), is_begun=True)
        return self._challenge(login, data)

    def _challenge(self, login: Login, data: bytes) -> Pending:
        challenge = login.first(data)
        messages = authentication(_SASL_CONTINUE, challenge.message)
        return replace(self, state=challenge, messages=messages, is_begun=True)


def check_publications(user: User, names: Iterable[str]) -> None:
    """Check that a user may read publications.

    Raises:
        SessionError: it may not read one of them.
    """
    for name in names:
        if user.publications is not None and name not in user.publications:
            raise SessionError(f"permission denied for publication {name}", sqlstate=INSUFFICIENT_PRIVILEGE)


_NOT_PERMITTED = "permission denied to start WAL sender"


def _check_replication(user: User, version: Version) -> None:
    if user.may_replicate:
        return
    if not version.explains_missing_replication:
        message = "must be superuser or replication role to start walsender"
        raise SessionError(message, sqlstate=INSUFFICIENT_PRIVILEGE)
    detail = "Only roles with the REPLICATION attribute may start a WAL sender process."
    raise SessionError(_NOT_PERMITTED, sqlstate=INSUFFICIENT_PRIVILEGE, detail=detail)


def _check_certificate(peer: Peer, user: str) -> None:
    if not peer.has_certificate:
        raise SessionError("connection requires a valid client certificate", sqlstate=INVALID_AUTHORIZATION)
    if peer.certificate_name != user:
        raise _failed("certificate", user)


def _failed(method: str, user: str) -> SessionError:
    return SessionError(f'{method} authentication failed for user "{user}"', sqlstate=INVALID_AUTHORIZATION)
