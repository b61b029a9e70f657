"""What a hub does for hundreds of users at once, with instances that cost next to nothing."""
