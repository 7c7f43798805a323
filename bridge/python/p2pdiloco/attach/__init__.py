"""The client of the attach protocol (docs/reference/attach.md): a trainer's ranks and their node.

The node is a process of its own. Its model lies in memory that the ranks map, and messages over
a Unix socket say who may read and write it when. Nothing here needs more than Python's standard
library.

    wire        messages and their bytes
    memory      the two mappings
    session     one rank's conversation with the node
    rendezvous  where the node listens, and how it is started
    statedir    a data directory for each trainer of a machine
    events      what happened on the node
    status      what the node says of itself over its API
    view        what a rank knows of its node
"""
