"""The calls that wait for jobs, or ask how they are."""

from service.http.places import Places

THREADS = 4


class Waiting(Places):
    """The places of one API process for calls that wait for jobs, and the threads in which jobs are looked up."""

    def __init__(self, limit: int) -> None:
        detail = f"{limit} calls already wait for jobs (CTP_MAX_WAITING_CALLS): end one, or call without `wait`"
        super().__init__(limit, THREADS, "too_many_waiting_calls", detail)
