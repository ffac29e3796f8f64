"""What can go wrong in a call.

ClientError
├── Unreachable   nobody listens there, or the connection broke
├── BrokenOff     the answer ended before it was whole
└── ApiError      the service answered with a problem
"""

from typing import Any

import httpx


class ClientError(Exception):
    """Any call that did not succeed."""


class Unreachable(ClientError):
    """The service could not be reached."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot reach the service at {url} ({reason}): start it with `ctp up`, or set CTP_URL")


class BrokenOff(ClientError):
    """The answer ended before it was whole."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the download broke off ({reason}): is what you asked for still there? Try again")


class ApiError(ClientError):
    """`code` is stable and for programs, `detail` is for people; `problem` is the whole answer."""

    def __init__(self, problem: dict[str, Any]) -> None:
        self.problem = problem
        self.status = int(problem.get("status", 500))
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail", ""))
        super().__init__(f"{self.detail} [{self.status} {self.code}]")

    @classmethod
    def of(cls, response: httpx.Response) -> "ApiError":
        """From an answer that may come from something in between, and then be no problem+json at all."""
        try:
            problem = response.json()
        except ValueError:
            problem = None
        if not isinstance(problem, dict):
            problem = {"code": "no_problem_json", "detail": response.text[:200] or response.reason_phrase}
        return cls({"status": response.status_code, **problem})
