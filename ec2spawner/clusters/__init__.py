"""A cluster for a notebook, from the notebook's own kernel: `ec2spawner.cluster(4)`.

The kernel may run any Python: this package needs the standard library and `ec2spawner.wire`. The
hub decides and pays; an existing engine runs the work.
"""
