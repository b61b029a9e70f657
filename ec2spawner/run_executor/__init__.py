"""What runs on the instance of a run in the place of a notebook server, beside the agent.

It asks the hub through the agent for its work, executes the notebook or script in the home, reports
how far it is, and then how it ended.
"""
