"""The part in C that all generated modules share."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, SupportsIndex, final

INTERFACE: Final[int]
"""The number of the interface that generated modules are built for."""

class Unsupported(TypeError, ValueError):
    """A call outside what the op can do: nothing was written, nothing launched."""

    op: str | None
    arg: str | None
    """The argument that it is about, None where it is about several."""
    item: int | None
    """Of `run` and `capture`: the index of the call that was refused."""

class CudaError(RuntimeError):
    """A backend failed, or is not there."""

    op: str | None
    """None where no op failed but an allocation."""
    kernel: str | None
    code: int | None
    """The backend's own number of the error; None where there is no backend to have one."""
    name: str | None
    """The backend's own name of the error."""
    item: int | None
    """Of `run` and `capture`: the index of the call that failed."""

class CudaLost(CudaError):
    """A kernel, maybe an earlier one, has broken this process's CUDA: every later call fails, until
    the process is started again."""

@final
class Tensor:
    """Memory of its own on the host or a device. numpy.asarray takes one in host memory, every
    from_dlpack any."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
    @property
    def dtype(self) -> str:
        """As in the capability table: "f32"."""
    @property
    def device(self) -> str:
        """ "cpu", or as "cuda:0"."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Of a tensor on cuda; its stream is the one that the memory was taken on."""
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: Literal[False] | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Spec:
    """A tensor without its memory: what `infer` takes in a tensor's place and gives of outs, and
    `explain` takes. Specs are equal where all their attributes are."""

    def __new__(
        cls,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: object,
        *,
        strides: SupportsIndex | Sequence[SupportsIndex] | None = None,
        device: object = "cpu",
    ) -> Spec:
        """`dtype` and `device` as `empty` takes them, and dtypes and devices that no op has;
        strides in elements, None: row-major."""
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
    @property
    def dtype(self) -> str:
        """As in the capability table: "f32"."""
    @property
    def device(self) -> str:
        """ "cpu", or as "cuda:0"."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Call:
    """An op bound to its tensors: checked once, then only launched. It keeps their memory alive: a
    tensor that is given other memory leaves the call on the old one. Memory that torch resizes is
    not the call's any more: launches then raise Unsupported until `set` gives them the tensor
    again."""

    @property
    def op(self) -> str: ...
    @property
    def dtype(self) -> str:
        """The suffix of the typed form that it stands for: "f32"."""
    @property
    def kernel(self) -> str:
        """The kernel that it launches."""
    @property
    def device(self) -> str:
        """ "cpu", or as "cuda:0"."""
    @property
    def tensors(self) -> dict[str, Any]:
        """By parameter, what it was bound to: the objects as they were given, a tuple for a list,
        None for what is absent. A new dict."""
    @property
    def workspace_size(self) -> int:
        """Bytes that its kernel needs for the length of a launch, beside the tensors; 0: none."""
    @property
    def workspace(self) -> Any:
        """The tensor that `bind` or `set` was given for them as `workspace=`; None: each launch
        takes memory and gives it back."""
    def __call__(self) -> None:
        """Launches. Raises CudaError if that fails, Unsupported where a tensor was resized."""
    def set(self, **arguments: Any) -> None:
        """Puts other tensors, attributes or options in their places. Checks all that depends on
        them; raises as `bind` does, and the call is then as it was."""

def run(calls: list[Call] | tuple[Call, ...], /) -> None:
    """Launches calls one after another, each as it is when this begins. The first that fails
    raises, with its index as `item`; those before it were launched, those after it were not."""

@final
class Graph:
    """What bound calls would launch, as one launch. It keeps its calls and their memory alive, and
    is their stream's: its launches follow each other on whatever streams they are."""

    @property
    def nodes(self) -> int:
        """How many launches and copies it has."""
    @property
    def calls(self) -> tuple[Call | tuple[Any, Any], ...]:
        """What was captured, as it was given."""
    @property
    def feed(self) -> tuple[Any, Any] | None:
        """The pair (host, out) that each launch copies first."""
    @property
    def device(self) -> str | None:
        """As "cuda:0"; None where there is nothing to launch."""
    def __call__(self, stream: Any = None) -> None:
        """As `launch`."""
    def launch(self, stream: Any = None) -> None:
        """Queues all of it on the stream. Without one: on the stream that the calls name, or on the
        current one of their tensors' framework. Raises CudaError if that fails, Unsupported where
        a tensor was resized since."""
    def update(
        self, calls: list[Call | tuple[Any, Any]] | tuple[Call | tuple[Any, Any], ...], /
    ) -> Literal["updated", "instantiated"]:
        """Puts other calls of the same device in the place of its own. "updated": the graph was
        changed; "instantiated": it was made anew, which takes longer. Raises as `capture` does, and
        the graph is then as it was."""

