#!/usr/bin/env bash
# One job in one allocation: a scheduler with the service, a worker for each task, and a client that waits for the end.
#
#   sbatch --ntasks=32 --time=04:00:00 deploy/slurm/fit.sh job.toml
#
# What is finished survives a node, a scheduler or the time limit: the job is queued again before the limit, and goes on
# from its trees. Beside the job file, below $DISTFOREST_JOBS (./distforest-jobs), the folder must be seen by all nodes.
#
#SBATCH --job-name=distforest
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -euo pipefail

spec=${1:?usage: sbatch [options] fit.sh SPEC}
: "${SLURM_JOB_ID:?start this script with sbatch}" "${SLURM_NTASKS:?ask for workers with --ntasks}"

root=${DISTFOREST_JOBS:-$PWD/distforest-jobs}/slurm-$SLURM_JOB_ID
scratch=${TMPDIR:-/tmp}/distforest-slurm-$SLURM_JOB_ID
export scratch DISTFOREST_SCRATCH=$scratch/staged NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR-$scratch/numba}
export DISTFOREST_JOB_ROOT=$root/jobs DISTFOREST_SCHEDULER_FILE=$root/scheduler.json
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
export threads=${SLURM_CPUS_PER_TASK:-1} memory=auto
if [[ -n ${SLURM_MEM_PER_CPU:-} ]]; then
    memory=$((SLURM_MEM_PER_CPU * threads * 9 / 10))MiB # the nanny needs some of it
fi

# The network between the nodes; Dask's choice unless DISTFOREST_INTERFACE says ib0 or the like.
export network=${DISTFOREST_INTERFACE:+--interface=$DISTFOREST_INTERFACE}

# Who reaches a Dask port runs code as you, and a cluster has many users: only holders of these certificates are let in.
(umask 077 && mkdir -p "$root")
export DASK_CONFIG=$root/certificates
if [[ ! -e $DASK_CONFIG/dask.yaml ]]; then # one certificate, of its own authority, for all parts of this job
    (umask 077 && mkdir -p "$DASK_CONFIG" && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc \
        -days 365 -subj /CN=distforest -keyout "$DASK_CONFIG/key.pem" -out "$DASK_CONFIG/cert.pem")
    pair="{cert: \"$DASK_CONFIG/cert.pem\", key: \"$DASK_CONFIG/key.pem\"}"
    cat > "$DASK_CONFIG/dask.yaml" <<END
distributed: {comm: {default-scheme: tls, require-encryption: true, tls: {
  ca-file: "$DASK_CONFIG/cert.pem", scheduler: $pair, worker: $pair, client: $pair}}}
END
fi
# A folder on this node's own disk, if nobody else has made it before.
own() {
    (umask 077 && mkdir -p "$1")
    [[ -O $1 ]] || { echo "$1 belongs to another user" >&2; return 1; }
}

# A worker that is silent for so long is given up.
export DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=30s

# A scheduler that is killed is followed by another, which goes on with the job; one that cannot start (1) is not.
# Its address is forgotten with it, so that workers wait for the new one.
schedule() {
    local code=0
    while [[ $code != 1 ]]; do
        rm -f "$DISTFOREST_SCHEDULER_FILE"
        code=0
        dask scheduler --scheduler-file "$DISTFOREST_SCHEDULER_FILE" --port 0 --dashboard-address 127.0.0.1:0 \
            ${network:+"$network"} --preload distforest.service &
        child=$!
        wait "$child" || code=$?
        sleep 1
    done
    return 1
}

# A worker ends with exit code 0 when its scheduler dies: it is started again whatever its code, until its step ends.
work() {
    own "$scratch"
    while true; do
        dask worker --scheduler-file "$DISTFOREST_SCHEDULER_FILE" --nworkers 1 --nthreads "$threads" \
            --memory-limit "$memory" --local-directory "$scratch" --dashboard-address 127.0.0.1:0 --death-timeout 60 \
            ${network:+"$network"} &
        child=$!
        wait "$child" || true
        sleep 2
    done
}

# The same id at every start of this SLURM job: what was submitted before is waited for, not begun anew.
submit() {
    until [[ -s $DISTFOREST_SCHEDULER_FILE ]]; do sleep 0.2; done
    distforest submit "$spec" --id "slurm-$SLURM_JOB_ID" --if-exists ok --wait &
    child=$!
    wait "$child"
}

export -f own work
child=
stop() {
    trap - TERM
    if [[ -n $child ]]; then
        kill "$child" 2>/dev/null || true
        wait "$child" || true
    fi
    exit 143
}
export -f stop
parts=()
end() {
    trap - EXIT USR1
    kill "${parts[@]}" 2>/dev/null || true
    wait "${parts[@]}" 2>/dev/null || true
    if ((${SLURM_NNODES:-1} > 1)); then
        timeout 20 srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 rm -rf "$scratch" || true
    fi
    rm -rf "$scratch"
}
again() {
    echo "the time is up: SLURM job $SLURM_JOB_ID is queued again and will go on" >&2
    end
    scontrol requeue "$SLURM_JOB_ID"
    sleep 60 # until SLURM ends this script: a job that ends by itself is not started again
}

own "$scratch"
(trap stop TERM; schedule) & parts+=($!)
srun --ntasks="$SLURM_NTASKS" --kill-on-bad-exit=0 bash -c 'trap stop TERM; work' & parts+=($!)
(trap stop TERM; submit) & parts+=($!)
trap end EXIT
trap again USR1

# The first to end decides: the client when the job has ended, another only if it could not start.
wait -n "${parts[@]}"
