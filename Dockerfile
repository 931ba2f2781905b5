# The image of the manager and of the viewer, which is the plug-in of kubectl. Builds with docker, podman and buildah, natively or for other platforms:
# the builder runs on the machine's own platform and Go cross-compiles, so nothing is emulated.
FROM --platform=$BUILDPLATFORM docker.io/library/golang:1.26 AS builder
# No defaults here: one would win over the value that the builder sets.
ARG TARGETOS
ARG TARGETARCH
# The version of Go, such as go1.26.3; local is the image's. Not named GOTOOLCHAIN: the base image has an ENV of that name, which buildah
# and podman prefer to an argument.
ARG TOOLCHAIN=local
WORKDIR /workspace

# Modules change less often than code: a layer of their own.
COPY go.mod go.sum ./
COPY api/go.mod api/go.sum api/
RUN GOTOOLCHAIN=${TOOLCHAIN} go mod download

COPY main.go ./
COPY api/ api/
COPY controllers/ controllers/
COPY webhooks/ webhooks/
COPY resource/ resource/
COPY internal/ internal/
COPY plugin/ plugin/
COPY cmd/ cmd/

ARG VERSION=dev
ARG COMMIT=unknown
RUN export GOTOOLCHAIN=${TOOLCHAIN} CGO_ENABLED=0 GOOS=${TARGETOS:-linux} GOARCH=${TARGETARCH} && \
    for program in manager:. kubectl-happ:./cmd/kubectl-happ; do \
      go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" \
        -o "${program%%:*}" "${program#*:}" || exit 1; \
    done

# Static, without a shell, and with a numeric user: runAsNonRoot can check no name.
FROM gcr.io/distroless/static:nonroot
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="app-operator" \
      org.opencontainers.image.description="Kubernetes operator: one short YAML per application" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /
COPY --from=builder /workspace/manager /workspace/kubectl-happ ./
USER 65532:65532
ENTRYPOINT ["/manager"]
