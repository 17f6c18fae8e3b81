from __future__ import annotations

from quorate.cli.commands.pod_output import kubectl_words

RUN = {"metadata": {"name": "Train_1"}, "spec": {"owner": "vision"}}
JOB = {
    "metadata": {"name": "train-1234"},
    "spec": {"owner": "vision", "workload": "pytorchjob.kubeflow.org/team/train@1234"},
}


def test_pods_of_a_run_are_chosen_by_their_label_in_the_namespace_of_the_owner() -> None:
    words = kubectl_words(RUN)
    assert words[:3] == ["kubectl", "logs", "--namespace=quorate-vision"]
    assert words[3].startswith("--selector=quorate.dev/run=train-1-")
    assert words[4:] == ["--tail=-1"]
    assert "--namespace=other" in kubectl_words(RUN, namespace="other")


def test_pods_of_a_workload_are_chosen_as_its_controller_labels_them() -> None:
    assert kubectl_words(JOB, follow=True, prefix=True, tail=5) == [
        *("kubectl", "logs", "--namespace=team"),
        *("--selector=training.kubeflow.org/job-name=train", "--tail=5", "--prefix"),
        *("--follow", "--max-log-requests=1000"),
    ]
