"""`ec2spawner reap`: what this hub left in the account, what of it would end, and why.

`scan` lists the cloud and then reads the store, `rows` decides about each resource (by
`core.instances.leaks`, as in the running hub), `termination` ends what was asked for, and `report`
prints it.
"""
