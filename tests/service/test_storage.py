"""Both kinds of storage keep the same promises."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import boto3
import pytest

from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST, TENSORS, encode_manifest
from service.files.object_storage import ObjectStorage
from service.files.storage import (
    MARK,
    PIECE_BYTES,
    FolderStorage,
    Storage,
    StorageAway,
    StorageRefused,
    checked_sizes,
)
from service.files.stores import make_storage
from service.settings import Settings
from tests.object_store import BUCKET, object_store
from tests.stores import folder_store

pytestmark = pytest.mark.slow
S = TypeVar("S", bound=Storage)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store():
        yield f"s3://{BUCKET}/some/prefix"


@pytest.fixture(params=["folder", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return marked(unmarked(request, tmp_path))


@pytest.fixture(params=["folder", "objects"])
def new_storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """That nobody has marked."""
    return unmarked(request, tmp_path)


def unmarked(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "folder":
        return FolderStorage(tmp_path)
    return ObjectStorage(f"{request.getfixturevalue('bucket')}/{tmp_path.name}")


def marked(storage: S) -> S:
    storage.set_mark("store_of_a_test")
    return storage


def files(letter: bytes) -> dict[str, bytes]:
    return {TENSORS: letter * 1000, MANIFEST: encode_manifest({"of": letter.decode()}, letter * 1000)}


def test_a_file_is_read_in_pieces_and_checked_without_being_held(storage: Storage) -> None:
    tensors = b"0123456789" * (PIECE_BYTES // 4)
    content = {TENSORS: tensors, MANIFEST: encode_manifest({}, tensors)}
    key = storage.put("models/m/1", content)
    pieces = list(storage.pieces(key, TENSORS))
    assert (len(pieces), b"".join(pieces)) == (3, tensors)
    assert checked_sizes(storage, key) == {name: len(one) for name, one in content.items()}
    storage.delete(key)
    with pytest.raises(ArtifactError, match="are gone"):
        checked_sizes(storage, key)


def test_what_was_put_is_got_again_and_listed(storage: Storage) -> None:
    keys = [storage.put("models/m/1", files(b"a")), storage.put("models/m/2", files(b"b"))]
    assert [storage.get(key) for key in keys] == [files(b"a"), files(b"b")]
    entries = {entry.key: entry for entry in storage.entries()}
    assert set(entries) == set(keys)
    assert all(entry.num_bytes > 1000 and entry.modified > 1_600_000_000 for entry in entries.values())


def test_storage_that_can_be_used_says_so_before_anything_is_in_it(storage: Storage) -> None:
    storage.check()


def test_deleting_an_owner_leaves_the_others(storage: Storage) -> None:
    first, second = storage.put("models/m", files(b"a")), storage.put("models/n", files(b"a"))
    storage.delete("models/m")
    storage.delete("models/nobody")
    with pytest.raises(ArtifactError, match="gone"):
        storage.get(first)
    assert storage.get(second) == files(b"a")


def test_putting_the_same_again_is_harmless(storage: Storage) -> None:
    assert storage.put("models/m", files(b"a")) == storage.put("models/m", files(b"a"))


def test_what_another_process_has_put_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes may put the same files, as two runs of `ctp migrate` do: the later one must remove nothing."""
    first, second = marked(FolderStorage(tmp_path)), FolderStorage(tmp_path)
    rename, keys = Path.rename, []

    def after_another(path: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        keys.append(first.put("kbs/k", files(b"a")))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", after_another)
    assert second.put("kbs/k", files(b"a")) == keys[0]
    assert first.get(keys[0]) == files(b"a")
    assert [entry.key for entry in first.entries()] == keys, "nothing half done is left"


def test_a_damaged_object_is_refused_and_can_be_put_again(bucket: str) -> None:
    storage = marked(ObjectStorage(bucket))
    key = storage.put("models/m", files(b"a"))
    storage.filesystem.pipe_file(f"{storage.root}/{key}/{TENSORS}", b"other")
    with pytest.raises(ArtifactError, match="checksum"):
        storage.get(key)
    storage.put("models/m", files(b"a"))
    assert storage.get(key) == files(b"a")


def test_the_url_decides_where_files_go(bucket: str, tmp_path: Path) -> None:
    assert isinstance(make_storage(Settings(data_dir=tmp_path)), FolderStorage)
    assert isinstance(make_storage(Settings(data_dir=tmp_path, artifacts_url=bucket)), ObjectStorage)


def test_a_server_that_is_gone_is_told_from_files_that_are_gone() -> None:
    with object_store() as store:
        storage = marked(ObjectStorage(f"s3://{BUCKET}/gone"))
        key = storage.put("models/m", files(b"a"))
        store.stop()
        for call in (
            lambda: storage.put("models/n", files(b"b")),
            lambda: storage.get(key),
            lambda: storage.delete(key),
            storage.check,
        ):
            with pytest.raises(StorageAway, match="try again"):
                call()
        store.start()
        assert storage.get(key) == files(b"a")


def test_a_bucket_that_is_not_there_is_refused_at_once(bucket: str) -> None:
    storage = ObjectStorage("s3://nobody-made-this/ctp")
    with pytest.raises(StorageRefused, match="CTP_ARTIFACTS_URL"):
        storage.put("models/m", files(b"a"))
    with pytest.raises(StorageRefused, match="nobody-made-this does not exist"):
        storage.check()


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageRefused, match="Not a directory"):
        FolderStorage(tmp_path / "file").put("models/m", files(b"a"))


