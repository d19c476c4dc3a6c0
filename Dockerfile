# Serves the shipped models. With SERVER=server-gpu, CUDA and cuDNN come as wheels of the versions that
# constraints.txt pins, so the base stays the same; the host needs only NVIDIA's driver and container toolkit.
ARG BASE=python:3.11-slim
FROM ${BASE}
ARG SERVER=server
# A base without Python gets the Python of its distribution.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
       make $(command -v python3 > /dev/null || echo python3 python3-venv) \
    && rm -rf /var/lib/apt/lists/*
# The number is part of the image's interface: by it, Kubernetes checks that the user is not root.
RUN useradd --uid 10001 --create-home octofold && install --directory --owner=octofold /home/octofold/app
WORKDIR /home/octofold/app
USER 10001:10001
# Dependencies first: while these files do not change, a change in the sources rebuilds only the last layer.
# The package's metadata contains README.md, which changes often: an empty one is enough here.
COPY --chown=octofold Makefile pyproject.toml constraints.txt ./
RUN touch README.md && PIP_NO_CACHE_DIR=1 make setup SERVER=${SERVER} VENV=.venv
COPY --chown=octofold . .
EXPOSE 50051 8000
# Environment variables are the server's flags; `docker run --env` changes them. The container's loopback is
# unreachable from outside, so the server listens on all its addresses. Loading and unloading models over the
# network is off by default. Grace and drain together end within the ten seconds after which Docker kills; to
# change this, raise them and `docker stop --time` together.
ENV OCTOFOLD_HOST=:: \
    OCTOFOLD_REST_PORT=8000 \
    OCTOFOLD_DEFAULT_MODEL=flagship \
    OCTOFOLD_ADMIN=false \
    OCTOFOLD_GRACE=2 \
    OCTOFOLD_DRAIN=4 \
    OCTOFOLD_READY_FILE=/dev/shm/octofold.ready
# The server touches the file every two seconds while it is ready. Checking its age costs next to nothing.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD test "$(find "$OCTOFOLD_READY_FILE" -mmin -0.2)"
ENTRYPOINT [".venv/bin/octofold-serve"]
