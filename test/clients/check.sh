#!/usr/bin/env bash
# Generates a Go client with oapi-codegen and TypeScript types with openapi-typescript from the OpenAPI document, and
# compiles them. Fails where a generator fails or its output does not compile. TypeScript is skipped without npm.
set -euo pipefail
oapi_codegen=github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.0
openapi_typescript=openapi-typescript@7.13.0
typescript=typescript@5.9.3

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
document="$scratch/openapi.json"
go run ./cmd/ledgerline openapi >"$document"

mkdir "$scratch/go"
# oapi-codegen drops schemas that only webhooks use, and refers to them, unless it keeps all.
printf 'package: client\ngenerate: {models: true, client: true}\noutput-options: {skip-prune: true}\n' >"$scratch/config.yaml"
GOFLAGS= go run "$oapi_codegen" -config "$scratch/config.yaml" -o "$scratch/go/client.go" "$document"
(
	cd "$scratch/go"
	export GOFLAGS=-mod=mod GOWORK=off
	go mod init client 2>/dev/null
	go mod tidy 2>/dev/null
	go vet .
)
echo "Go: $(grep -c '^func (c \*Client) ' "$scratch/go/client.go") client functions"

if ! command -v npm >/dev/null; then
	echo "TypeScript: skipped, npm is not installed"
	exit
fi
npx --yes "$openapi_typescript" "$document" -o "$scratch/api.d.ts" >/dev/null
npx --yes --package "$typescript" tsc --noEmit --strict "$scratch/api.d.ts"
echo "TypeScript: $(wc -l <"$scratch/api.d.ts") lines of types"
