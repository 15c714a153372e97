ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends valkey-server \
 && ln -s valkey-server /usr/bin/redis-server \
 && ln -s valkey-cli /usr/bin/redis-cli \
 && rm -rf /var/lib/apt/lists/* \
 && mkdir -p /data
WORKDIR /data
CMD ["redis-server", "--protected-mode", "no"]
