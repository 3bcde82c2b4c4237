"""Where a subscription may send to."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from signoff.domain.errors import AddressRefused
from signoff.infra.webhooks.public_addresses import Resolver, checked_addresses, is_public, parse_target

pytestmark = pytest.mark.anyio

PUBLIC = ["93.184.215.14", "1.1.1.1", "2606:2800:220:1::1", "2002:5db8:d70e::1", "64:ff9b::5db8:d70e", "172.32.0.1"]
REFUSED = [
    *("0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.0.9", "169.254.169.254", "172.16.0.1"),
    *("192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.7", "203.0.113.9"),
    *("224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
    *("64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1"),
    *("fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", REFUSED)
def test_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


def resolving(*addresses: str) -> Resolver:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(AddressRefused):
        await checked_addresses("x.test", 443, allow_private=False, resolve=resolving("1.1.1.1", "10.0.0.1"))
    allowed = await checked_addresses("x.test", 443, allow_private=True, resolve=resolving("1.1.1.1", "10.0.0.1"))
    assert allowed == ["1.1.1.1", "10.0.0.1"]


async def test_addresses_that_are_written_in_other_ways_are_seen_by_what_they_lead_to() -> None:
    for found in ("fe80::1%eth0", "::ffff:7f00:1"):
        with pytest.raises(AddressRefused):
            await checked_addresses("x.test", 443, allow_private=False, resolve=resolving(found))


async def test_a_name_that_nobody_knows() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name, says 10.0.0.53")

    for resolve in (unknown, resolving()):
        with pytest.raises(AddressRefused) as refused:
            await checked_addresses("x.test", 443, allow_private=False, resolve=resolve)
        assert "10.0.0.53" not in refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "hook",
            "ftp://x.test/",
            "http://x.test/",
            "//x.test/",
            "https://",
            "https:///hook",
            "file:///etc/passwd",
        ),
        *("https://user@x.test/", "https://user:word@x.test/", "https://x.test@10.0.0.1/", "https://x.test/#part"),
        *("https://127.0.0.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://10.0.0.1:8443/"),
        *("https://x.test:0/", "https://x.test:70000/", "https://x.test:port/", "https://[::1/"),
        *("https://x.test/a b", "https://x.test/\r\nHost: y", "https://x.test\\@y.test/", "https://ⓔxample.test/"),
    ],
)
def test_targets_that_are_refused_by_their_form(url: str) -> None:
    with pytest.raises(AddressRefused):
        parse_target(url, allow_private=False)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/hook?a=1", "https://10.0.0.1/", "http://receiver/"])
def test_private_ones_only_with_leave(url: str) -> None:
    assert parse_target(url, allow_private=True).hostname
    with pytest.raises(AddressRefused):
        parse_target(url, allow_private=False)
