#!/bin/sh
# srun of Quorate: starts the tasks of a job's step on this node, and waits for them.
fail() { echo "srun: error: $*" >&2; exit 1; }
count() { case $2 in ''|*[!0-9]*|0) fail "$1: must be a number from 1, got '$2'";; esac; }
tasks= per_node= per_task=${SLURM_GPUS_PER_TASK-} nodes= label= kill_all=
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break;;
    --*=*) name=${1%%=*} value=${1#*=};;
    -n|-N|-c|-J|-t|-G|-w|--ntasks|--nodes|--ntasks-per-node|--gpus-per-task|--cpus-per-task|\
    --job-name|--time|--mem|--cpu-bind|--gpu-bind|--export|--mem-bind|--distribution)
      [ $# -gt 1 ] || fail "$1: needs a value"
      name=$1 value=$2; shift;;
    -[nNcG]*) name=-$(printf %.1s "${1#-}") value=${1#-?};;
    -l|--label|-u|--unbuffered|-K|--kill-on-bad-exit|--exclusive|--exact|--overlap)
      name=$1 value=;;
    -*) name=$1 value=;;
    *) break;;
  esac
  case $name in
    -n|--ntasks) count "$name" "$value"; tasks=$value;;
    -N|--nodes) count "$name" "$value"; nodes=$value;;
    --ntasks-per-node) count "$name" "$value"; per_node=$value;;
    --gpus-per-task) count "$name" "${value##*:}"; per_task=${value##*:};;
    -l|--label) label=1;;
    -K|--kill-on-bad-exit) kill_all=1;;
    --export) [ "$value" = ALL ] || fail "--export=$value: set variables in the script";;
    -u|--unbuffered|--exclusive|--exact|--overlap|-c|--cpus-per-task|-J|--job-name|-t|--time|\
    --mem|--cpu-bind|--gpu-bind|--mem-bind|--distribution|-G|--gpus) ;;
    *) fail "$name: is not known here; tasks are started on one node, without MPI";;
  esac
  shift
done
[ $# -gt 0 ] || fail "no command: write srun [-n TASKS] COMMAND [WORD]..."
[ "${nodes:-${SLURM_NNODES:-1}}" = 1 ] ||
  fail "the job has ${SLURM_NNODES:-$nodes} nodes, and tasks are started on this one only;" \
    "write srun -N 1, or submit the program itself: quorate submit"
tasks=${tasks:-${per_node:-${SLURM_NTASKS:-1}}}
gpus_of() { # print the GPUs of task $1: $per_task of the job's GPUs on this node
  printf %s "${CUDA_VISIBLE_DEVICES-}" |
    awk -F, -v n="$per_task" -v at="$1" '{for (i = at * n + 1; i <= at * n + n; i++)
      {if (i > NF) exit 1; printf "%s%s", (i > at * n + 1 ? "," : ""), $i}}'
}
run=$(mktemp -d) || exit 1
pids= stop=
trap 'rm -rf "$run"' EXIT
# A signal that reaches a child between its fork and its traps is lost. So a child creates a file
# when its traps are set, and gets the signal only then. A child that has died is not waited for.
stop_child() { # stop process $1 as soon as its file $2 exists
  tries=0
  until [ -e "$2" ] || [ "$tries" -ge 100 ] || ! kill -0 "$1" 2>/dev/null; do
    sleep 0.05
    tries=$((tries + 1))
  done
  kill "$1" 2>/dev/null
}
stop_tasks() {
  rank=0
  for pid in $pids; do
    stop_child "$pid" "$run/shell.$rank"
    rank=$((rank + 1))
  done
}
trap 'stop=1; stop_tasks' TERM INT
gone() { # wait for process $1, even if signals interrupt the wait; set $code to its exit code
  wait "$1"; code=$?
  while kill -0 "$1" 2>/dev/null; do wait "$1"; code=$?; done
}
task=0
while [ "$task" -lt "$tasks" ]; do
  if [ -n "$label" ]; then
    mkfifo "$run/$task" || exit 1
    sed "s/^/$task: /" <"$run/$task" &
  fi
  (
    [ -z "$label" ] || exec >"$run/$task" # first, because sed waits for a writer
    own= stop=
    stop_own() { stop_child "$own" "$run/program.$task"; }
    trap 'stop=1; [ -z "$own" ] || stop_own' TERM INT
    : >"$run/shell.$task"
    export SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NTASKS=$tasks SLURM_NPROCS=$tasks \
      SLURM_STEP_NUM_TASKS=$tasks SLURM_STEP_TASKS_PER_NODE=$tasks RANK=$task LOCAL_RANK=$task \
      WORLD_SIZE=$tasks LOCAL_WORLD_SIZE=$tasks
    if [ -n "$per_task" ] && [ -n "${CUDA_VISIBLE_DEVICES-}" ]; then
      CUDA_VISIBLE_DEVICES=$(gpus_of "$task") ||
        fail "task $task: the job has too few GPUs here for $tasks tasks with $per_task each"
      export CUDA_VISIBLE_DEVICES SLURM_STEP_GPUS="$CUDA_VISIBLE_DEVICES"
    fi
    (trap - TERM INT; : >"$run/program.$task"; exec "$@") &
    own=$!
    [ -z "$stop" ] || stop_own # the signal came before the program started
    gone "$own"
    if [ "$code" != 0 ] && [ -n "$kill_all" ]; then
      echo "$code" >>"$run/codes"
      kill "$$" # stop the other tasks, too
    fi
    exit "$code"
  ) &
  pids="$pids $!"
  task=$((task + 1))
done
[ -z "$stop" ] || stop_tasks # the signal came while tasks were started
worst=0
for child in $pids; do
  gone "$child"
  [ "$code" -le "$worst" ] || worst=$code
done
wait
[ ! -s "$run/codes" ] || read -r worst <"$run/codes"
exit "$worst"
