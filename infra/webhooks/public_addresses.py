"""Where we may send to: addresses of the public internet alone, unless a subscription says otherwise.

Who may create a subscription must not reach, through us, what only our network can. A name is resolved here, once, and
the connection goes to exactly the address that was looked at: a second answer of the name server is never asked for.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from signoff.domain.errors import AddressRefused

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

# Beyond what `is_global` of every Python that we run on knows.
_REFUSED_4 = [IPv4Network(text) for text in ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24")]
_GIVEN_OUT_6 = IPv6Network("2000::/3")
_REFUSED_6 = [IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20")]
_NAT64 = IPv6Network("64:ff9b::/96")
_LAST_32_BITS = 0xFFFF_FFFF


def is_public(address: Address) -> bool:
    """False for whatever is private, loopback, link-local, multicast, reserved or shared, and for what leads there."""
    if isinstance(address, IPv4Address):
        closed = address.is_multicast or address.is_reserved or any(address in network for network in _REFUSED_4)
        return address.is_global and not closed
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & _LAST_32_BITS))
    if address.sixtofour is not None and not is_public(address.sixtofour):
        return False
    return address in _GIVEN_OUT_6 and not any(address in network for network in _REFUSED_6)


def parse_target(url: str, *, allow_private: bool) -> SplitResult:
    """The parts of a target's address, looked at by form alone.

    Raises:
        AddressRefused: not an address of the web, plain HTTP or a private address without leave, a user's name in it.
    """
    parts = _split(url)
    if parts.scheme != "https" and not (allow_private and parts.scheme == "http"):
        raise AddressRefused("the target must be an https:// address")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("the target may not hold a user's name or password")
    if parts.fragment:
        raise AddressRefused("the target may not hold a fragment")
    literal = _literal(parts.hostname or "")
    if literal is not None and not allow_private and not is_public(literal):
        raise AddressRefused("the target is not an address of the public internet")
    return parts


async def checked_addresses(host: str, port: int, *, allow_private: bool, resolve: Resolver) -> Sequence[str]:
    """The addresses that a connection may go to.

    Raises:
        AddressRefused: any of the name's addresses is not public, or it has none.
    """
    try:
        found = await resolve(host, port)
    except (OSError, UnicodeError):
        raise AddressRefused("the target's name can't be resolved") from None
    addresses = [ip_address(text.partition("%")[0]) for text in found]
    if not addresses:
        raise AddressRefused("the target's name has no address")
    if not allow_private and not all(map(is_public, addresses)):
        raise AddressRefused("the target's name leads to an address that is not of the public internet")
    return [str(address) for address in dict.fromkeys(addresses)]


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _split(url: str) -> SplitResult:
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise AddressRefused(
            "the target must be an address of plain ASCII; write other letters as punycode or %-escapes"
        )
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise AddressRefused("the target is not an address of the web")
    return parts


def _literal(host: str) -> Address | None:
    with suppress(ValueError):
        return ip_address(host.partition("%")[0])
    return None
