# Serves the shipped models. A GPU image: BASE=nvidia/cuda:12.9.1-cudnn-runtime-ubuntu24.04, SERVER=server-gpu.
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
RUN make setup SERVER=${SERVER}
COPY --chown=octofold . .
EXPOSE 50051 8000
HEALTHCHECK --interval=10s --start-period=60s \
    CMD [".venv/bin/octofold", "ready", "--target", "127.0.0.1:50051"]
# The container's loopback is unreachable from outside, so here the server listens on all its addresses.
ENTRYPOINT [".venv/bin/octofold-serve", "--host", "0.0.0.0", "--rest-port", "8000"]
