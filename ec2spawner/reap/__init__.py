"""`ec2spawner reap`: what this hub left in the account, what of it would end, and why.

`look` lists the cloud and then reads the store, `rows` says what follows for each thing (by
`core.leaks`, as the running hub does), `ending` ends what was asked for, and `report` prints it.
"""
