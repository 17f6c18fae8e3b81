"""Kubernetes: access to a cluster, its API, and pods as the work of runs (docs/adr/0041).

Begin with ``exec_kubernetes.py``; ``run_steps.py`` takes the steps of one run, ``pod_gangs.py``
says what its pods amount to, and ``kube_api.py`` is the one module that speaks HTTP.
"""
