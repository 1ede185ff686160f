# The server in an image of its own: the program, the libraries that it loads, the certificates that the world trusts,
# and nothing else. No shell, no package manager, no root.
#
#   docker build -t musickit-token-server .
#   docker run --rm --read-only -p 127.0.0.1:8080:8080 -e MUSICKIT_TEAM_ID=… -e ACCESS_ANONYMOUS='{ token: true }' \
#     -e MUSICKIT_KEY_FILE=/run/secrets/AuthKey_ABC1234567.p8 \
#     -v ./AuthKey_ABC1234567.p8:/run/secrets/AuthKey_ABC1234567.p8:ro musickit-token-server
#
# With -e ACCESS_ANONYMOUS='{ token: true, catalog: true }' it serves the catalog as well, which takes a way out to Apple.
# User 65532 must be able to read the key. deploy/compose.yaml is the fuller way. With buildah or podman, build with
# `--format docker`: the OCI format has no place for HEALTHCHECK.

ARG BUILD_IMAGE=swift:6.3-bookworm

FROM ${BUILD_IMAGE} AS build
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
      ca-certificates git libnghttp2-dev libssl-dev make openssl pkg-config zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# The packages first: they change more rarely than the sources, so this layer is often there already.
COPY Package.swift ./
RUN swift package resolve
COPY . .
# The commit for --version, which the image's build cannot see: --build-arg SOURCE_REVISION="$(git log -1 --format='%h, %cs')"
ARG SOURCE_REVISION
RUN make release

# What the program loads, as the loader says, and the records of the Debian packages that it is from, so that a scanner
# can tell which known faults are in the image. A package may own a file by its name from before /lib moved to /usr/lib.
# The catalog needs the certificates, and DNS, whose resolver is in the C library; /etc/resolv.conf is the container's.
RUN set -eu; \
    libraries=$(ldd .build/release/musickit-token-server | grep -o '/[^ ]*'); \
    mkdir -p /image/var/lib/dpkg/status.d; \
    cp .build/release/musickit-token-server /image/; \
    cp --parents --dereference $libraries /image/; \
    cp --parents --recursive --no-dereference /etc/nsswitch.conf /etc/ssl/certs /etc/ssl/openssl.cnf /usr/lib/ssl \
      /usr/share/ca-certificates /image/; \
    owners=$(dpkg --search $libraries $(realpath $libraries) 2>/dev/null | cut -d : -f 1 | sort -u); \
    for package in ca-certificates openssl $owners; do \
      dpkg --status "$package" > "/image/var/lib/dpkg/status.d/$package"; \
    done

FROM scratch
COPY --from=build /image /
# Inside a container the container's own address is what is published, so both listeners are on all of them. The admin
# listener's port is not exposed: publish it to the monitoring only.
ENV SERVER_HOST=* ADMIN_HOST=*
EXPOSE 8080
USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 CMD ["/musickit-token-server", "healthcheck"]
ENTRYPOINT ["/musickit-token-server"]
CMD ["serve"]
