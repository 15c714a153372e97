# PostgreSQL as the public image behaves, as far as the compose file and the tests ask it to: the programs of the embedded one,
# and Debian's client programs.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends postgresql-client \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --home-dir /var/lib/postgresql --create-home postgres
COPY native /opt/postgresql
COPY start-postgres.sh /usr/local/bin/start-postgres.sh
ENTRYPOINT ["sh", "/usr/local/bin/start-postgres.sh"]
CMD ["postgres"]
