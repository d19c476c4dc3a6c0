# Serves the shipped models. With SERVER=server-gpu, CUDA and cuDNN come as wheels of the versions that
# constraints.txt pins, so the base stays the same; the host needs NVIDIA's driver and container toolkit only.
ARG BASE=python:3.11-slim
FROM ${BASE}
ARG SERVER=server
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home octofold && install --directory --owner=octofold /home/octofold/app
WORKDIR /home/octofold/app
USER octofold
# Dependencies first: as long as these files stay as they are, a change of the sources rebuilds only the last layer.
COPY --chown=octofold Makefile pyproject.toml constraints.txt README.md ./
RUN PIP_NO_CACHE_DIR=1 make setup SERVER=${SERVER} VENV=.venv
COPY --chown=octofold . .
EXPOSE 50051 8000
HEALTHCHECK --interval=10s --start-period=60s \
    CMD [".venv/bin/octofold", "ready", "--target", "127.0.0.1:50051"]
# Environment variables are the server's flags; `docker run --env` changes them. Loading and unloading models
# over the network stays off unless somebody asks for it.
ENV OCTOFOLD_DEFAULT_MODEL=flagship OCTOFOLD_ADMIN=false
# The container's loopback is unreachable from outside, so here the server listens on all its addresses.
ENTRYPOINT [".venv/bin/octofold-serve", "--host", "0.0.0.0", "--rest-port", "8000"]
