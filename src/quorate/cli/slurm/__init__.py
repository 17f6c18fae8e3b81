"""Slurm's command line: scripts and options of sbatch, formats of squeue and sacct.

The commands are in ``commands/``, and ``asked_jobs.py`` requests runs; everything else is pure.
Start reading at ``sbatch_script.py``, which reads options; ``batch_job.py`` makes Run documents
from them, and ``job_rows.py`` shows runs as jobs (docs/adr/0043).
"""
