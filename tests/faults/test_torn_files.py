"""Files that are cut off, flipped or refused by the disk: old or new, never torn."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST, TENSORS, encode_manifest
from service.files.storage import PART, StorageFull
from service.local.cluster import Cluster, wait_for
from tests.faults.watching import FAST, JOB, SHORT, Watch, undisturbed
from tests.stores import folder_store

pytestmark = pytest.mark.slow
Needs = Callable[..., str]
WRITE = """
import sys
from pathlib import Path
from ctp_core.manifest import MANIFEST, TENSORS, encode_manifest
from service.files.storage import FolderStorage, StorageAway, StorageFull
tensors = b"n" * 100_000
try:
    FolderStorage(Path(sys.argv[1])).put("jobs/j/1", {TENSORS: tensors, MANIFEST: encode_manifest({}, tensors)})
except StorageFull:
    sys.exit(28)
except StorageAway:
    sys.exit(5)
"""


def files(letter: bytes, size: int = 100_000) -> dict[str, bytes]:
    tensors = letter * size
    return {TENSORS: tensors, MANIFEST: encode_manifest({}, tensors)}


def parts(root: Path) -> list[Path]:
    return list(root.rglob(f"*{PART}"))


@pytest.fixture
def tmpfs(tmp_path: Path, needs: Needs) -> Iterator[Path]:
    """Two megabytes of disk."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True)
    needs("tmpfs", mounted.returncode == 0)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_said_so_and_leaves_the_old_files_whole(tmpfs: Path) -> None:
    storage = folder_store(tmpfs)
    old = storage.put("jobs/j/1", files(b"o"))
    with pytest.raises(StorageFull, match=r"3000\d+ bytes cannot be written .*No space left.*make room"):
        storage.put("jobs/j/1", files(b"n", 3_000_000))
    assert storage.get(old) == files(b"o")
    assert parts(tmpfs) == []


def test_a_job_on_a_full_disk_fails_with_the_reason_and_the_next_one_goes_on(tmpfs: Path, tmp_path: Path) -> None:
    settings = FAST | {"artifacts_url": f"file://{tmpfs}"}
    with Cluster(tmp_path / "c", settings, environment={"TMPDIR": str(tmpfs)}) as cluster:
        cluster.start("api", "dispatch", "train")
        watch, filler = Watch(cluster), tmpfs / "filler"
        room = os.statvfs(tmpfs)
        filler.write_bytes(bytes(room.f_bavail * room.f_bsize - 100_000))
        (failed,) = watch.wait_for_end(watch.submit(JOB)["id"])
        assert (failed.status, failed.error["code"]) == ("failed", "storage_full")
        assert "make room" in failed.error["detail"]
        assert '"checkpoint_not_saved"' in watch.log("train")
        wait_for(lambda: not list(tmpfs.rglob(TENSORS)) and not parts(tmpfs), "nothing of it is left", 30)
        filler.unlink()
        (trained,) = watch.wait_for_end(watch.submit(SHORT)["id"])
        assert trained.status == "succeeded"
        watch.wait_for_removals()  # checkpoints that nobody needs would make room again
        with watch.client() as client:
            archive = client.get(f"/models/{trained.model_id}/export").content
            facts = {"file": ("facts.tsv", b"a\tp\tb\n" * 200_000)}  # more than is kept in memory
            # The folder for what does not fit into memory is chosen when it is first needed, from those with room.
            room = shutil.disk_usage(tmpfs).free
            assert client.post("/kbs", data={"name": "first"}, files=facts).status_code == 201
            # The body waits in a file without a name, which may outlive the answer.
            # The KB itself, of one fact, is a few files of kilobytes.
            wait_for(lambda: shutil.disk_usage(tmpfs).free > room - 200_000, "the body is gone", 30)
            with pytest.raises(OSError, match="No space left"):
                filler.write_bytes(bytes(2_100_000))  # to the last page
            refused = [
                client.post("/models/import", content=archive, headers={"content-type": "application/zip"}),
                client.post("/models/import", files={"file": ("m.zip", bytes(3_000_000))}),
                client.post("/kbs", data={"name": "large"}, files=facts),
            ]
        assert [(each.status_code, each.json()["code"]) for each in refused] == [(507, "storage_full")] * 3
        assert all("make room" in each.json()["detail"] for each in refused)
        watch.check_nothing_is_lost()


