"""A client of etcd, as far as a ledger and its leader need one (docs/adr/0045).

``etcd_client.py`` is where reading starts. ``etcd_requests.py`` has the values that it takes and
gives; nothing outside this folder sees a message of protobuf. Importing the client imports gRPC:
``store_urls.py`` does so for a URL of etcd only.
"""
