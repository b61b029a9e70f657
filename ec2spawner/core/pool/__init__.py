"""The warm pool's decisions: how many instances wait for which profile, when and where. Pure."""
