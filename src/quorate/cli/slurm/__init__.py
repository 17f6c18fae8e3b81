"""What people who come from Slurm type: scripts and options of sbatch, formats of squeue and sacct.

The commands are in ``commands/``, and ``asked_jobs.py`` asks for runs; everything else is pure.
Start reading at ``sbatch_script.py``, options in our words; ``batch_job.py`` makes run documents of
them, and ``job_rows.py`` shows runs as jobs (docs/adr/0043).
"""
