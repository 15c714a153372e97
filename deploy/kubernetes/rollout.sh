#!/bin/sh
# Rolls a release out: rollout.sh overlays/production. Migrations run to their end before any Deployment changes; they suit the
# running release too, so nothing has to stop for them.
set -eu
overlay=${1:?usage: rollout.sh OVERLAY}
namespace=postern
kubectl apply --kustomize "$overlay" --selector postern/phase=before
kubectl --namespace "$namespace" delete job migrate --ignore-not-found --wait
kubectl apply --kustomize "$overlay" --selector postern/phase=migrate
kubectl --namespace "$namespace" wait --for=condition=complete --timeout=15m job/migrate
kubectl apply --kustomize "$overlay"
# Services before the gateways that speak to them.
for name in pgbouncer keys findings universe evidence sync gateway console; do
  kubectl --namespace "$namespace" rollout status "deployment/$name" --timeout=10m
done