@final
class Again:
    """The last run of a prepared program, to be done again; and the lock that runs have, and what
    changes the program, as often as a thread likes."""

    def __enter__(self) -> None:
        """Takes the lock, and forgets the last run: the next one is to be looked at in full."""
    def __exit__(self, *raised: object) -> None: ...
    def __call__(self, inputs: tuple[Any, ...], named: dict[str, Any], /) -> Any:
        """Where all that a run is given is what the last one was, or a number that is written in
        its place: does it, and gives its result. Else NotImplemented, and nothing ran; so too
        where this thread has the lock."""
    def hold(
        self,
        inputs: tuple[Any, ...],
        named: dict[str, Any],
        watched: tuple[Any, ...],
        asked: tuple[tuple[Callable[[], Any], Any], ...],
        work: Graph | list[Call] | Callable[[], Any],
        result: Any,
        cells: Any,
        numbers: tuple[tuple[str, Any, int, str, Any, Any], ...],
        kept: dict[Any, Any],
        /,
    ) -> None:
        """From now on such runs do `work` and give `result`, while the layouts of `watched`
        are what they are and each of `asked` answers what stands beside it. `numbers`, at
        most 16 of them, may be others: (name, key, offset, format, low, high) of each,
        which is written to the bytes `cells` as by `struct`, and told to `named` by its
        name and to `kept` by its key when the run is forgotten. Requires the lock."""

def capture(
    calls: list[Call | tuple[Any, Any]] | tuple[Call | tuple[Any, Any], ...],
    /,
    *,
    feed: tuple[Any, Any] | None = None,
    branches: int = 1,
) -> Graph:
    """A graph of what `run` would launch, each call as it is when this begins; nothing runs. A pair
    (source, out) of tensors of the device is a copy. `feed` is a pair (host, out) of at most 64
    KiB: each launch copies the bytes that the host's tensor then has to `out` first, and what is
    written there later is of later launches. `branches`, from 1 to 64: how many calls may run at
    once, where none reads or writes bytes that another writes; with 1 they follow each other.
    Raises Unsupported where calls cannot be in
    one graph, or their backend has none; CudaError where it fails, with the call's index as `item`
    if one was refused. Nothing was launched then."""

def empty(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: object,
    device: object = "cpu",
    *,
    stream: int | None = None,
    fed: bool = False,
) -> Tensor:
    """A new row-major tensor with undefined elements. `dtype` is a name as in the table ("f32",
    "float32") or a framework's own, `device` is "cpu", "cuda", "cuda:1" or what prints so. On cuda
    the memory is taken, and later given back, in the order of `stream`, the default one if None.
    `fed`: graphs are fed into it, which takes them less where it is of 256 bytes at most."""

def view(
    base: Any,
    shape: SupportsIndex | Sequence[SupportsIndex],
    *,
    strides: SupportsIndex | Sequence[SupportsIndex] | None = None,
    offset: int = 0,
    dtype: object = None,
) -> Tensor:
    """A tensor on the memory of `base`, any producer's, which it keeps alive. Strides are in
    elements, None is row-major; `offset` is in bytes; `dtype` is the base's unless given. Raises
    ValueError where an element would lie outside of what `base` spans, or is not aligned."""

def copy(source: Any, out: Any, *, stream: Any = None) -> None:
    """Copies the bytes of a dense tensor to another of the same shape and dtype: on the host, on a
    device, or between the two, which it waits for. Raises Unsupported where they do not fit."""

def layouts(tensors: tuple[Any, ...], /) -> bytes:
    """Where each tensor lies, its shape, strides and dtype, in some form: other bytes once
    its owner has changed any of that in place. Raises as a call does that is given it, and
    ValueError of more than eight dims."""

def synchronize(device: object = "cpu", stream: Any = None) -> None:
    """Waits until what is queued on the stream, the device's default one if None, has run."""

@final
class Stream:
    """A queue of work of its own on a device, for `stream=`: it waits for no other stream."""

    def __new__(cls, device: object = "cpu") -> Stream: ...
    @property
    def device(self) -> str: ...
    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol's version and the native handle."""

@final
class Event:
    """A moment in a stream's work, for measuring time on the device itself."""

    def __new__(cls, device: object = "cpu") -> Event: ...
    def record(self, stream: Any = None) -> None:
        """Marks when all that is queued on the stream now has run."""
    def elapsed(self, later: Event, /) -> float:
        """Seconds from this moment to a later one's; waits for both."""
