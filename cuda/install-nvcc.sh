#!/usr/bin/env bash
# Installs nvcc 13.0 from PyPI into a folder (default: cuda/toolkit). Needs python3 with pip; no GPU, no driver.
#
#   cuda/install-nvcc.sh [FOLDER]
#   . cuda/toolkit/env
#   cargo build --release -p interlock-cuda
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/toolkit}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

python3 -m pip install --quiet --no-deps --upgrade --target "$folder/site" \
    'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' \
    'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-runtime==13.0.*'

root=$folder/site/nvidia/cu13
ln -sfn lib "$root/lib64"
chmod +x "$root"/bin/* "$root"/nvvm/bin/*

cat > "$folder/env" <<END
# cust and the build script of interlock-cuda find the toolkit here.
export CUDA_LIBRARY_PATH="$root"
# sppark is used for its headers: nothing of it is to be compiled by its own build script.
export NVCC=off
END
"$root/bin/nvcc" --version | tail -n 2
echo "Now: . $folder/env && cargo build --release -p interlock-cuda"
