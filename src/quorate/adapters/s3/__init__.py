"""Object stores with the API of Amazon S3: addresses, signatures, and the archive there.

Start reading at ``archive_s3.py``.
"""
