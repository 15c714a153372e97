#!/bin/sh
# Rolls a release out: rollout.sh overlays/production. Migrations run to their end before any Deployment changes; they suit the
# running release too, so nothing has to stop for them. Then come the services, and when they are all new, gateways and consoles:
# a service does what an older gateway asks of it, but cannot do what only a newer one knows to ask.
# To go back, with the older image in the overlay: rollout.sh --back overlays/production. The same in the reverse order, and the
# schema stays as it is.
set -eu
back=no
if [ "${1:-}" = --back ]; then
  back=yes
  shift
fi
overlay=${1:?usage: rollout.sh [--back] OVERLAY}
namespace=postern

finished() {
  for name in "$@"; do
    kubectl --namespace "$namespace" rollout status "deployment/$name" --timeout=10m
  done
}
services() {
  kubectl apply --kustomize "$overlay" --selector 'postern/phase notin (migrate, edge)'
  finished pgbouncer keys findings universe evidence sync
}
edge() {
  kubectl apply --kustomize "$overlay" --selector postern/phase=edge
  finished gateway console
}

kubectl apply --kustomize "$overlay" --selector postern/phase=before
if [ "$back" = yes ]; then
  edge
  services
else
  kubectl --namespace "$namespace" delete job migrate --ignore-not-found --wait
  kubectl apply --kustomize "$overlay" --selector postern/phase=migrate
  kubectl --namespace "$namespace" wait --for=condition=complete --timeout=15m job/migrate
  services
  edge
fi
