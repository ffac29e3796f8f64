"""An S3 server on this machine, for tests."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "models"
ACCESS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """The variables that lead to an empty bucket; they hold in this process too."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    host, port = server.get_host_and_port()
    variables = ACCESS | {"AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    try:
        with patch.dict(os.environ, variables):
            boto3.client("s3").create_bucket(Bucket=BUCKET)
            yield variables
    finally:
        server.stop()
