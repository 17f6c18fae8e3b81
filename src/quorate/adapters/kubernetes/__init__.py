"""Kubernetes: access to a cluster, its API, and the pods of runs (docs/adr/0041).

Start reading at ``exec_kubernetes.py``. ``run_steps.py`` takes the steps of one run;
``pod_gangs.py`` derives a run's status from its pods; ``kube_api.py`` makes all HTTP requests.
"""
