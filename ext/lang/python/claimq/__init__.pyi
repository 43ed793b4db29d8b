"""The types of the package.  T is what `json` is: Job[Mail], Worker[Mail]."""
import os
import threading
from contextlib import AbstractContextManager
from sqlite3 import Connection
from typing import (Any, Callable, Dict, Generic, Iterable, Iterator, List,
                    Optional, Sequence, Tuple, TypeVar, Union, overload)

__version__: str
__all__ = ["Batch", "Contest", "Job", "Lost", "Message", "Outbox", "Pause",
           "Reject", "Release", "Retry", "Session", "Turn", "Worker", "code",
           "connect", "load", "loadable_path", "submit", "transaction"]

_T = TypeVar("_T")
_S = TypeVar("_S")
_U = TypeVar("_U")
_C = TypeVar("_C")
_Path = Union[str, "os.PathLike[str]"]

def loadable_path() -> str: ...
def load(conn: Any) -> None: ...
def connect(path: _Path, *, timeout: float = ..., init: bool = ...,
            **options: Any) -> Connection: ...
def transaction(conn: _C) -> AbstractContextManager[_C]: ...
def submit(db: Any, lane: str, payload: object, *, task: Optional[str] = ...,
           **options: object) -> Optional[int]: ...
def code(error: object) -> Optional[str]: ...

class Retry(Exception):
    delay_ms: Optional[float]
    error_class: Optional[str]
    def __init__(self, reason: str = ..., delay_ms: Optional[float] = ...,
                 error_class: Optional[str] = ...) -> None: ...

class Release(Exception):
    delay_ms: Optional[float]
    def __init__(self, delay_ms: Optional[float] = ...) -> None: ...

class Reject(Exception): ...
class Lost(Exception): ...
class Pause(BaseException): ...

class _Payload(Generic[_T]):
    row: Dict[str, Any]
    @property
    def payload(self) -> Any: ...
    @property
    def json(self) -> _T: ...
    @property
    def headers(self) -> Dict[str, Any]: ...

class _Claim:
    row: Dict[str, Any]
    claim: Tuple[str, str]
    lost: threading.Event
    stopping: threading.Event
    def check(self) -> None: ...

class Job(_Payload[_T], _Claim):
    id: int
    lane: str
    attempt: int
    task: Optional[str]
    def complete(self, db: Any, result: object = ...) -> None: ...
    def step(self, name: str, function: Callable[[], _S],
             db: Any = ...) -> _S: ...
    def sleep(self, ms: float) -> None: ...
    def wait_for(self, ids: Union[int, Iterable[int]]) -> None: ...

class Message(_Payload[_T]): ...

class _Messages(_Claim, Generic[_T]):
    messages: List[Message[_T]]
    def __iter__(self) -> Iterator[Message[_T]]: ...
    def __len__(self) -> int: ...

class Batch(_Messages[_T]):
    partition: int
    def done(self, message: Message[_T]) -> None: ...

class Turn(_Messages[_T]):
    session: str

class _Loop:
    owner: str
    lease_ms: int
    concurrency: int
    def run(self) -> int: ...
    def drain(self) -> int: ...
    def stop(self, *_: object) -> None: ...

class Worker(_Loop, Generic[_T]):
    def __init__(self, path: _Path, lanes: Union[str, Sequence[str]],
                 handler: Optional[Callable[[Job[_T]], object]] = ..., *,
                 batch: int = ..., capabilities: Sequence[str] = ...,
                 partition: Union[None, int, Sequence[int]] = ...,
                 concurrency: int = ..., owner: Optional[str] = ...,
                 lease_ms: int = ..., timeout: float = ...,
                 create: bool = ..., synchronous: str = ...) -> None: ...
    @overload
    def task(self, name: str, handler: None = ...) -> Callable[
        [Callable[[Job[_U]], _S]], Callable[[Job[_U]], _S]]: ...
    @overload
    def task(self, name: str, handler: Callable[[Job[_U]], _S]
             ) -> Callable[[Job[_U]], _S]: ...

class Outbox(_Loop, Generic[_T]):
    def __init__(self, path: _Path, queue: str,
                 handler: Callable[[Batch[_T]], object], *,
                 max: Optional[int] = ..., partition: Optional[int] = ...,
                 concurrency: int = ..., owner: Optional[str] = ...,
                 lease_ms: int = ..., timeout: float = ...,
                 create: bool = ..., synchronous: str = ...) -> None: ...

class Session(_Loop, Generic[_T]):
    def __init__(self, path: _Path, handler: Callable[[Turn[_T]], object], *,
                 session: Optional[str] = ..., max: Optional[int] = ...,
                 concurrency: int = ..., owner: Optional[str] = ...,
                 lease_ms: int = ..., timeout: float = ...,
                 create: bool = ..., synchronous: str = ...) -> None: ...

class Contest:
    lost: threading.Event
    claim: Tuple[str, str]
    fencing_token: int
    def __init__(self, path: _Path, subject: str, *, kind: int = ...,
                 owner: Optional[str] = ..., lease_ms: int = ...,
                 timeout: float = ..., create: bool = ...,
                 synchronous: str = ...) -> None: ...
    def acquire(self, seconds: Optional[float] = ...) -> bool: ...
    def release(self) -> None: ...
    def check(self) -> None: ...
    def stop(self, *_: object) -> None: ...
    def __enter__(self) -> Contest: ...
    def __exit__(self, *_: object) -> None: ...
