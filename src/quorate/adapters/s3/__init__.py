"""Object stores with the API of Amazon S3: addresses, signatures, and an archive in such a store.

Start reading at ``archive_s3.py``.
"""
