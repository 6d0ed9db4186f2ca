#!/bin/sh
# Make the environment of the peers in a folder of its own: lab/tvm_ios_lab/peers/setup.sh FOLDER
# PYTHON=python3.12 chooses the interpreter; further arguments go to pip, as in
#   lab/tvm_ios_lab/peers/setup.sh FOLDER --extra-index-url https://download.pytorch.org/whl/cpu
set -eu
if [ "$#" -eq 0 ]; then
  echo "usage: $0 FOLDER [PIP OPTION ...]; FOLDER must not be the project's .venv" >&2
  exit 2
fi
folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(basename "$folder")" = .venv ]; then
  echo "$0: $folder looks like the project's environment; give the peers a folder of their own" >&2
  exit 2
fi
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
  -r "$here/requirements.txt" "$@"
"$folder/bin/python" -c 'import onnx, onnxruntime, openvino, torch'
echo "ready: $folder/bin/python -m tvm_ios_lab.peers.measure"
