#!/usr/bin/env sh
# Start a vLLM server for WASP on a machine with an accelerator:  sh infra/vllm.sh MODEL [further arguments of vllm serve]
# VLLM_HOST, VLLM_PORT: its address (127.0.0.1, 8000). VLLM_API_KEY, if set, is the key that clients need. It is ready when
# http://HOST:PORT/health answers 200. `generation-config vllm`: sampling follows the request, not a file of the model.
set -eu
model=${1:?"the model is missing: sh infra/vllm.sh MODEL, a hub id or a folder"}
shift
exec vllm serve "$model" --host "${VLLM_HOST:-127.0.0.1}" --port "${VLLM_PORT:-8000}" \
	--max-num-seqs 64 --generation-config vllm "$@"
