"""SHA-256, in plain C and by the processor's own instructions: both as Python has it."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from pathlib import Path

import pytest

from generator.program import FLAGS, SANITIZERS

# Of FIPS 180-4's examples, what a reader can check by hand.
KNOWN = {
    b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    b"a" * 1_000_000: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sha256") / "driver"
    compiler = [os.environ.get("CC", "gcc"), *FLAGS, *SANITIZERS]
    here = Path(__file__).parent / "sha256_driver.c"
    subprocess.run([*compiler, here, "-o", target], check=True)
    return target


def digests(driver: Path, texts: list[bytes]) -> list[set[str]]:
    """Of each text, by either way that this machine has."""
    data = b"".join(b"%d\n%s" % (len(text), text) for text in texts)
    said = subprocess.run([driver], input=data, capture_output=True, check=False)
    assert said.returncode == 0, said.stderr.decode()
    lines = said.stdout.decode().splitlines()
    assert len(lines) == len(texts)
    return [set(line.split()) - {"-"} for line in lines]


def test_known_digests(driver: Path) -> None:
    assert digests(driver, list(KNOWN)) == [{digest} for digest in KNOWN.values()]


@pytest.mark.promise("G11")
def test_all_sizes(driver: Path) -> None:
    """Each place of the padding in a block, twice over, and some hundred longer texts."""
    chosen = random.Random(3)
    sizes = [*range(260), *(chosen.randrange(260, 9000) for _ in range(200))]
    texts = [chosen.randbytes(size) for size in sizes]
    assert digests(driver, texts) == [{hashlib.sha256(text).hexdigest()} for text in texts]
