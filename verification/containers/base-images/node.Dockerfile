# Node and npm as the public image has them, where no registry is to be had: from Debian's packages and a Node that is at hand.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libstdc++6 \
 && rm -rf /var/lib/apt/lists/*
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
# /smallest is the least in which Node runs: the program and the libraries that it names.
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && mkdir -p /smallest/usr/local/bin /smallest/etc/ssl/certs /smallest/tmp \
 && cp /usr/local/bin/node /smallest/usr/local/bin/node \
 && cp /etc/ssl/certs/ca-certificates.crt /smallest/etc/ssl/certs/ \
 && ldd /usr/local/bin/node | grep -o '/[^ ]*' | xargs -I '{}' cp --dereference --parents '{}' /smallest \
 && echo 'postern:x:10001:10001::/:/nowhere' > /smallest/etc/passwd \
 && mkdir -p /smallest/var/lib/dpkg/status.d && cp /etc/os-release /smallest/etc/os-release \
 && for library in $(ldd /usr/local/bin/node | grep -o '/[^ ]*'); do dpkg --search "$(readlink -f "$library")" || true; done \
    | cut -d: -f1 | sort -u | while read -r name; do dpkg --status "$name" > "/smallest/var/lib/dpkg/status.d/$name"; done
