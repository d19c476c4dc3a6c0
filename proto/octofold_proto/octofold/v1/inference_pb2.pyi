from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTION_UNSPECIFIED: _ClassVar[Direction]
    DIRECTION_UP: _ClassVar[Direction]
    DIRECTION_RIGHT: _ClassVar[Direction]
    DIRECTION_DOWN: _ClassVar[Direction]
    DIRECTION_LEFT: _ClassVar[Direction]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_INTERACTIVE: _ClassVar[Priority]
    PRIORITY_BULK: _ClassVar[Priority]
DIRECTION_UNSPECIFIED: Direction
DIRECTION_UP: Direction
DIRECTION_RIGHT: Direction
DIRECTION_DOWN: Direction
DIRECTION_LEFT: Direction
PRIORITY_UNSPECIFIED: Priority
PRIORITY_INTERACTIVE: Priority
PRIORITY_BULK: Priority

class NextMoveRequest(_message.Message):
    __slots__ = ("model", "version", "board", "search_time_us")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BOARD_FIELD_NUMBER: _ClassVar[int]
    SEARCH_TIME_US_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    board: _containers.RepeatedScalarFieldContainer[int]
    search_time_us: int
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., board: _Optional[_Iterable[int]] = ..., search_time_us: _Optional[int] = ...) -> None: ...

class NextMoveResponse(_message.Message):
    __slots__ = ("direction", "probabilities", "votes", "game_over", "model", "version", "queue_us", "inference_us", "values", "depth", "positions", "value", "precision", "digest")
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    GAME_OVER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_US_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    direction: Direction
    probabilities: _containers.RepeatedScalarFieldContainer[float]
    votes: _containers.RepeatedScalarFieldContainer[int]
    game_over: bool
    model: str
    version: str
    queue_us: int
    inference_us: int
    values: _containers.RepeatedScalarFieldContainer[float]
    depth: int
    positions: int
    value: float
    precision: str
    digest: int
    def __init__(self, direction: _Optional[_Union[Direction, str]] = ..., probabilities: _Optional[_Iterable[float]] = ..., votes: _Optional[_Iterable[int]] = ..., game_over: bool = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., queue_us: _Optional[int] = ..., inference_us: _Optional[int] = ..., values: _Optional[_Iterable[float]] = ..., depth: _Optional[int] = ..., positions: _Optional[int] = ..., value: _Optional[float] = ..., precision: _Optional[str] = ..., digest: _Optional[int] = ...) -> None: ...

class NextMovesRequest(_message.Message):
    __slots__ = ("model", "version", "boards", "with_probabilities", "priority", "with_votes", "search_time_us", "with_search", "with_value")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BOARDS_FIELD_NUMBER: _ClassVar[int]
    WITH_PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WITH_VOTES_FIELD_NUMBER: _ClassVar[int]
    SEARCH_TIME_US_FIELD_NUMBER: _ClassVar[int]
    WITH_SEARCH_FIELD_NUMBER: _ClassVar[int]
    WITH_VALUE_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    boards: bytes
    with_probabilities: bool
    priority: Priority
    with_votes: bool
    search_time_us: int
    with_search: bool
    with_value: bool
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., boards: _Optional[bytes] = ..., with_probabilities: bool = ..., priority: _Optional[_Union[Priority, str]] = ..., with_votes: bool = ..., search_time_us: _Optional[int] = ..., with_search: bool = ..., with_value: bool = ...) -> None: ...

class NextMovesResponse(_message.Message):
    __slots__ = ("moves", "probabilities", "model", "version", "queue_us", "inference_us", "votes", "values", "depth", "positions", "value", "precision", "digest")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_US_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    moves: bytes
    probabilities: bytes
    model: str
    version: str
    queue_us: int
    inference_us: int
    votes: bytes
    values: bytes
    depth: bytes
    positions: bytes
    value: bytes
    precision: str
    digest: int
    def __init__(self, moves: _Optional[bytes] = ..., probabilities: _Optional[bytes] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., queue_us: _Optional[int] = ..., inference_us: _Optional[int] = ..., votes: _Optional[bytes] = ..., values: _Optional[bytes] = ..., depth: _Optional[bytes] = ..., positions: _Optional[bytes] = ..., value: _Optional[bytes] = ..., precision: _Optional[str] = ..., digest: _Optional[int] = ...) -> None: ...

class StreamNextMovesRequest(_message.Message):
    __slots__ = ("id", "request")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    id: int
    request: NextMovesRequest
    def __init__(self, id: _Optional[int] = ..., request: _Optional[_Union[NextMovesRequest, _Mapping]] = ...) -> None: ...

class StreamNextMovesResponse(_message.Message):
    __slots__ = ("id", "response", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    response: NextMovesResponse
    error: _status_pb2.Status
    def __init__(self, id: _Optional[int] = ..., response: _Optional[_Union[NextMovesResponse, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "is_default", "versions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_default: bool
    versions: _containers.RepeatedCompositeFieldContainer[ModelVersion]
    def __init__(self, name: _Optional[str] = ..., is_default: bool = ..., versions: _Optional[_Iterable[_Union[ModelVersion, _Mapping]]] = ...) -> None: ...

class ModelVersion(_message.Message):
    __slots__ = ("version", "state", "reason", "precision", "card_json")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[ModelVersion.State]
        STATE_LOADING: _ClassVar[ModelVersion.State]
        STATE_READY: _ClassVar[ModelVersion.State]
        STATE_FAILED: _ClassVar[ModelVersion.State]
        STATE_UNLOADING: _ClassVar[ModelVersion.State]
        STATE_UNLOADED: _ClassVar[ModelVersion.State]
    STATE_UNSPECIFIED: ModelVersion.State
    STATE_LOADING: ModelVersion.State
    STATE_READY: ModelVersion.State
    STATE_FAILED: ModelVersion.State
    STATE_UNLOADING: ModelVersion.State
    STATE_UNLOADED: ModelVersion.State
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    CARD_JSON_FIELD_NUMBER: _ClassVar[int]
    version: str
    state: ModelVersion.State
    reason: str
    precision: str
    card_json: str
    def __init__(self, version: _Optional[str] = ..., state: _Optional[_Union[ModelVersion.State, str]] = ..., reason: _Optional[str] = ..., precision: _Optional[str] = ..., card_json: _Optional[str] = ...) -> None: ...
