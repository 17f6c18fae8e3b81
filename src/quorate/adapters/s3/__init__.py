"""Object stores that speak the protocol of Amazon S3: addresses, signatures, and the archive there.

Start at ``archive_s3.py``.
"""
