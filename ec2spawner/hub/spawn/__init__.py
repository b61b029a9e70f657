"""From a user's choice to a lease: profiles, idle policy, home, user-data."""
