"""What runs on the instance of a worker in the place of a notebook server, beside the agent.

It joins the cluster that its environment names, answers the cluster's notebook, and leaves in
order. It holds the cluster's own secret and no other.
"""
