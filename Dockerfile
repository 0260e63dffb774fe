# A static firn and nothing else: no shell, no package manager, no root. docker build -t firn .
FROM docker.io/library/golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /image/firn ./cmd/firn \
 && mkdir -p /image/var/lib/firn

FROM scratch
# Certificates of the stores that are reached over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /image/firn /firn
# A volume that is new takes its owner from the folder it covers.
COPY --from=build --chown=65532:65532 /image/var/lib/firn /var/lib/firn
USER 65532:65532
ENV FIRN_DATA_DIR=/var/lib/firn
WORKDIR /var/lib/firn
VOLUME ["/var/lib/firn"]
HEALTHCHECK --interval=5s --timeout=5s --start-period=1m CMD ["/firn", "healthcheck"]
ENTRYPOINT ["/firn"]
CMD ["serve"]
