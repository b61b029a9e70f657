"""The instance actions: launch, fleet, states, capacity, quotas."""
