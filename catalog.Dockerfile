# The catalog's image: opm serves what `make catalog` rendered. Its cache is made here, so that no pod of
# the catalog begins with that, and belongs to root, as any user may be the one who reads it. The cache is the same on all
# platforms: the builder runs on the machine's own one, and nothing is emulated.
FROM --platform=$BUILDPLATFORM quay.io/operator-framework/opm:v1.60.0 AS builder
COPY app-operator /configs/app-operator
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM quay.io/operator-framework/opm:v1.60.0
COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
LABEL operators.operatorframework.io.index.configs.v1=/configs
