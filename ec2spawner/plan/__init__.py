"""`ec2spawner plan`: whether a class can start, what it costs, and how long its starts take.

`read` asks AWS and the store for `facts`; `verdicts`, `costs` and `reservations` say what they
mean, and `report` prints it. Nothing is started or changed.
"""
