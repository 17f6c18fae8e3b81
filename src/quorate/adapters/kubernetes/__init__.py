"""Kubernetes: access to a cluster, its API, and pods as the work of runs (docs/adr/0041).

Begin with ``exec_kubernetes.py``; ``pod_gangs.py`` says what the pods of a run amount to, and
``kube_api.py`` is the one module that speaks HTTP.
"""
