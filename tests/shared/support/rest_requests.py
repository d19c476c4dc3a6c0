"""Builds requests of the Open Inference Protocol over REST."""

import json
from typing import Any

import numpy as np

BOARDS = np.random.default_rng(3).integers(0, 12, (40, 16), dtype=np.uint8)
INFER = "/v2/models/fake/infer"
JSON_LENGTH = "Inference-Header-Content-Length"


def described(**fields: Any) -> dict[str, Any]:
    """Return the JSON description of the tensor BOARDS; keywords overwrite its fields."""
    return {"name": "boards", "datatype": "UINT8", "shape": list(BOARDS.shape), **fields}


def binary(request: dict[str, Any], *tensors: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a request body of JSON followed by tensors, and its headers."""
    text = json.dumps(request).encode()
    return b"".join((text, *tensors)), {"Inference_Header_Content_Length": str(len(text))}
