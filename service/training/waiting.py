"""The calls that wait for jobs."""

from service.http.places import Places

THREADS = 4


class Waiting(Places):
    """The waiting places and threads of one API process."""

    def __init__(self, limit: int) -> None:
        detail = f"{limit} calls already wait for jobs (CTP_MAX_WAITING_CALLS): end one, or call without `wait`"
        super().__init__(limit, THREADS, "too_many_waiting_calls", detail)
