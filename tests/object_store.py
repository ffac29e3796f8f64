"""An S3 server on this machine, for tests."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import boto3
import httpx
from moto.server import ThreadedMotoServer
from werkzeug.serving import WSGIRequestHandler

BUCKET = "models"
ACCESS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


class ObjectStore:
    """A server that can go away and come back with all that it had; `variables` lead to it."""

    def __init__(self) -> None:
        # One call for each connection: those that are kept open would be served after `stop`.
        WSGIRequestHandler.protocol_version = "HTTP/1.0"
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        self.port = 0
        self.start()

    def start(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self._server.start()
        _, self.port = self._server.get_host_and_port()

    def stop(self) -> None:
        self._server.stop()

    @property
    def variables(self) -> dict[str, str]:
        return ACCESS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A server with one empty bucket; its variables hold in this process too."""
    store = ObjectStore()
    try:
        # All servers of a process share what they hold: without this, one test would find what another has left.
        httpx.post(f"http://127.0.0.1:{store.port}/moto-api/reset").raise_for_status()
        with patch.dict(os.environ, store.variables):
            client = boto3.client("s3")
            client.create_bucket(Bucket=BUCKET)
            yield store
    finally:
        store.stop()
