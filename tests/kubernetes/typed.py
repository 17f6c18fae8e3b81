"""Commands as users type them: ``kubectl`` with its plugin, and ``quorate``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.tidy.tree import ROOT


class Shell:
    """Runs commands in the project, one shell for each block."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        scripts = folder / "bin"
        scripts.mkdir()
        for name, start in (
            ("quorate", "from quorate.cli.main import run; run()"),
            ("kubectl-runs", "from quorate.cli.commands.runs_command import run; run()"),
        ):
            script = scripts / name
            script.write_text(f"#!{sys.executable}\n{start}\n", "utf-8")
            script.chmod(0o755)
        for name in ("deploy", "src"):
            (folder / name).symlink_to(ROOT / name)
        self.folder = folder
        self.env = {
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": str(ROOT / "src"),
        }

    def type(self, block: str) -> str:
        """Return the output of a block; every command must succeed."""
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", block],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout
