"""What holds for every test: no network, and few threads, so that a laptop, a shared machine and CI see the same."""

import os
import socket

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # read by huggingface_hub at its import, hence before any test module is loaded


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """A test that reaches out of this machine fails with its reason (a local server, as for downloads, is allowed)."""
    connect = socket.socket.connect

    def connect_locally(self, address):
        if self.family != socket.AF_UNIX and address[0] not in {"127.0.0.1", "::1", "localhost"}:
            raise AssertionError(f"this test connects to {address}; tests run offline. Use a local server or a fake.")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_locally)