@pytest.mark.parametrize("damage", ["flipped", "truncated"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(watch: Watch, damage: str) -> None:
    job = watch.submit(JOB)
    watch.wait_for_epoch(job["id"], 4)
    watch.cluster.parts["train"].stop()
    checkpoints = sorted((watch.artifacts / "jobs" / job["id"]).rglob(TENSORS), key=lambda path: path.stat().st_mtime)
    content = bytearray(checkpoints[-1].read_bytes())
    content[len(content) // 2] ^= 1
    checkpoints[-1].write_bytes(content if damage == "flipped" else content[: len(content) // 2])
    before = watch.log("train").count("checkpoint_damaged")
    watch.cluster.start("train")
    (ended,) = watch.wait_for_end(job["id"])
    assert watch.log("train").count("checkpoint_damaged") == before + 1
    assert watch.log("train").count("job_resumed") > before
    assert watch.files(ended.model_id) == undisturbed(ended)


def strace(needs: Needs, root: Path, calls: str, fault: str) -> int:
    """Writes new files beside old ones in another process, with a fault at one of its system calls."""
    arguments = ["-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"]
    command = [needs("strace"), *arguments, sys.executable, "-c", WRITE, str(root)]
    return subprocess.run(command, check=False, capture_output=True, timeout=120).returncode


def test_a_kill_at_the_rename_leaves_old_files_whole_and_new_ones_absent(tmp_path: Path, needs: Needs) -> None:
    storage = folder_store(tmp_path)
    old = storage.put("jobs/j/0", files(b"o"))
    code = strace(needs, tmp_path, "rename,renameat,renameat2", "signal=KILL:when=1")
    assert code == -9
    assert storage.get(old) == files(b"o")
    found = [entry.key for entry in storage.entries() if not entry.key.endswith(PART)]
    for key in found:  # strace delivers the signal as the call returns: old or new, whichever, whole
        assert storage.get(key) in (files(b"o"), files(b"n"))


@pytest.mark.parametrize("number", range(1, 8))
def test_no_space_at_any_fsync_leaves_nothing_of_the_new_files(tmp_path: Path, needs: Needs, number: int) -> None:
    """Two files, their folder, and the four folders above: every one of them is synced."""
    storage = folder_store(tmp_path)
    old = storage.put("jobs/j/0", files(b"o"))
    code = strace(needs, tmp_path, "fsync", f"error=ENOSPC:when={number}")
    assert code == errno.ENOSPC
    assert storage.get(old) == files(b"o")
    assert [entry.key for entry in storage.entries()] == [old]


def test_a_disk_that_fails_for_a_moment_is_told_from_a_full_one(tmp_path: Path, needs: Needs) -> None:
    storage = folder_store(tmp_path)
    assert strace(needs, tmp_path, "fsync", "error=EIO:when=1") == errno.EIO
    assert list(storage.entries()) == []


@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_kill_at_any_fsync_leaves_whole_files_or_none(tmp_path: Path, needs: Needs, number: int) -> None:
    storage = folder_store(tmp_path)
    assert strace(needs, tmp_path, "fsync", f"signal=KILL:when={number}") == -9
    whole = [entry.key for entry in storage.entries() if not entry.key.endswith(PART)]
    assert [storage.get(key) for key in whole] == ([] if number < 4 else [files(b"n")])


def test_what_is_not_under_its_checksum_is_refused(tmp_path: Path) -> None:
    storage = folder_store(tmp_path)
    key = storage.put("models/m", files(b"o"))
    (tmp_path / key / TENSORS).unlink()
    with pytest.raises(ArtifactError):
        storage.get(key)
    assert storage.put("models/m", files(b"o")) == key
    assert storage.get(key) == files(b"o")
