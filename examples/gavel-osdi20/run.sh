#!/bin/sh
# Usage: run.sh TABLE [full]. Prints one JSON object for each policy, load and seed.
set -eu
table=$1
form=${2:-quick}
if [ "$form" = full ]; then
  measure=4000:5000 loads="1800 900 692.31 642.86" seeds="0 1 2"
else
  measure=20:60 loads="1800 642.86" seeds="0"
fi
for policy in isolated gandiva max_min_fairness_perf finish_time_fairness_perf; do
  for lam in $loads; do
    for seed in $seeds; do
      printf '{"policy": "%s", "lam": %s, "seed": %s, "figures": ' "$policy" "$lam" "$seed"
      quorate simulate --gavel-strict --policy "$policy" --generate "lam=$lam,seed=$seed" \
        --measure "$measure" --cluster v100=36,p100=36,k80=36 --throughputs "$table" -o json |
        tr -d '\n'
      echo '}'
    done
  done
done
