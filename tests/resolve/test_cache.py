from __future__ import annotations

from pathlib import Path

from cpudeploy.resolve.cache import Cache
from cpudeploy.types.facts import Listening

VALUE = Listening(address="::", port=1)


def test_what_was_put_comes_back_to_another_run(tmp_path: Path) -> None:
    Cache(tmp_path / "new").put("kind", "../../key", VALUE)
    assert Cache(tmp_path / "new").get("kind", "../../key", Listening) == VALUE
    assert not list(tmp_path.parent.glob("key*"))


def test_keys_and_kinds_are_apart(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("kind", "key", VALUE)
    assert cache.get("kind", "other", Listening) is None
    assert cache.get("other", "key", Listening) is None


def test_a_damaged_entry_is_as_if_absent_and_is_written_anew(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("kind", "key", VALUE)
    [entry] = (tmp_path / "kind").iterdir()
    for damage in (b"", b"{", b'{"address": 5}', b"\xff"):
        entry.write_bytes(damage)
        assert cache.get("kind", "key", Listening) is None
        cache.put("kind", "key", VALUE)
        assert cache.get("kind", "key", Listening) == VALUE
    assert list((tmp_path / "kind").iterdir()) == [entry]


def test_without_a_folder_nothing_is_remembered() -> None:
    cache = Cache(None)
    cache.put("kind", "key", VALUE)
    assert cache.get("kind", "key", Listening) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    cache.put("kind", "key", VALUE)
    assert cache.get("kind", "key", Listening) is None
