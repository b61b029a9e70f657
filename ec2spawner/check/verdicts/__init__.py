"""What AWS's answers mean for a hub. Pure: facts in, findings out."""
