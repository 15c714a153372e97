# What an image of Postern needs to run on, and nothing else: no shell, no package manager.
ARG BUILD_IMAGE
FROM ${BUILD_IMAGE} AS build
FROM scratch
COPY --from=build /smallest /
ENV PATH=/usr/local/bin
