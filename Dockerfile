# Two images.
#
#   docker build --target node -t p2pdiloco .                the node alone: a static binary, nothing else
#   docker build --target trainer -t p2pdiloco-trainer .     a base for trainers: CUDA, Python, and the wheel
#
# The repository's history is no part of an image: --build-arg VERSION=$(git describe --tags --always --dirty) is what
# p2pdiloco version prints.
#
# A node in one container and its trainer in another share the data directory, where the socket is:
#
#   docker run -v run:/data p2pdiloco join TICKET --trainer attach --data-dir /data
#   docker run -v run:/data --gpus all -e P2PDILOCO_ATTACH=/data/attach.sock p2pdiloco-trainer python3 train.py

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG VERSION=
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
	-ldflags "-s -w -X github.com/p2pdiloco/p2pdiloco/cmd/internal/cli.version=$VERSION" -o /out/p2pdiloco ./cmd/p2pdiloco
RUN go run ./bridge/python/wheels --program /out/p2pdiloco --platforms $TARGETOS/$TARGETARCH --out /out/dist

# Runs as root in its container: the socket is for one user, and a trainer's container is root, too.
FROM scratch AS node
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/p2pdiloco /usr/bin/p2pdiloco
VOLUME /data
ENV XDG_STATE_HOME=/data TMPDIR=/data
ENTRYPOINT ["/usr/bin/p2pdiloco"]

FROM nvidia/cuda:12.8.1-runtime-ubuntu24.04 AS trainer
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip python3-venv \
	&& rm -rf /var/lib/apt/lists/*
ENV VIRTUAL_ENV=/opt/venv PATH=/opt/venv/bin:$PATH
RUN python3 -m venv /opt/venv
COPY --from=build /out/dist /tmp/dist
RUN pip install --no-cache-dir torch numpy && pip install --no-index /tmp/dist/*.whl
WORKDIR /work
