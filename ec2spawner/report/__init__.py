"""`ec2spawner report`: what was spent, by whom and for what, and how that compares with the bill.

`contents` folds the ledger's sums into a report; `table`, `delimited`, `document`, `page` and
`focus` write it; `bill` reads what AWS charged.
"""
