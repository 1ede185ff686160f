# The server in an image of its own: the program, the libraries that it loads, the certificates that the world trusts,
# and nothing else. No shell, no package manager, no root. `make image` builds it with all labels; by hand:
#
#   docker build -t musickit-token-server .
#   docker run --rm -p 127.0.0.1:8080:8080 musickit-token-server demo
#
# That is the demo, without a key. With a key, as the user who owns the key's file, because it keeps its owner and mode:
#
#   docker run --rm --read-only -p 127.0.0.1:8080:8080 --user "$(id -u)" \
#     -e MUSICKIT_TEAM_ID=TEAM123456 -e ACCESS_ANONYMOUS='{ token: true }' \
#     -e MUSICKIT_KEY_FILE=/run/secrets/AuthKey_ABC1234567.p8 \
#     -v "$PWD/AuthKey_ABC1234567.p8":/run/secrets/AuthKey_ABC1234567.p8:ro musickit-token-server
#
# With -e ACCESS_ANONYMOUS='{ token: true, catalog: true }' it serves the catalog as well, which takes a way out to Apple.
# deploy/compose.yaml is the fuller way. With buildah or podman, build with `--format docker`: the OCI format has no place
# for HEALTHCHECK.

ARG BUILD_IMAGE=swift:6.3-bookworm

# deploy/image leaves this stage out if it has a program already.
FROM ${BUILD_IMAGE} AS compiled
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
      git libnghttp2-dev libssl-dev make pkg-config zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# The packages first: they change more rarely than the sources, so this layer is often there already.
COPY Package.swift ./
RUN swift package resolve
COPY . .
# The commit for --version, which the image's build cannot see: --build-arg SOURCE_REVISION="$(git log -1 --format='%h, %cs')"
ARG SOURCE_REVISION
RUN make release && mkdir /program && cp .build/release/musickit-token-server /program/

# What the program loads, as the loader says, and the records of the Debian packages that it is from, so that a scanner
# can tell which known faults are in the image, with their licences. A package may own a file by its name from before
# /lib moved to /usr/lib. The catalog needs the certificates, and DNS, whose resolver is in the C library;
# /etc/resolv.conf is the container's.
FROM ${BUILD_IMAGE} AS files
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
      ca-certificates libnghttp2-14 libssl3 libstdc++6 openssl zlib1g \
    && rm -rf /var/lib/apt/lists/*
COPY --from=compiled /program /image
RUN set -eu; \
    ! ldd /image/musickit-token-server | grep 'not found'; \
    libraries=$(ldd /image/musickit-token-server | grep -o '/[^ ]*'); \
    mkdir -p /image/var/lib/dpkg/status.d; \
    cp --parents --dereference $libraries /image/; \
    cp --parents --recursive --no-dereference /etc/nsswitch.conf /etc/ssl/certs /etc/ssl/openssl.cnf \
      /usr/lib/ssl/certs /usr/lib/ssl/openssl.cnf /usr/share/ca-certificates /image/; \
    owners=$(dpkg --search $libraries $(realpath $libraries) 2>/dev/null | cut -d : -f 1 | sort -u); \
    for package in ca-certificates openssl $owners; do \
      dpkg --status "$package" > "/image/var/lib/dpkg/status.d/$package"; \
      cp --parents --dereference "/usr/share/doc/$package/copyright" /image/; \
    done

FROM scratch
# `make image` says which version, commit and repository this is. The repository states no licence for its own files
# (LicenseRef-unstated); the other licences are those of the libraries and certificates.
ARG VERSION
ARG REVISION
ARG SOURCE_URL
LABEL org.opencontainers.image.title="musickit-token-server" \
      org.opencontainers.image.description="Apple Music developer tokens and catalog over HTTP" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE_URL}" \
      org.opencontainers.image.licenses="LicenseRef-unstated AND Apache-2.0 AND Apache-2.0 WITH Swift-exception AND MIT AND Zlib AND LGPL-2.1-or-later AND GPL-3.0-or-later WITH GCC-exception-3.1 AND MPL-2.0"
COPY --from=files /image /
# Inside a container the container's own address is what is published, so both listeners are on all of them. The admin
# listener's port is not exposed: publish it to the monitoring only. The demo reads no variable, and is on every address
# because of --container.
ENV SERVER_HOST=* ADMIN_HOST=*
EXPOSE 8080
USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 CMD ["/musickit-token-server", "healthcheck"]
ENTRYPOINT ["/musickit-token-server", "--container"]
CMD ["serve"]
