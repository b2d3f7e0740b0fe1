# dgpnet in a container: docs/container.md. A CPU is enough. PyTorch as PyPI has it brings CUDA along; for another build,
# a CPU's alone say, give the address of PyTorch's index for it: --build-arg TORCH_INDEX=…
ARG DEBIAN=trixie

FROM debian:${DEBIAN}-slim AS build
ARG TORCH_INDEX=
ARG EXTRAS=demo,hub,studio
# What the package calls itself; the release's number.
ARG VERSION=0.1.0.dev0
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv
WORKDIR /build
RUN python3 -m venv /venv
COPY constraints.txt ./
# PyTorch first and alone: its build is the index's choice, and nothing later replaces it.
RUN PIP_EXTRA_INDEX_URL="${TORCH_INDEX}" /venv/bin/pip install --no-cache-dir --constraint constraints.txt torch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN SETUPTOOLS_SCM_PRETEND_VERSION_FOR_DGPNET="${VERSION}" \
    /venv/bin/pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]"

FROM debian:${DEBIAN}-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home dgpnet \
    && mkdir /data && chown dgpnet /data \
    && mkdir --mode=1777 /cache
COPY --from=build /venv /venv
# Any user may write there, so that `docker run --user` works.
ENV PATH=/venv/bin:$PATH DGPNET_CACHE=/cache/dgpnet HF_HOME=/cache/huggingface PYTHONDONTWRITEBYTECODE=1
USER dgpnet
WORKDIR /data
EXPOSE 8765
ENTRYPOINT ["dgpnet"]
# Reached from outside the container, and so only by who knows the token that it prints.
CMD ["studio", "/data", "--host", "0.0.0.0", "--token", "random", "--no-browser"]
