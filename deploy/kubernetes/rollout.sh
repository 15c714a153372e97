#!/bin/sh
# Rolls a release out: rollout.sh overlays/production. Migrations run to their end before any Deployment changes; they suit the
# running release too, so nothing has to stop for them. Then come the services, those that others ask first, and when they
# are all new, gateways and consoles:
# a service does what an older gateway asks of it, but cannot do what only a newer one knows to ask.
# To go back, with the older image in the overlay: rollout.sh --back overlays/production. The same in the reverse order, and the
# schema stays as it is.
# --migrate-only runs the migrations and touches no Deployment; --retire-assertion-keys goes on to them (postern migrate --help).
set -eu
usage='usage: rollout.sh [--back | --migrate-only [--retire-assertion-keys]] OVERLAY'
what=forward
retire=no
while :; do
  case "${1:-}" in
    --back) what=back ;;
    --migrate-only) what=migrate ;;
    --retire-assertion-keys) retire=yes ;;
    -*) echo "$usage" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
overlay=${1:?$usage}
# In a rollout gateways still sign with the key that would be retired.
[ "$retire" = no ] || [ "$what" = migrate ] || { echo "$usage" >&2; exit 2; }
namespace=postern

# What a tag leads to can change between a node and the next. Development builds its own, and pushes nothing.
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

finished() {
  for name in "$@"; do
    kubectl --namespace "$namespace" rollout status "deployment/$name" --timeout=10m
  done
}
# Services that ask another come behind it: what only a new one knows to answer would be refused by the older.
asked() {
  kubectl apply --kustomize "$overlay" --selector 'postern/phase notin (migrate, asks-universe, asks-evidence, edge)'
  finished pgbouncer keys universe
}
asking_universe() {
  kubectl apply --kustomize "$overlay" --selector postern/phase=asks-universe
  finished evidence sync
}
asking_evidence() {
  kubectl apply --kustomize "$overlay" --selector postern/phase=asks-evidence
  finished findings
}
edge() {
  kubectl apply --kustomize "$overlay" --selector postern/phase=edge
  finished gateway console
}

# A Job is made anew each time: the template of one that is there cannot be changed.
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
  # For its end, not for its success alone: a Job that has failed would be waited for in vain. It ends by itself after 15 minutes.
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
case "$what" in
  back)
    edge
    asking_evidence
    asking_universe
    asked
    ;;
  migrate) migrate ;;
  forward)
    migrate
    asked
    asking_universe
    asking_evidence
    edge
    ;;
esac
