#!/usr/bin/env bash
# Uploads each file of FOLDER as evidence of DATE (YYYY-MM-DD), and stores the receipt beside it as FILE.receipt.json. Files with a receipt are
# skipped, so an interrupted run can be repeated.
set -euo pipefail

folder=${1:?usage: upload-folder.sh FOLDER DATE}
date=${2:?usage: upload-folder.sh FOLDER DATE}

for file in "$folder"/*; do
  receipt=$file.receipt.json
  if [[ ! -f $file || $file == *.receipt.json || -e $receipt ]]; then continue; fi
  read -r hash _ < <(sha256sum <"$file")
  metadata="{\"evidence_date\":\"$date\",\"source_system\":\"upload-folder\"}"
  # The same file, name and date have the same key: if the connection breaks, a repeated upload stores the file once.
  read -r key _ < <(printf '%s\n' "$date" "${file##*/}" "$hash" | sha256sum)
  curl --silent --show-error --fail-with-body --retry 3 \
    --header "Authorization: ApiKey $POSTERN_KEY" --header "Idempotency-Key: $key" \
    --form "metadata=$metadata;type=application/json" --form "file=@\"$file\"" \
    --output "$receipt.new" "$POSTERN_URL/api/v1/evidence"
  if ! grep --quiet "\"sha256\":\"$hash\"" "$receipt.new"; then
    echo "$file: the receipt names another hash; see $receipt.new" >&2
    exit 1
  fi
  mv "$receipt.new" "$receipt"
  echo "$file: uploaded"
done
