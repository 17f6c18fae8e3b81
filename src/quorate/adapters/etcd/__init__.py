"""A client of etcd, with the calls that a ledger and its leader need (docs/adr/0045).

Start reading at ``etcd_client.py``. ``etcd_requests.py`` has the values that the client takes and
returns; no code outside this folder handles protobuf messages of etcd. Importing the client imports
gRPC, so ``store_urls.py`` imports the client only for a URL of etcd.
"""