def test_trouble_before_the_first_byte_is_the_storages_too(tmp_path: Path) -> None:
    """The look whether the files are there already fails, here for a name that no file system takes."""
    with pytest.raises(StorageRefused, match="File name too long"):
        folder_store(tmp_path).put("m" * 300, files(b"a"))


def test_a_store_without_its_mark_is_away_and_not_empty(new_storage: Storage) -> None:
    """A volume that is not mounted is an empty folder: nothing is written to it, and nothing in it counts as gone."""
    key = f"models/m/{'0' * 64}"
    for call in (
        lambda: new_storage.put("models/m", files(b"a")),
        lambda: new_storage.get(key),
        lambda: new_storage.delete(key),
        lambda: list(new_storage.entries()),
        new_storage.check,
    ):
        with pytest.raises(StorageAway, match=MARK):
            call()
    marked(new_storage)
    assert new_storage.check() == "store_of_a_test"
    assert list(new_storage.entries()) == []


def test_a_folder_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(StorageAway):
        FolderStorage(tmp_path / "gone").check()
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("owner", ["", ".", "/", "models", "jobs/", "models/..", "models/a/../b", "/etc"])
def test_what_is_no_owner_is_never_removed(storage: Storage, owner: str) -> None:
    key = storage.put("models/a", files(b"a"))
    with pytest.raises(ValueError, match="not an owner"):
        storage.delete(owner)
    assert storage.get(key) == files(b"a")


def test_files_that_nobody_here_wrote_are_listed_by_themselves(storage: Storage) -> None:
    key = storage.put("models/m", files(b"a"))
    strays = [".DS_Store", "models/.DS_Store", f"{key}/more/notes"]
    for stray in strays:
        write(storage, stray)
    write(storage, f"{key}/.DS_Store")
    entries = {entry.key: entry.is_foreign for entry in storage.entries()}
    assert entries == dict.fromkeys(strays, True) | {key: False}
    assert storage.get(key) == files(b"a"), "only its own files are the model's"


def write(storage: Storage, path: str) -> None:
    if isinstance(storage, ObjectStorage):
        storage.filesystem.pipe_file(f"{storage.root}/{path}", b"x")
    elif isinstance(storage, FolderStorage):
        (storage.root / path).parent.mkdir(parents=True, exist_ok=True)
        (storage.root / path).write_bytes(b"x")


def test_empty_objects_that_stand_for_folders_are_foreign(bucket: str) -> None:
    storage = marked(ObjectStorage(f"{bucket}/folders"))
    key = storage.put("models/m", files(b"a"))
    client = boto3.client("s3")
    for folder in ("", "models/", "models/m/", f"{key}/"):
        client.put_object(Bucket=BUCKET, Key=f"some/prefix/folders/{folder}")
    assert [entry.key for entry in storage.entries() if not entry.is_foreign] == [key]
    storage.delete("models/m")
    assert not [entry for entry in storage.entries() if not entry.is_foreign]


def test_a_folder_in_place_of_a_file_is_damage(tmp_path: Path) -> None:
    storage = folder_store(tmp_path)
    key = storage.put("models/m", files(b"a"))
    (tmp_path / key / MANIFEST).unlink()
    (tmp_path / key / MANIFEST).mkdir()
    with pytest.raises(ArtifactError, match="damaged"):
        storage.get(key)
