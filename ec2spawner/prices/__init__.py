"""`ec2spawner prices`: what each profile costs in each region, read from AWS now.

`region` asks AWS, `rows` says what the answers mean, and `report` prints them.
"""
