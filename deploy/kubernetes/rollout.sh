#!/bin/sh
# Rolls out a release: rollout.sh overlays/production
# 1. Migrations run to completion. They also suit the running release.
# 2. Services are updated, each after the services that it calls.
# 3. Gateways and consoles are updated last: new services can answer older gateways, but not the reverse.
# Roll back with the older image in the overlay: rollout.sh --back overlays/production. It uses the reverse order and keeps the schema.
# --migrate-only runs only the migrations. --retire-assertion-keys is passed on to them (postern migrate --help).
set -eu
usage='usage: rollout.sh [--back | --migrate-only [--retire-assertion-keys]] OVERLAY'
action=forward
retire=no
while :; do
  case "${1:-}" in
    --back) action=back ;;
    --migrate-only) action=migrate ;;
    --retire-assertion-keys) retire=yes ;;
    -*) echo "$usage" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
overlay=${1:?$usage}
# During a rollout, gateways still sign with the key that would be retired.
[ "$retire" = no ] || [ "$action" = migrate ] || { echo "$usage" >&2; exit 2; }
namespace=postern

# A tag can change between two nodes. Development builds its own images and pushes nothing.
case "$overlay" in
  */development | */development/ | development) ;;
  *)
    rendered=$(kubectl kustomize "$overlay")
    images=$(printf '%s\n' "$rendered" | sed -n 's/^ *-\{0,1\} *image: *//p' | sort -u)
    unpinned=$(printf '%s\n' "$images" | grep -Ev '@sha256:[0-9a-f]{64}$' || true)
    if [ -z "$images" ] || [ -n "$unpinned" ]; then
      echo "images without a digest (set digest: sha256:… for them in $overlay): ${unpinned:-none is named}" >&2
      exit 2
    fi
    ;;
esac

wait_for() {
  for name in "$@"; do
    kubectl --namespace "$namespace" rollout status "deployment/$name" --timeout=10m
  done
}
# A service comes after the services that it calls, because only new ones can answer new requests.
update_callees() {
  kubectl apply --kustomize "$overlay" --selector 'postern/phase notin (migrate, asks-universe, asks-evidence, edge)'
  wait_for pgbouncer keys universe
}
update_universe_callers() {
  kubectl apply --kustomize "$overlay" --selector postern/phase=asks-universe
  wait_for evidence sync
}
update_evidence_callers() {
  kubectl apply --kustomize "$overlay" --selector postern/phase=asks-evidence
  wait_for findings
}
update_edge() {
  kubectl apply --kustomize "$overlay" --selector postern/phase=edge
  wait_for gateway console
}

# The Job is deleted first, because the template of an existing Job cannot be changed.
migrate() {
  kubectl --namespace "$namespace" delete job migrate --ignore-not-found --wait
  if [ "$retire" = yes ]; then
    argument='[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--retire-assertion-keys"}]'
    kubectl apply --kustomize "$overlay" --selector postern/phase=migrate --dry-run=client --output json |
      kubectl patch --local --filename - --type json --patch "$argument" --output json |
      kubectl create --filename -
  else
    kubectl apply --kustomize "$overlay" --selector postern/phase=migrate
  fi
  # Waits for success or failure, because a failed Job would never succeed. The Job ends after 15 minutes.
  left=200
  while ! kubectl --namespace "$namespace" wait --for=condition=complete --timeout=5s job/migrate; do
    left=$((left - 1))
    if [ "$left" = 0 ] || kubectl --namespace "$namespace" wait --for=condition=failed --timeout=0 job/migrate; then
      echo 'migrations have failed: kubectl logs job/migrate' >&2
      exit 1
    fi
  done
}

kubectl apply --kustomize "$overlay" --selector postern/phase=before
case "$action" in
  back)
    update_edge
    update_evidence_callers
    update_universe_callers
    update_callees
    ;;
  migrate) migrate ;;
  forward)
    migrate
    update_callees
    update_universe_callers
    update_evidence_callers
    update_edge
    ;;
esac
